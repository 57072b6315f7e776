"""The connection of the asyncio client, across reconnections."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from ..._core.client import ClientCore
from ..._core.pending import Pending
from ..._core.wire import Message
from ...errors import ConnectionFailed, ConnectionLost, NoAnswer, NoDaemon, NotADaemon
from .. import find
from ..find import ADMISSION, BACKOFF, FINAL, Address
from .sockets import connect_socket


class _Bytes(asyncio.Protocol):
    """The bytes between a client and its daemon."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._link.on_made(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self._link.on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.on_lost(exc)

    def pause_writing(self) -> None:
        self._link.on_paused(True)

    def resume_writing(self) -> None:
        self._link.on_paused(False)


class Link:
    """The connection of a client, across reconnections. It ends what the core cannot: sockets, tasks and timers."""

    def __init__(self, address: Address, reconnect: float, on_other: Callable[[Message], object] | None) -> None:
        self._address = address
        self._reconnect = reconnect
        self.core = ClientCore(address.token, on_other)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        #: Whether somebody is in `_open`, and what wakes him.
        self._is_opening = False
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._is_paused = False
        self._failure: ConnectionFailed | None = None

    @property
    def is_crowded(self) -> bool:
        """Whether the next request has to wait for room."""
        return self._is_paused or not self.core.has_room

    def close(self) -> None:
        """Ends everything, for good."""
        self.core.close()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._timer is not None:
            self._timer.cancel()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
        self._room.set()

    async def finish(self, pending: Pending) -> Any:
        """Sends a request, waits for its outcome, and returns the data of its reply."""
        done: asyncio.Future[None] = self._loop.create_future()
        pending.on_done = partial(_set_done, done)
        if pending.outcome is None:
            self._flush()
            self._arm()
            try:
                await done
            except asyncio.CancelledError:
                self.core.cancel(pending)
                self._flush()
                raise
            finally:
                if not self._room.is_set():
                    self._look_for_room()
        return pending.result()

    async def wait_for_room(self) -> None:
        """Nothing grows without a bound: who asks too much waits."""
        while self.core.closed is None and (self._is_paused or not self.core.has_room):
            self._room.clear()
            await self._room.wait()

    def _look_for_room(self) -> None:
        if not self._is_paused and self.core.has_room:
            self._room.set()

    def _flush(self) -> None:
        output = self.core.take_output()
        if output and self._transport is not None:
            self._transport.write(output)
        if self._transport is None and not self._is_opening and self._connecting is None and self.core.closed is None:
            self._connecting = self._loop.create_task(self._connect_again())

    # The connection.

    async def open(self, until: float) -> None:
        """Connects, trying again until a time.

        Raises:
            ConnectionFailed: There is no daemon, or it does not let us in.
        """
        pause = BACKOFF[0]
        self._is_opening = True
        try:
            while True:
                try:
                    return await self._open_once()
                except FINAL:
                    raise
                except ConnectionFailed:
                    if time.monotonic() + pause > until:
                        raise
                await asyncio.sleep(pause * random.uniform(0.75, 1.25))
                pause = min(pause * 2, BACKOFF[1])
        finally:
            self._is_opening = False

    async def _open_once(self) -> None:
        self._failure = None
        try:
            connection = await asyncio.wait_for(connect_socket(self._address, self._loop), ADMISSION)
            await self._loop.create_connection(lambda: _Bytes(self), sock=connection)
        except asyncio.TimeoutError as error:
            raise NoAnswer(f"the daemon at {self._address} does not answer") from error
        except OSError as error:
            if isinstance(error, ConnectionFailed):
                raise
            raise find.no_daemon(self._address, error) from error
        try:
            await asyncio.wait_for(self._admission(), ADMISSION)
        except asyncio.TimeoutError as error:
            if self._transport is not None:
                self._transport.abort()
            raise NotADaemon(f"what listens at {self._address} does not answer like a daemon") from error

    async def _admission(self) -> None:
        """Waits until the daemon has taken the token and the restriction; there is nothing to wait for without them."""
        while not self.core.is_open and self.core.closed is None:
            if self._transport is None:
                raise self._failure or NotADaemon(f"what listens at {self._address} does not answer like a daemon")
            self._changed.clear()
            await self._changed.wait()

    async def _connect_again(self) -> None:
        try:
            await self.open(time.monotonic() + self._reconnect)
            self.flush_open()
        except ConnectionFailed as error:
            self.core.give_up(error)
        except Exception as error:  # nobody may wait for ever because of a mistake in here
            self.core.give_up(NoDaemon(f"the connection failed: {error!r}"))
        finally:
            self._connecting = None
            self._look_for_room()

    def flush_open(self) -> None:
        """Writes what is to be written, if there is a connection."""
        if self._transport is not None:
            output = self.core.take_output()
            if output:
                self._transport.write(output)
            self._arm()

    def on_made(self, transport: asyncio.Transport) -> None:
        """There is a connection."""
        self._transport = transport
        self.core.opened()
        self.flush_open()

    def on_data(self, data: bytes) -> None:
        """Bytes have come."""
        try:
            self.core.receive(data)
        except ConnectionFailed as error:
            self._failure = error
            if self._transport is not None:
                self._transport.abort()
        if self._is_opening:
            self._changed.set()
        if self._transport is not None:
            output = self.core.take_output()
            if output:
                self._transport.write(output)

    def on_lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        self._transport = None
        self._is_paused = False
        self._changed.set()
        if self.core.closed is not None:
            return
        self.core.lost(error)
        if self._reconnect <= 0 and not self._is_opening:
            self.core.close(_lost(error))
        elif isinstance(self._failure, (*FINAL, NotADaemon)):
            self.core.give_up(self._failure)
        elif self.core.needs_connection and not self._is_opening and self._connecting is None:
            self._connecting = self._loop.create_task(self._connect_again())
        self._look_for_room()

    def on_paused(self, is_paused: bool) -> None:
        """The transport holds enough, or has room again."""
        self._is_paused = is_paused
        self._look_for_room()

    # Time.

    def _arm(self) -> None:
        """One timer for all: the loop's own heap would cost each request as much as the rest of it."""
        deadline = self.core.next_deadline()
        if deadline is None:
            return
        if self._timer is not None:
            if self._timer.when() <= self._loop.time() + max(0.0, deadline - time.monotonic()):
                return
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, deadline - time.monotonic()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if not self.core.tick() and self._transport is not None:
            self._transport.abort()
            return
        self.flush_open()
        self._arm()


def _set_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _lost(error: Exception | None) -> ConnectionFailed:
    words = "the daemon closed the connection"
    return ConnectionLost(words if error is None else f"{words}: {error}")
