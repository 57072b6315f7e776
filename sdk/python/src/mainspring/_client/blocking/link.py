"""The connection of the client without `asyncio`: whoever waits for an answer reads for everybody.

There is no thread behind it. The first thread that waits reads from the socket and hands out what is for others; when
it has its own answer, one of those goes on. So an idle client costs nothing, and events that nobody reads stay with the
daemon, which has a bound and tells what it drops.
"""

from __future__ import annotations

import errno
import random
import select
import socket as sockets
import struct
import threading
import time
from collections import deque
from collections.abc import Callable

from ..._core.client import ClientCore
from ..._core.pending import Pending
from ..._core.wire import Message
from ...errors import ConnectionFailed, ConnectionLost, NotADaemon
from .. import find
from ..find import ADMISSION, BACKOFF, FINAL, Address
from .sockets import connect_socket

#: Room for one read. More would be mapped and unmapped by the allocator, each time.
_READ_BYTES = 1 << 16
#: How long a read waits before the deadlines are looked at.
_TURN = 1.0
#: How long nothing came before a connection is looked at that nobody reads.
_IDLE = 0.05
_TURN_OPTION = struct.pack("ll", int(_TURN), 0)


class Link:
    """The connection of a client, across reconnections. `lock` is held by whoever calls anything of it but `close`."""

    def __init__(self, address: Address, reconnect: float, on_other: Callable[[Message], object] | None) -> None:
        self._address = address
        self._reconnect = reconnect
        self.core = ClientCore(address.token, on_other)
        self._socket: sockets.socket | None = None
        #: What the daemon has not taken yet.
        self._unsent: deque[bytes | memoryview] = deque()
        #: As a number: joining members of an enumeration takes as long as the writing itself.
        self._send_flags = int(sockets.MSG_DONTWAIT | sockets.MSG_NOSIGNAL)
        #: Until when to try to connect again, and the pause before the next attempt.
        self._retry: tuple[float, float] | None = None
        #: Guards everything. It is taken by itself, not by way of the condition, which is written in Python.
        self.lock = threading.Lock()
        #: Told when somebody has read.
        self.turn = threading.Condition(self.lock)
        self._is_read = False
        self._is_written = False
        #: Threads that wait for the reader.
        self._waiting = 0

    def close(self) -> None:
        """Ends everything, for good."""
        with self.lock:
            self.core.close()
            if self._socket is not None:
                # Wakes whoever reads; he closes it if there is one.
                try:
                    self._socket.shutdown(sockets.SHUT_RDWR)
                except OSError:
                    pass
                if not self._is_read:
                    self._drop()
            self.turn.notify_all()

    def abandon(self) -> None:
        """Closes the socket of a link that never was opened."""
        self._drop()

    def notice_end(self) -> None:
        """Notices a connection that ended while nobody looked, before something is written to it in vain."""
        if self._socket is None or self._is_read or self.core.pending or not self.core.is_idle_for(_IDLE):
            return
        try:
            if not self._socket.recv(1, sockets.MSG_PEEK | sockets.MSG_DONTWAIT):
                self._lost(None)
        except BlockingIOError:
            pass
        except OSError as error:
            self._lost(error)

    def wait_for_room(self) -> None:
        """Waits until another request may be made."""
        self.wait(lambda: self.core.has_room or self.core.closed is not None)

    def finish(self, pending: Pending) -> None:
        """Waits for the outcome. The lock is held."""
        try:
            self.flush()
            while pending.outcome is None:
                self._step(None)
        except BaseException:
            if pending.outcome is None:
                self.core.cancel(pending)
                self.flush_quietly()
            raise

    def wait(self, is_done: Callable[[], bool], until: float | None = None) -> bool:
        """Reads, or waits for whoever reads, until something is done. False: the time was up before. The lock is held."""
        while not is_done():
            if until is not None and time.monotonic() >= until:
                return False
            self._step(until)
        return True

    def _step(self, until: float | None) -> None:
        """Reads once, or waits for whoever reads."""
        if self._is_read:
            self._waiting += 1
            try:
                self.turn.wait(None if until is None else until - time.monotonic())
            finally:
                self._waiting -= 1
            return
        self._is_read = True
        try:
            self._read(until)
        finally:
            self._is_read = False
            if self._waiting:
                self.turn.notify_all()

    # The connection. The lock is held in all that follows, and released only while a read waits.

    def _read(self, until: float | None) -> None:
        """Reads once, for everybody."""
        if self.core.closed is not None:
            self._drop()
            return
        if self._socket is None:
            self._connect_again()
            return
        self._retry = None
        chunk = self._receive(self._socket, until)
        if chunk is None:
            if not self.core.tick():
                self._lost(TimeoutError("the daemon does not answer a ping"))
                return
        elif not chunk:
            self._lost(None)
            return
        else:
            try:
                self.core.receive(chunk)
            except ConnectionFailed as failure:
                self._lost(failure)
                return
        self._push()

    def _receive(self, connection: sockets.socket, until: float | None) -> bytes | None:
        """Bytes; none at the end of the connection, and `None` if nothing came for a turn."""
        unsent = bool(self._unsent)
        try:
            # Inside of the `try`, as everywhere: who is interrupted right after it holds the lock again.
            self.lock.release()
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
            self.lock.acquire()

    def flush(self) -> None:
        """Writes what is to be written. Not for the reader, who must not wait for anything but bytes."""
        self._push()
        connection = self._socket
        if connection is None:
            return
        # Whoever reads does not know of the rest, so it is written here. Without a reader, the next
        # one does it.
        while self._unsent and self._is_read and not self._is_written and self._socket is connection:
            self._is_written = True
            try:
                self.lock.release()
                select.select([], [connection], [], _TURN)
            except (OSError, ValueError):
                pass  # closed meanwhile
            finally:
                self.lock.acquire()
                self._is_written = False
            if self._socket is connection:
                self._send_some(connection)

    def _push(self) -> None:
        """Writes as much as the daemon takes without waiting."""
        if self._socket is None:
            return
        output = self.core.take_output()
        if output:
            self._unsent.append(output)
        if self._unsent:
            self._send_some(self._socket)

    def _send_some(self, connection: sockets.socket) -> None:
        while self._unsent:
            try:
                sent = connection.send(self._unsent[0], self._send_flags)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF):
                    raise
                # Whoever reads next finds the end, and what the daemon said before it.
                self._unsent.clear()
                return
            first = self._unsent.popleft()
            if sent < len(first):
                self._unsent.appendleft(memoryview(first)[sent:])

    def flush_quietly(self) -> None:
        """Writes what the daemon takes at once; that a connection has ended is for the next reader to find."""
        try:
            self._push()
        except OSError:
            pass

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._unsent.clear()

    def _lost(self, error: Exception | None) -> None:
        self._drop()
        if self.core.closed is not None:
            return
        self.core.lost(error)
        if isinstance(error, (*FINAL, NotADaemon)):
            self.core.give_up(error)
        elif self._reconnect <= 0:
            words = "the daemon closed the connection"
            self.core.close(ConnectionLost(words if error is None else f"{words}: {error}"))

    def _connect_again(self) -> None:
        """Tries once. Whoever waits looks at his deadline between two attempts."""
        until, pause = self._retry or (time.monotonic() + self._reconnect, BACKOFF[0])
        try:
            self._open_once()
            self._retry = None
        except ConnectionFailed as error:
            if isinstance(error, FINAL) or time.monotonic() + pause > until:
                self._retry = None
                self.core.give_up(error)
                return
            self._retry = (until, min(pause * 2, BACKOFF[1]))
            self._pause(pause)
            self.core.tick()

    def _pause(self, seconds: float) -> None:
        try:
            self.lock.release()
            time.sleep(seconds * random.uniform(0.75, 1.25))
        finally:
            self.lock.acquire()

    def open(self, until: float) -> None:
        """Connects, trying again until a time; raises `ConnectionFailed`."""
        pause = BACKOFF[0]
        while self.core.closed is None:
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
            connection = connect_socket(self._address)
        except OSError as error:
            if isinstance(error, ConnectionFailed):
                raise
            raise find.no_daemon(self._address, error) from error
        connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVTIMEO, _TURN_OPTION)
        self._socket = connection
        self.core.opened()
        self._push()
        until = time.monotonic() + ADMISSION
        while not self.core.is_open and self.core.closed is None:
            chunk = self._receive(connection, until)
            try:
                if chunk:
                    self.core.receive(chunk)
                    self._push()
                elif chunk is not None or time.monotonic() > until:
                    raise NotADaemon(f"what listens at {self._address} does not answer like a daemon")
            except ConnectionFailed as failure:
                self._drop()
                self.core.lost(failure)
                raise
