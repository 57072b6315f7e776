"""A subscription with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType

from ..._core.watch import Gap, WatchState
from ..._core.wire import Message
from .link import Link


class Watch:
    """A subscription: an asynchronous context manager and iterator of events (see `Client.watch`)."""

    def __init__(self, link: Link, state: WatchState, on_gap: Callable[[Gap], object] | None) -> None:
        self._link = link
        self._state = state
        self._on_gap = on_gap
        self._has_begun = False
        self._ready = asyncio.Event()
        state.on_ready = self._ready.set

    @property
    def types(self) -> tuple[str, ...]:
        """What is subscribed to."""
        return self._state.types

    async def start(self) -> None:
        """Subscribes; does nothing the second time."""
        if not self._has_begun:
            self._has_begun = True
            await self._link.wait_for_room()
            await self._link.finish(self._link.core.subscribe(self._state))

    async def close(self) -> None:
        """Ends the subscription. Events that wait can still be read."""
        self._link.core.unsubscribe(self._state)
        self._link.flush_open()

    async def __aenter__(self) -> Watch:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        await self.start()
        while True:
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
                raise StopAsyncIteration
            self._ready.clear()
            await self._ready.wait()
