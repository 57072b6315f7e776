"""The client without `asyncio`: whoever waits for an answer reads for everybody.

There is no thread behind it. The first thread that waits reads from the socket and hands out what is for others; when
it has its own answer, one of those goes on. So an idle client costs nothing, and events that nobody reads stay with the
daemon, which has a bound and tells what it drops.
"""

from __future__ import annotations

import errno
import os
import random
import select
import socket as sockets
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Literal

from .._core.client import WATCH_EVENTS_MAX, ClientCore, Gap, Pending, WatchState
from .._core.wire import NOTHING, Message
from ..errors import BadAddress, ConnectionFailed, ConnectionLost, NotADaemon
from . import find
from .find import ADMISSION, BACKOFF, FINAL, Address

_READ_BYTES = 1 << 18
#: How long a read waits before the deadlines are looked at.
_TURN = 1.0
#: How long nothing came before a connection is looked at that nobody reads.
_IDLE = 0.05
_TURN_OPTION = struct.pack("ll", int(_TURN), 0)


class Client:
    """A connection to a daemon. Make one with `mainspring.sync.connect`. Several threads may use it at the same time."""

    def __init__(self, address: Address, reconnect: float, on_other: Callable[[Message], object] | None) -> None:
        self._address = address
        self._reconnect = reconnect
        self._core = ClientCore(address.token, on_other)
        self._socket: sockets.socket | None = None
        #: What the daemon has not taken yet, and how much of the first piece it has.
        self._unsent: deque[bytes] = deque()
        self._sent = 0
        #: Until when to try to connect again, and the pause before the next attempt.
        self._retry: tuple[float, float] | None = None
        #: Guards everything; told when somebody has read.
        self._turn = threading.Condition(threading.Lock())
        self._is_read = False
        self._is_written = False

    # What users do.

    def send(
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
        """Sends a command and returns the data of its reply. An exception meanwhile (Ctrl-C, say) cancels it.

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
        return self._request("command", type, data, timeout, id, correlation, metadata, repeat, on_progress)

    def query(
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
        return self._request("query", type, data, timeout, id, correlation, metadata, repeat, on_progress)

    def start(self, kind: Literal["command", "query"], type: str, data: Any = NOTHING, **options: Any) -> Request:
        """Sends a request and returns at once; the options are those of `send`.

        Answers are read when somebody waits for one (`Request.result`), so keep less under way than 4 MiB of answers.
        """
        with self._turn:
            self._notice_end()
            pending = self._core.request(kind, type, data, **options)
            self._flush()
        return Request(self, pending)

    def emit(
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
        with self._turn:
            self._notice_end()
            self._wait_for_room()
            pending = self._core.event(type, data, id=id, correlation=correlation, metadata=metadata)
            self._finish(pending)
        pending.result()

    def watch(
        self, *types: str, limit: int = WATCH_EVENTS_MAX, on_gap: Callable[[Gap], object] | None = None
    ) -> Watch:
        """Events of these types, as an iterator::

            with ms.watch("Order.*") as orders:
                for event in orders:
                    ...

        The subscription holds from the beginning of `with` (or of the first step of the iterator).

        Args:
            types: Types, everything below a name (`Order.*`), or `*`.
            limit: Events that wait to be read. Beyond that the oldest are dropped.
            on_gap: Called where events are missing: dropped, or told while there was no connection. It may raise.
        """
        return Watch(self, WatchState(types, limit), on_gap)

    def result(self, id: str) -> Any:
        """The outcome of a command that was sent before, by its id (of daemons that keep a journal)."""
        return self.query("Sys.Result", {"id": id})

    def restrict(self, *, allow: list[str] | None = None, operator: bool | None = None) -> dict[str, Any]:
        """Gives rights up, for good: on this connection, and first of all on every later one.

        Args:
            allow: Types that may still be sent and seen.
            operator: `False`: no operator any more.

        Returns:
            The rights that are left.
        """
        with self._turn:
            pending = self._core.restrict(allow, operator)
            self._finish(pending)
        rights: dict[str, Any] = pending.result()
        return rights

    def close(self) -> None:
        """Closes the connection. What is under way in other threads ends with `ClientClosed`."""
        with self._turn:
            self._core.close()
            if self._socket is not None:
                # Wakes whoever reads; he closes it if there is one.
                try:
                    self._socket.shutdown(sockets.SHUT_RDWR)
                except OSError:
                    pass
                if not self._is_read:
                    self._drop()
            self._turn.notify_all()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Requests.

    def _request(
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
        with self._turn:
            self._notice_end()
            if not self._core.has_room:
                self._wait_for_room()
            pending = self._core.request(
                kind, type_name, data, timeout=timeout, id=id, correlation=correlation, metadata=metadata, repeat=repeat,
                on_progress=on_progress,
            )  # fmt: skip
            self._finish(pending)
        return pending.result()

    def _notice_end(self) -> None:
        """Notices a connection that ended while nobody looked, before something is written to it in vain."""
        if self._socket is None or self._is_read or self._core.pending or not self._core.is_idle_for(_IDLE):
            return
        try:
            if not self._socket.recv(1, sockets.MSG_PEEK | sockets.MSG_DONTWAIT):
                self._lost(None)
        except BlockingIOError:
            pass
        except OSError as error:
            self._lost(error)

    def _wait_for_room(self) -> None:
        self._wait(lambda: self._core.has_room or self._core.closed is not None)

    def _finish(self, pending: Pending) -> None:
        """Waits for the outcome. The lock is held."""
        try:
            self._flush()
            self._wait(lambda: pending.outcome is not None)
        except BaseException:
            if pending.outcome is None:
                self._core.cancel(pending)
                self._flush_quietly()
            raise

    def _wait(self, is_done: Callable[[], bool], until: float | None = None) -> bool:
        """Reads, or waits for whoever reads, until something is done. False: the time was up before. The lock is held."""
        while not is_done():
            if until is not None and time.monotonic() >= until:
                return False
            if self._is_read:
                self._turn.wait(None if until is None else until - time.monotonic())
                continue
            self._is_read = True
            try:
                self._read(until)
            finally:
                self._is_read = False
                self._turn.notify_all()
        return True

    # The connection. The lock is held in all that follows, and released only while a read waits.

    def _read(self, until: float | None) -> None:
        """Reads once, for everybody."""
        if self._core.closed is not None:
            self._drop()
            return
        if self._socket is None:
            self._connect_again()
            return
        self._retry = None
        chunk = self._receive(self._socket, until)
        if chunk is None:
            if not self._core.tick():
                self._lost(TimeoutError("the daemon does not answer a ping"))
                return
        elif not chunk:
            self._lost(None)
            return
        else:
            try:
                self._core.receive(chunk)
            except ConnectionFailed as failure:
                self._lost(failure)
                return
        self._push()

    def _receive(self, connection: sockets.socket, until: float | None) -> bytes | None:
        """Bytes; none at the end of the connection, and `None` if nothing came for a turn."""
        unsent = bool(self._unsent)
        self._turn.release()
        try:
            if unsent or until is not None:
                # A reader that has something to write, or little time, waits for what comes first.
                left = _TURN if until is None else max(0.0, min(_TURN, until - time.monotonic()))
                readable, _, _ = select.select([connection], [connection] if unsent else [], [], left)
                if not readable:
                    return None
            return connection.recv(_READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""
        finally:
            self._turn.acquire()

    def _flush(self) -> None:
        """Writes what is to be written. Not for the reader, who must not wait for anything but bytes."""
        self._push()
        connection = self._socket
        if connection is None:
            return
        # Whoever reads does not know of the rest, so it is written here. Without a reader, the next one does it.
        while self._unsent and self._is_read and not self._is_written and self._socket is connection:
            self._is_written = True
            self._turn.release()
            try:
                select.select([], [connection], [], _TURN)
            except (OSError, ValueError):
                pass  # closed meanwhile
            finally:
                self._turn.acquire()
                self._is_written = False
            if self._socket is connection:
                self._send_some(connection)

    def _push(self) -> None:
        """Writes as much as the daemon takes without waiting."""
        if self._socket is None:
            return
        output = self._core.take_output()
        if output:
            self._unsent.append(output)
        self._send_some(self._socket)

    def _send_some(self, connection: sockets.socket) -> None:
        while self._unsent:
            first = self._unsent[0]
            piece = memoryview(first)[self._sent :] if self._sent else first
            try:
                self._sent += connection.send(piece, sockets.MSG_DONTWAIT | sockets.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF):
                    raise
                # Whoever reads next finds the end, and what the daemon said before it.
                self._unsent.clear()
                self._sent = 0
                return
            if self._sent == len(first):
                self._unsent.popleft()
                self._sent = 0

    def _flush_quietly(self) -> None:
        try:
            self._push()
        except OSError:
            pass

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._unsent.clear()
        self._sent = 0

    def _lost(self, error: Exception | None) -> None:
        self._drop()
        if self._core.closed is not None:
            return
        self._core.lost(error)
        if isinstance(error, (*FINAL, NotADaemon)):
            self._core.give_up(error)
        elif self._reconnect <= 0:
            words = "the daemon closed the connection"
            self._core.close(ConnectionLost(words if error is None else f"{words}: {error}"))

    def _connect_again(self) -> None:
        """Tries once. Whoever waits looks at his deadline between two attempts."""
        until, pause = self._retry or (time.monotonic() + self._reconnect, BACKOFF[0])
        try:
            self._open_once()
            self._retry = None
        except ConnectionFailed as error:
            if isinstance(error, FINAL) or time.monotonic() + pause > until:
                self._retry = None
                self._core.give_up(error)
                return
            self._retry = (until, min(pause * 2, BACKOFF[1]))
            self._pause(pause)
            self._core.tick()

    def _pause(self, seconds: float) -> None:
        self._turn.release()
        try:
            time.sleep(seconds * random.uniform(0.75, 1.25))
        finally:
            self._turn.acquire()

    def _open(self, until: float) -> None:
        pause = BACKOFF[0]
        while self._core.closed is None:
            try:
                return self._open_once()
            except FINAL:
                raise
            except ConnectionFailed:
                if time.monotonic() + pause > until:
                    raise
            self._pause(pause)
            pause = min(pause * 2, BACKOFF[1])

    def _open_once(self) -> None:
        try:
            connection = _connect(self._address)
        except OSError as error:
            if isinstance(error, ConnectionFailed):
                raise
            raise find.no_daemon(self._address, error) from error
        connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVTIMEO, _TURN_OPTION)
        self._socket = connection
        self._core.opened()
        self._push()
        until = time.monotonic() + ADMISSION
        while not self._core.is_open and self._core.closed is None:
            chunk = self._receive(connection, until)
            try:
                if chunk:
                    self._core.receive(chunk)
                    self._push()
                elif chunk is not None or time.monotonic() > until:
                    raise NotADaemon(f"what listens at {self._address} does not answer like a daemon")
            except ConnectionFailed as failure:
                self._drop()
                self._core.lost(failure)
                raise


def _connect(address: Address) -> sockets.socket:
    if address.socket is not None:
        find.check_path(address.socket)
        connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            connection.settimeout(ADMISSION)
            connection.connect(address.socket)
            find.check_listener(connection, address.socket)
            connection.settimeout(None)
            return connection
        except BaseException:
            connection.close()
            raise
    assert address.tcp is not None
    host, port = find.parse_place(address.tcp)
    try:
        places = sockets.getaddrinfo(host, port, type=sockets.SOCK_STREAM)
    except sockets.gaierror as error:
        raise BadAddress(f"{address.tcp}: {error.strerror}") from error
    find.check_loopback(address.tcp, places)
    failed: OSError = ConnectionRefusedError("the name has no address")
    for family, kind, protocol, _, place in places:
        connection = sockets.socket(family, kind, protocol)
        try:
            connection.settimeout(ADMISSION)
            connection.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
            connection.connect(place)
            connection.settimeout(None)
            return connection
        except OSError as error:
            connection.close()
            failed = error
    raise failed


class Request:
    """A request that is under way (see `Client.start`)."""

    def __init__(self, client: Client, pending: Pending) -> None:
        self._client = client
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
        with self._client._turn:
            self._client._flush()
            is_there = self._client._wait(lambda: self._pending.outcome is not None, until)
        if not is_there:
            raise TimeoutError(f"{self._pending.type} is not answered yet")
        return self._pending.result()

    def cancel(self) -> None:
        """Cancels it: `result` raises `Cancelled`, and the daemon is told."""
        with self._client._turn:
            self._client._core.cancel(self._pending)
            self._client._flush_quietly()
            self._client._turn.notify_all()


class Watch:
    """A subscription: a context manager and iterator of events (see `Client.watch`)."""

    def __init__(self, client: Client, state: WatchState, on_gap: Callable[[Gap], object] | None) -> None:
        self._client = client
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
            with self._client._turn:
                pending = self._client._core.subscribe(self._state)
                self._client._finish(pending)
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
            with self._client._turn:
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
            with self._client._turn:
                if not self._client._wait(self._has_something, until):
                    raise TimeoutError("no event has come")

    def _has_something(self) -> bool:
        return self._state.has_items or self._state.is_over

    def close(self) -> None:
        """Ends the subscription. Events that wait can still be read."""
        with self._client._turn:
            self._client._core.unsubscribe(self._state)
            self._client._flush_quietly()
            self._client._turn.notify_all()

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


def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    tcp: str | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    wait: float = 1.0,
    reconnect: float = 30.0,
    on_other: Callable[[Message], object] | None = None,
) -> Client:
    """Connects to a daemon: `with connect() as ms`.

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
    client = Client(find.find(socket, tcp, token, token_file), reconnect, on_other)
    with client._turn:
        try:
            client._open(time.monotonic() + wait)
        except BaseException:
            client._drop()
            raise
    if client._core.closed is not None:
        raise client._core.closed
    return client


__all__ = ["Client", "Request", "Watch", "connect"]
