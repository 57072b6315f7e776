"""A subscription, and a request that is under way, without asyncio."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from ..._core.pending import Pending
from ..._core.watch import Gap, WatchState
from ..._core.wire import Message
from .link import Link


class Request:
    """A request that is under way (see `Client.start`)."""

    def __init__(self, link: Link, pending: Pending) -> None:
        self._link = link
        self._pending = pending

    @property
    def id(self) -> str:
        """Its id."""
        return self._pending.id

    @property
    def is_done(self) -> bool:
        """Whether its outcome is there."""
        return self._pending.outcome is not None

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the outcome, and returns the data of the reply or raises the error.

        Raises:
            TimeoutError: It is not there within so many seconds; it is still under way.
        """
        until = None if timeout is None else time.monotonic() + timeout
        with self._link.lock:
            self._link.flush()
            is_there = self._link.wait(lambda: self._pending.outcome is not None, until)
        if not is_there:
            raise TimeoutError(f"{self._pending.type} is not answered yet")
        return self._pending.result()

    def cancel(self) -> None:
        """Cancels it: `result` raises `Cancelled`, and the daemon is told."""
        with self._link.lock:
            self._link.core.cancel(self._pending)
            self._link.flush_quietly()
            self._link.turn.notify_all()


class Watch:
    """A subscription: a context manager and iterator of events (see `Client.watch`)."""

    def __init__(self, link: Link, state: WatchState, on_gap: Callable[[Gap], object] | None) -> None:
        self._link = link
        self._state = state
        self._on_gap = on_gap
        self._has_begun = False

    @property
    def types(self) -> tuple[str, ...]:
        """What is subscribed to."""
        return self._state.types

    def start(self) -> None:
        """Subscribes; does nothing the second time."""
        if not self._has_begun:
            self._has_begun = True
            with self._link.lock:
                pending = self._link.core.subscribe(self._state)
                self._link.finish(pending)
            pending.result()

    def next(self, timeout: float | None = None) -> Message:
        """The next event.

        Raises:
            TimeoutError: None came within so many seconds.
            StopIteration: The watch is closed.
        """
        self.start()
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._link.lock:
                item = self._state.take()
            if isinstance(item, Message):
                return item
            if item is not None:
                if self._on_gap is not None:
                    self._on_gap(item)
                continue
            if self._state.is_over:
                if self._state.error is not None:
                    raise self._state.error
                raise StopIteration
            with self._link.lock:
                if not self._link.wait(self._has_something, until):
                    raise TimeoutError("no event has come")

    def _has_something(self) -> bool:
        return self._state.has_items or self._state.is_over

    def close(self) -> None:
        """Ends the subscription. Events that wait can still be read."""
        with self._link.lock:
            self._link.core.unsubscribe(self._state)
            self._link.flush_quietly()
            self._link.turn.notify_all()

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        return self.next()
