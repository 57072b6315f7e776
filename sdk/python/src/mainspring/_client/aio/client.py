"""What users of the asyncio client see."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Literal

from ..._core.watch import WATCH_EVENTS_MAX, Gap, WatchState
from ..._core.wire import NOTHING, Message
from .. import find
from .link import Link
from .watch import Watch


class Client:
    """A connection to a daemon. Make one with `connect`.

    Several tasks may use it at the same time. When the connection is lost it connects again, for as long as `connect`
    was told, and repeats what is unfinished under the same ids.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    async def send(
        self,
        type: str,
        data: Any = NOTHING,
        *,
        timeout: float | None = None,
        id: str | None = None,
        correlation: str | None = None,
        metadata: dict[str, Any] | None = None,
        repeat: bool = True,
        on_progress: Callable[[Any], object] | None = None,
    ) -> Any:
        """Sends a command and returns the data of its reply. Cancelling the task cancels the command.

        Args:
            type: The type of the command, such as `Notes.Add`.
            data: Anything that JSON can express.
            timeout: Seconds that it may take; without it, as the daemon is set (30 s as shipped).
            id: Its id; a fresh one if absent. The same id again within two minutes gets the same answer.
            correlation: The workflow that it belongs to.
            metadata: Further members of the metadata, which travel unchanged.
            repeat: Whether to send it again, under the same id, when the connection is lost before the answer.
            on_progress: Called with the data of each progress event of this request.

        Raises:
            RequestError: It ended in an error.
            ConnectionFailed: There is no answer.
            InvalidMessage: It cannot be sent.
        """
        return await self._request("command", type, data, timeout, id, correlation, metadata, repeat, on_progress)

    async def query(
        self,
        type: str,
        data: Any = NOTHING,
        *,
        timeout: float | None = None,
        id: str | None = None,
        correlation: str | None = None,
        metadata: dict[str, Any] | None = None,
        repeat: bool = True,
        on_progress: Callable[[Any], object] | None = None,
    ) -> Any:
        """Sends a query and returns the data of its reply. The arguments are those of `send`."""
        return await self._request("query", type, data, timeout, id, correlation, metadata, repeat, on_progress)

    async def emit(
        self,
        type: str,
        data: Any = NOTHING,
        *,
        id: str | None = None,
        correlation: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Tells an event, and returns when the daemon has taken it.

        Raises:
            RequestError: The daemon refused it.
            ConnectionFailed: Whether it was taken is not known. It is never told twice.
        """
        await self._link.wait_for_room()
        await self._link.finish(self._link.core.event(type, data, id=id, correlation=correlation, metadata=metadata))

    def watch(self, *types: str, limit: int = WATCH_EVENTS_MAX, on_gap: Callable[[Gap], object] | None = None) -> Watch:
        """Events of these types, as an asynchronous iterator::

            async with ms.watch("Order.*") as orders:
                async for event in orders:
                    ...

        The subscription holds from the beginning of `async with` (or of the first step of the iterator).

        Args:
            types: Types, everything below a name (`Order.*`), or `*`.
            limit: Events that wait to be read. Beyond that the oldest are dropped.
            on_gap: Called where events are missing: dropped, or told while there was no connection. It may raise.
        """
        return Watch(self._link, WatchState(types, limit), on_gap)

    async def result(self, id: str) -> Any:
        """The outcome of a command that was sent before, by its id (of daemons that keep a journal)."""
        return await self.query("Sys.Result", {"id": id})

    async def restrict(self, *, allow: list[str] | None = None, operator: bool | None = None) -> dict[str, Any]:
        """Gives rights up, for good: on this connection, and first of all on every later one.

        Args:
            allow: Types that may still be sent and seen.
            operator: `False`: no operator any more.

        Returns:
            The rights that are left.
        """
        await self._link.wait_for_room()
        rights: dict[str, Any] = await self._link.finish(self._link.core.restrict(allow, operator))
        return rights

    async def close(self) -> None:
        """Closes the connection. What is under way ends with `ClientClosed`."""
        self._link.close()
        await asyncio.sleep(0)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _request(
        self,
        kind: Literal["command", "query"],
        type_name: str,
        data: Any,
        timeout: float | None,
        id: str | None,
        correlation: str | None,
        metadata: dict[str, Any] | None,
        repeat: bool,
        on_progress: Callable[[Any], object] | None,
    ) -> Any:
        if self._link.is_crowded:
            await self._link.wait_for_room()
        pending = self._link.core.request(
            kind, type_name, data, timeout=timeout, id=id, correlation=correlation, metadata=metadata, repeat=repeat,
            on_progress=on_progress,
        )  # fmt: skip
        return await self._link.finish(pending)


class _Connecting:
    """What `connect` returns: to be awaited, or entered with `async with`."""

    def __init__(self, make: Callable[[], Awaitable[Client]]) -> None:
        self._make = make
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._make().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._make()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()


def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    tcp: str | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    wait: float = 1.0,
    reconnect: float = 30.0,
    on_other: Callable[[Message], object] | None = None,
) -> _Connecting:
    """Connects to a daemon: `async with connect() as ms`, or `ms = await connect()`.

    Without arguments the daemon is found as the commands find it: by `MAINSPRING_TCP` and `MAINSPRING_SOCKET`, by
    `mainspring.toml` in the current folder or the nearest above it, or at the user's own socket.

    Args:
        socket: The path of its Unix socket.
        tcp: Its host and port, such as `127.0.0.1:7700`.
        token: The token for TCP.
        token_file: A file with the token, which only its owner may read.
        wait: Seconds to wait for a daemon that is still starting.
        reconnect: Seconds to try again when the connection is lost; 0 switches that off.
        on_other: Called with outcomes that nobody waits for, such as those of scheduled messages.

    Raises:
        ConnectionFailed: There is no daemon, or it does not let us in.
    """

    async def make() -> Client:
        link = Link(find.find(socket, tcp, token, token_file), reconnect, on_other)
        try:
            await link.open(time.monotonic() + wait)
        except BaseException:
            link.close()
            raise
        if link.core.closed is not None:
            raise link.core.closed
        return Client(link)

    return _Connecting(make)
