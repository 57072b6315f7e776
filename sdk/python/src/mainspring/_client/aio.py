"""The client for `asyncio`."""

from __future__ import annotations

import asyncio
import os
import random
import socket as sockets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from functools import partial
from types import TracebackType
from typing import Any, Literal, cast

from .._core.client import WATCH_EVENTS_MAX, ClientCore, Gap, Pending, WatchState
from .._core.wire import NOTHING, Message
from ..errors import (
    BadAddress,
    ConnectionFailed,
    ConnectionLost,
    NoAnswer,
    NoDaemon,
    NotADaemon,
)
from . import find
from .find import ADMISSION, BACKOFF, FINAL, Address


class _Connection(asyncio.Protocol):
    """The bytes between a client and its daemon."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client._on_made(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self._client._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client._on_lost(self, exc)

    def pause_writing(self) -> None:
        self._client._on_paused(True)

    def resume_writing(self) -> None:
        self._client._on_paused(False)


class Client:
    """A connection to a daemon. Make one with `connect`.

    Several tasks may use it at the same time. When the connection is lost it connects again, for as long as `connect`
    was told, and repeats what is unfinished under the same ids.
    """

    def __init__(self, address: Address, reconnect: float, on_other: Callable[[Message], object] | None) -> None:
        self._address = address
        self._reconnect = reconnect
        self._core = ClientCore(address.token, on_other)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        #: Whether somebody is in `_open`, and what wakes him.
        self._is_opening = False
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._is_paused = False
        self._failure: ConnectionFailed | None = None

    # What users do.

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
        await self._wait_for_room()
        await self._finish(self._core.event(type, data, id=id, correlation=correlation, metadata=metadata))

    def watch(
        self, *types: str, limit: int = WATCH_EVENTS_MAX, on_gap: Callable[[Gap], object] | None = None
    ) -> Watch:
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
        return Watch(self, WatchState(types, limit), on_gap)

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
        await self._wait_for_room()
        rights: dict[str, Any] = await self._finish(self._core.restrict(allow, operator))
        return rights

    async def close(self) -> None:
        """Closes the connection. What is under way ends with `ClientClosed`."""
        self._core.close()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._timer is not None:
            self._timer.cancel()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
        self._room.set()
        await asyncio.sleep(0)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Requests.

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
        if self._is_paused or not self._core.has_room:
            await self._wait_for_room()
        pending = self._core.request(
            kind, type_name, data, timeout=timeout, id=id, correlation=correlation, metadata=metadata, repeat=repeat,
            on_progress=on_progress,
        )  # fmt: skip
        return await self._finish(pending)

    async def _finish(self, pending: Pending) -> Any:
        done: asyncio.Future[None] = self._loop.create_future()
        pending.on_done = partial(_set_done, done)
        if pending.outcome is None:
            self._flush()
            self._arm()
            try:
                await done
            except asyncio.CancelledError:
                self._core.cancel(pending)
                self._flush()
                raise
            finally:
                if not self._room.is_set():
                    self._look_for_room()
        return pending.result()

    async def _wait_for_room(self) -> None:
        """Nothing grows without a bound: who asks too much waits."""
        while self._core.closed is None and (self._is_paused or not self._core.has_room):
            self._room.clear()
            await self._room.wait()

    def _look_for_room(self) -> None:
        if not self._is_paused and self._core.has_room:
            self._room.set()

    def _flush(self) -> None:
        output = self._core.take_output()
        if output and self._transport is not None:
            self._transport.write(output)
        if self._transport is None and not self._is_opening and self._connecting is None and self._core.closed is None:
            self._connecting = self._loop.create_task(self._connect_again())

    # The connection.

    async def _open(self, until: float) -> None:
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
            connection = await asyncio.wait_for(_connect(self._address, self._loop), ADMISSION)
            await self._loop.create_connection(lambda: _Connection(self), sock=connection)
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
        while not self._core.is_open and self._core.closed is None:
            if self._transport is None:
                raise self._failure or NotADaemon(f"what listens at {self._address} does not answer like a daemon")
            self._changed.clear()
            await self._changed.wait()

    async def _connect_again(self) -> None:
        try:
            await self._open(time.monotonic() + self._reconnect)
            self._flush_open()
        except ConnectionFailed as error:
            self._core.give_up(error)
        except Exception as error:  # nobody may wait for ever because of a mistake in here
            self._core.give_up(NoDaemon(f"the connection failed: {error!r}"))
        finally:
            self._connecting = None
            self._look_for_room()

    def _flush_open(self) -> None:
        if self._transport is not None:
            output = self._core.take_output()
            if output:
                self._transport.write(output)
            self._arm()

    def _on_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._core.opened()
        self._flush_open()

    def _on_data(self, data: bytes) -> None:
        try:
            self._core.receive(data)
        except ConnectionFailed as error:
            self._failure = error
            if self._transport is not None:
                self._transport.abort()
        if self._is_opening:
            self._changed.set()
        if self._transport is not None:
            output = self._core.take_output()
            if output:
                self._transport.write(output)

    def _on_lost(self, connection: _Connection, error: Exception | None) -> None:
        self._transport = None
        self._is_paused = False
        self._changed.set()
        if self._core.closed is not None:
            return
        self._core.lost(error)
        if self._reconnect <= 0 and not self._is_opening:
            self._core.close(_lost(error))
        elif isinstance(self._failure, (*FINAL, NotADaemon)):
            self._core.give_up(self._failure)
        elif self._core.needs_connection and not self._is_opening and self._connecting is None:
            self._connecting = self._loop.create_task(self._connect_again())
        self._look_for_room()

    def _on_paused(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        self._look_for_room()

    # Time.

    def _arm(self) -> None:
        """One timer for all: the loop's own heap would cost each request as much as the rest of it."""
        deadline = self._core.next_deadline()
        if deadline is None:
            return
        if self._timer is not None:
            if self._timer.when() <= self._loop.time() + max(0.0, deadline - time.monotonic()):
                return
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, deadline - time.monotonic()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if not self._core.tick() and self._transport is not None:
            self._transport.abort()
            return
        self._flush_open()
        self._arm()


def _set_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _lost(error: Exception | None) -> ConnectionFailed:
    words = "the daemon closed the connection"
    return ConnectionLost(words if error is None else f"{words}: {error}")


async def _connect(address: Address, loop: asyncio.AbstractEventLoop) -> sockets.socket:
    if address.socket is not None:
        find.check_path(address.socket)
        connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            connection.setblocking(False)
            await loop.sock_connect(connection, address.socket)
            find.check_listener(connection, address.socket)
            return connection
        except BaseException:
            connection.close()
            raise
    assert address.tcp is not None
    host, port = find.parse_place(address.tcp)
    try:
        places = await loop.getaddrinfo(host, port, type=sockets.SOCK_STREAM)
    except sockets.gaierror as error:
        raise BadAddress(f"{address.tcp}: {error.strerror}") from error
    find.check_loopback(address.tcp, places)
    failed: OSError = ConnectionRefusedError("the name has no address")
    for family, kind, protocol, _, place in places:
        connection = sockets.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            connection.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
            await loop.sock_connect(connection, place)
            return connection
        except OSError as error:
            connection.close()
            failed = error
        except BaseException:
            connection.close()
            raise
    raise failed


class Watch:
    """A subscription: an asynchronous context manager and iterator of events (see `Client.watch`)."""

    def __init__(self, client: Client, state: WatchState, on_gap: Callable[[Gap], object] | None) -> None:
        self._client = client
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
            await self._client._wait_for_room()
            await self._client._finish(self._client._core.subscribe(self._state))

    async def close(self) -> None:
        """Ends the subscription. Events that wait can still be read."""
        self._client._core.unsubscribe(self._state)
        self._client._flush_open()

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
    `mainspring.toml` in the current folder, or at the user's own socket.

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
        client = Client(find.find(socket, tcp, token, token_file), reconnect, on_other)
        try:
            await client._open(time.monotonic() + wait)
        except BaseException:
            await client.close()
            raise
        if client._core.closed is not None:
            raise client._core.closed
        return client

    return _Connecting(make)


__all__ = ["Client", "Watch", "connect"]
