"""What a handler may do besides returning: ask, emit, log, see its deadline, notice that it was cancelled."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

from ._core.actor import Call, tell
from ._core.wire import NOTHING, Message
from .errors import Cancelled

RequestKind = Literal["command", "query"]


class _Base:
    __slots__ = ("_call", "_port")

    def __init__(self, call: Call | None, port: Any) -> None:
        # The port is the face's: `ask`, `emit` and `poll`, which are coroutines for `Context`.
        self._call = call
        self._port = port

    @property
    def message(self) -> Message:
        """The message that the handler works on."""
        if self._call is None:
            raise LookupError("a background task has no message")
        return Message(self._call.raw)

    @property
    def id(self) -> str:
        """The id of that message."""
        return self.message.id

    @property
    def type(self) -> str:
        """The type of that message."""
        return self.message.type

    @property
    def correlation(self) -> str | None:
        """The workflow that it belongs to. Whatever the handler says belongs to the same."""
        return self.message.correlation

    @property
    def deadline(self) -> float | None:
        """When the requester's time is up, on the clock of `time.monotonic`; `None` if the request does not say."""
        left = self.left
        return None if left is None else time.monotonic() + left

    @property
    def left(self) -> float | None:
        """Seconds until then; negative when the time is up."""
        return None if self._call is None else self._call.left()

    @property
    def wants_progress(self) -> bool:
        """Whether the requester asked to be told of progress."""
        return self._call is not None and self._call.raw["metadata"].get("progress") is True

    def log(self, *words: object) -> None:
        """Writes a line to standard error. The daemon logs it with the capability's name."""
        tell(" ".join(str(word) for word in words))

    def _progress_type(self) -> str:
        return f"{self.type}.Progress"


class Context(_Base):
    """The context of a handler that is a coroutine (`async def`)."""

    __slots__ = ()

    @property
    def cancelled(self) -> bool:
        """Whether the requester has cancelled. The handler is also told by `asyncio.CancelledError`."""
        return self._call is not None and self._call.is_cancelled

    async def ask(
        self,
        type: str,
        data: Any = NOTHING,
        *,
        kind: RequestKind | None = None,
        timeout: float | None = None,
        on_progress: Callable[[Any], object] | None = None,
    ) -> Any:
        """Sends a command or query to another capability and returns the data of its reply.

        The kind is the one that the capability declares for this type, else a query.

        Raises:
            RequestError: It ended in an error.
            InvalidMessage: It cannot be sent.
        """
        return await self._port.ask(self._call, kind, type, data, timeout, on_progress)

    async def send(self, type: str, data: Any = NOTHING, *, timeout: float | None = None) -> Any:
        """Sends a command, and returns the data of its reply."""
        return await self._port.ask(self._call, "command", type, data, timeout, None)

    async def query(self, type: str, data: Any = NOTHING, *, timeout: float | None = None) -> Any:
        """Sends a query, and returns the data of its reply."""
        return await self._port.ask(self._call, "query", type, data, timeout, None)

    async def emit(self, type: str, data: Any = NOTHING) -> None:
        """Tells an event. Waits while the daemon does not read."""
        await self._port.emit(self._call, type, data)

    async def progress(self, data: Any) -> None:
        """Tells the requester how far the work is: the event `<type of the request>.Progress`.

        Nothing is said to a requester who did not ask for it (`wants_progress`).
        """
        if self.wants_progress:
            await self._port.emit(self._call, self._progress_type(), data)

    async def sleep(self, seconds: float) -> None:
        """Waits; the same as `asyncio.sleep`."""
        import asyncio

        await asyncio.sleep(seconds)


class SyncContext(_Base):
    """The context of a handler that is a plain function (`def`)."""

    __slots__ = ()

    @property
    def cancelled(self) -> bool:
        """Whether the requester has cancelled. Long work looks here now and then."""
        self._port.poll(self._call, 0)
        return self._call is not None and self._call.is_cancelled

    def raise_if_cancelled(self) -> None:
        """Ends the handler if the requester has cancelled."""
        if self.cancelled:
            raise Cancelled(499, "cancelled")

    def ask(
        self,
        type: str,
        data: Any = NOTHING,
        *,
        kind: RequestKind | None = None,
        timeout: float | None = None,
        on_progress: Callable[[Any], object] | None = None,
    ) -> Any:
        """Sends a command or query to another capability and returns the data of its reply.

        The kind is the one that the capability declares for this type, else a query.

        Raises:
            RequestError: It ended in an error.
            InvalidMessage: It cannot be sent.
        """
        return self._port.ask(self._call, kind, type, data, timeout, on_progress)

    def send(self, type: str, data: Any = NOTHING, *, timeout: float | None = None) -> Any:
        """Sends a command, and returns the data of its reply."""
        return self._port.ask(self._call, "command", type, data, timeout, None)

    def query(self, type: str, data: Any = NOTHING, *, timeout: float | None = None) -> Any:
        """Sends a query, and returns the data of its reply."""
        return self._port.ask(self._call, "query", type, data, timeout, None)

    def emit(self, type: str, data: Any = NOTHING) -> None:
        """Tells an event. Waits while the daemon does not read."""
        self._port.emit(self._call, type, data)

    def progress(self, data: Any) -> None:
        """Tells the requester how far the work is: the event `<type of the request>.Progress`.

        Nothing is said to a requester who did not ask for it (`wants_progress`).
        """
        if self.wants_progress:
            self._port.emit(self._call, self._progress_type(), data)

    def sleep(self, seconds: float) -> None:
        """Waits, and ends the handler if the requester cancels meanwhile."""
        self._port.poll(self._call, seconds)
        if self._call is not None and self._call.is_cancelled:
            raise Cancelled(499, "cancelled")


__all__ = ["Context", "SyncContext"]
