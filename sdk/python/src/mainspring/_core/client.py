"""A client's side of a connection, across reconnections, without the connection: bytes in, bytes out, deadlines.

Whoever has the socket calls `opened`, `receive` and `lost`, writes what `take_output` gives, and calls `tick` no later
than at `next_deadline`. Commands and queries outlive a connection: they are sent again on the next one, byte for byte
and under the same id, so that the daemon answers a command it has done already and does not do it twice.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable
from typing import Any, Literal

from .. import errors
from ..errors import (
    ClientClosed,
    ConnectionFailed,
    ConnectionLost,
    InvalidMessage,
    NoAnswer,
    NotADaemon,
    RequestError,
    RoutingError,
    TokenProblem,
    TurnedAway,
)
from . import wire
from .lines import Lines
from .pending import Pending, same_again
from .watch import Gap, WatchState, check_pattern
from .wire import Message

log = logging.getLogger("mainspring")

#: How much longer than the daemon a client waits: the daemon's own word about a timeout says more.
GRACE = 2.0
#: How long a daemon may be silent while something is asked before it is sent a ping.
SILENCE = 30.0
#: Unfinished requests, and the bytes of their lines. Beyond: whoever asks waits.
REQUESTS_MAX = 4096
REQUEST_BYTES_MAX = 64 << 20
#: The cause of an error that is about the connection as a whole.
_CONNECTION = "connection"


class ClientCore:
    """The state of a client."""

    def __init__(self, token: str | None = None, on_other: Callable[[Message], object] | None = None) -> None:
        self._token = token
        self._on_other = on_other
        self._lines = Lines()
        self.pending: dict[str, Pending] = {}
        self.pending_bytes = 0
        self.watches: list[WatchState] = []
        self._restriction: dict[str, Any] | None = None
        self._out: list[bytes] = []
        self._deadlines: list[tuple[float, int, Pending]] = []
        self._number = 0
        self._heard = time.monotonic()
        self._probe: Pending | None = None
        #: Whether the daemon lets requests through: it has taken the token and the restriction.
        self.is_open = False
        self._is_connected = False
        self.can_cancel = True
        self.closed: ConnectionFailed | None = None

    # What is asked.

    @property
    def has_room(self) -> bool:
        """Whether another request may be made."""
        return len(self.pending) < REQUESTS_MAX and self.pending_bytes < REQUEST_BYTES_MAX

    def is_idle_for(self, seconds: float) -> bool:
        """Whether nothing has come for so long."""
        return time.monotonic() - self._heard > seconds

    @property
    def needs_connection(self) -> bool:
        """Whether somebody waits for something."""
        return bool(self.pending) or bool(self.watches)

    def request(
        self,
        kind: Literal["command", "query"],
        type_name: str,
        data: Any,
        timeout: float | None = None,
        id: str | None = None,
        correlation: str | None = None,
        metadata: dict[str, Any] | None = None,
        repeat: bool = True,
        on_progress: Callable[[Any], object] | None = None,
    ) -> Pending:
        """Makes a request.

        Raises:
            InvalidMessage: It breaks the rules of messages.
            ClientClosed: Nothing can be asked any more.
        """
        self._check_closed()
        if timeout is None and id is None and correlation is None and metadata is None and on_progress is None:
            pending = self._pending(kind, type_name, data, None, repeat)
            self._write(pending)
            return pending
        members = self._metadata(id, correlation, metadata)
        if timeout is not None:
            members["timeout"] = wire.timeout_ms(timeout)
        if on_progress is not None:
            members["progress"] = True
        pending = self._pending(kind, type_name, data, members, repeat)
        pending.on_progress = on_progress
        if timeout is not None:
            pending.deadline = time.monotonic() + timeout + GRACE
            self._number += 1
            heapq.heappush(self._deadlines, (pending.deadline, self._number, pending))
        self._write(pending)
        return pending

    def event(
        self, type_name: str, data: Any, *, id: str | None, correlation: str | None, metadata: dict[str, Any] | None
    ) -> Pending:
        """Tells an event. A ping after it shows that it was taken: a refusal would have come first."""
        self._check_closed()
        event = self._pending("event", type_name, data, self._metadata(id, correlation, metadata), False)
        self._write(event)
        ping = self._internal("query", "Syscall.Ping", None)

        ping.hook = lambda pong: self._finish(event, pong if isinstance(pong, ConnectionFailed) else (None,))
        return event

    def cancel(self, pending: Pending) -> None:
        """The requester does not want the outcome any more."""
        if pending.outcome is not None:
            return
        was_written = pending.is_written
        self._finish(
            pending,
            errors.Cancelled(
                499, "cancelled", type="Sys.Cancelled", original_id=pending.id, original_type=pending.type
            ),
        )
        if pending.kind == "event" or not (was_written and self.is_open and self.can_cancel):
            return
        cancelling = self._internal("command", "Syscall.Cancel", {"id": pending.id})

        def answered(outcome: tuple[Any] | Exception) -> None:
            if isinstance(outcome, RoutingError):
                # A daemon that does not know cancelling yet. The request goes on there, and nobody
                # waits for it here.
                self.can_cancel = False

        cancelling.hook = answered

    def restrict(self, allow: list[str] | None, operator: bool | None) -> Pending:
        """Gives rights up, on this connection and first of all on every later one."""
        wanted: dict[str, Any] = {}
        if allow is not None:
            wanted["allow"] = [check_pattern(pattern) for pattern in allow]
        if operator is not None:
            wanted["operator"] = operator
        pending = self.request("command", "Sys.Restrict", wanted)

        def answered(outcome: tuple[Any] | Exception) -> None:
            if not isinstance(outcome, Exception):
                self._restriction = {**(self._restriction or {}), **wanted}

        pending.hook = answered
        return pending

    def subscribe(self, watch: WatchState) -> Pending:
        """Begins a watch; events come from the moment that this is answered."""
        pending = self.request("command", "Sys.Subscribe", {"types": list(watch.types)})
        self.watches.append(watch)

        def answered(outcome: tuple[Any] | Exception) -> None:
            if isinstance(outcome, Exception):
                self.unsubscribe(watch)
            else:
                watch.is_live = True

        pending.hook = answered
        return pending

    def unsubscribe(self, watch: WatchState) -> None:
        """Ends a watch."""
        if watch not in self.watches:
            return
        self.watches.remove(watch)
        watch_was_live = watch.is_live
        watch.end(None)
        wanted = {pattern for other in self.watches for pattern in other.types}
        unwanted = [pattern for pattern in watch.types if pattern not in wanted]
        if unwanted and self.is_open and watch_was_live:
            self._internal("command", "Sys.Unsubscribe", {"types": unwanted})

    def _check_closed(self) -> None:
        if self.closed is not None:
            error = same_again(self.closed)
            error.started = "no"
            raise error

    def _metadata(self, id: str | None, correlation: str | None, more: dict[str, Any] | None) -> dict[str, Any]:
        members: dict[str, Any] = dict(more) if more else {}
        if id is not None:
            wire.check_name(id, "an id")
            if id in self.pending:
                raise InvalidMessage(f"a request with the id {id!r} is under way")
        members["id"] = wire.fresh_id() if id is None else id
        members["timestamp"] = wire.now_ms()
        if correlation is not None:
            members["correlation"] = wire.check_name(correlation, "a correlation")
        return members

    def _pending(self, kind: str, type_name: str, data: Any, metadata: dict[str, Any] | None, repeat: bool) -> Pending:
        """Makes a request and keeps it. Without metadata it has an id of its own, and the time."""
        if metadata is None:
            id, line = wire.compose_plain(kind, type_name, data)
        else:
            wire.check_type(type_name)
            id, line = metadata["id"], wire.compose(kind, type_name, wire.dump(data), metadata)
        pending = self.pending[id] = Pending(id, kind, type_name, line, repeat)
        self.pending_bytes += len(line)
        return pending

    def _internal(self, kind: str, type_name: str, data: Any) -> Pending:
        """A request of this object itself, which goes with its connection."""
        pending = self._pending(kind, type_name, data, None, False)
        self._write(pending, is_internal=True)
        return pending

    def _write(self, pending: Pending, is_internal: bool = False) -> None:
        if self.is_open or (is_internal and self._is_connected):
            if len(self.pending) == 1:
                # The daemon was not asked anything, and had no reason to speak.
                self._heard = time.monotonic()
            pending.is_written = pending.was_written = True
            self._out.append(pending.line)

    def _finish(self, pending: Pending, outcome: tuple[Any] | Exception) -> None:
        if self.pending.pop(pending.id, None) is not None:
            self.pending_bytes -= len(pending.line)
        pending.settle(outcome)

    # What comes and goes.

    def take_output(self) -> bytes:
        """What is to be written now."""
        lines = self._out
        if not lines:
            return b""
        self._out = []
        return lines[0] if len(lines) == 1 else b"".join(lines)

    def opened(self) -> None:
        """There is a connection. By TCP the token comes first, then what was given up, then everything else."""
        self._lines = Lines()
        self._out = []
        self._probe = None
        self._heard = time.monotonic()
        self._is_connected = True
        if self._token is None:
            self._restrict_or_resume()
            return
        self._out.append(wire.to_bytes(wire.dump({"token": self._token})) + b"\n")
        # A right token is not answered, so something is asked that every daemon answers.
        ping = self._internal("query", "Syscall.Ping", None)
        ping.hook = lambda pong: None if isinstance(pong, ConnectionFailed) else self._restrict_or_resume()

    def _restrict_or_resume(self) -> None:
        if self._restriction is None:
            self._resume()
            return
        restricting = self._internal("command", "Sys.Restrict", self._restriction)

        def answered(outcome: tuple[Any] | Exception) -> None:
            if isinstance(outcome, RequestError):
                # Rather nothing at all than with rights that were given up.
                self.close(ClientClosed(f"the rights of a new connection cannot be restricted: {outcome}"))
            elif not isinstance(outcome, Exception):
                self._resume()

        restricting.hook = answered

    def _resume(self) -> None:
        self.is_open = True
        live = [watch for watch in self.watches if watch.is_live]
        if live:
            patterns = list(dict.fromkeys(pattern for watch in live for pattern in watch.types))
            again = self._internal("command", "Sys.Subscribe", {"types": patterns})
            again.hook = lambda outcome: self._subscribed_again(live, outcome)
        for pending in self.pending.values():
            if not pending.is_written:
                pending.is_written = pending.was_written = True
                self._out.append(pending.line)

    def _subscribed_again(self, live: list[WatchState], outcome: tuple[Any] | Exception) -> None:
        for watch in live:
            if isinstance(outcome, RequestError):
                if watch in self.watches:
                    self.watches.remove(watch)
                watch.end(outcome)
            elif not isinstance(outcome, Exception):
                watch.put(Gap("reconnected", None))

    def lost(self, error: Exception | None = None) -> None:
        """The connection has ended. What may be repeated waits for the next one."""
        self.is_open = self._is_connected = False
        self._out = []
        self._probe = None
        for pending in list(self.pending.values()):
            if pending.repeat or not pending.is_written:
                pending.is_written = False
            else:
                words = f"the connection ended before {pending.type} was answered"
                self._finish(pending, ConnectionLost(words if error is None else f"{words}: {error}"))

    def give_up(self, error: ConnectionFailed) -> None:
        """There is no connection to be had: nobody need wait any longer. What is asked later tries again."""
        for pending in list(self.pending.values()):
            self._finish(pending, same_again(error))
        for watch in list(self.watches):
            self.watches.remove(watch)
            watch.end(error)

    def close(self, error: ConnectionFailed | None = None) -> None:
        """Ends everything, for good."""
        if self.closed is not None:
            return
        self.closed = error or ClientClosed("the client is closed")
        self.is_open = self._is_connected = False
        for pending in list(self.pending.values()):
            self._finish(pending, ClientClosed(str(self.closed)))
        for watch in list(self.watches):
            watch.end(error)
        self.watches.clear()

    def receive(self, chunk: bytes) -> None:
        """Takes bytes of the daemon.

        Raises:
            ConnectionFailed: The daemon turned the connection away, or is none.
        """
        self._heard = time.monotonic()
        try:
            lines = self._lines.feed(chunk)
        except ValueError as error:
            raise NotADaemon(str(error)) from error
        for line in lines:
            try:
                raw = wire.load(line)
                kind: str = raw["kind"]
                metadata: dict[str, Any] = raw["metadata"]
                if kind == "event":
                    self._take_event(raw, metadata.get("causation"))
                else:
                    self._take_outcome(raw, kind, metadata["causation"])
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                self._take_unreadable(line, error)

    def _take_outcome(self, raw: dict[str, Any], kind: str, cause: str) -> None:
        pending = self.pending.pop(cause, None)
        if pending is None:
            self._take_stray(raw, kind, cause)
            return
        self.pending_bytes -= len(pending.line)
        if kind == "reply":
            pending.settle((raw["data"],))
        else:
            pending.settle(errors.from_wire(raw["type"], raw["data"], pending.id, pending.type))

    def _take_stray(self, raw: dict[str, Any], kind: str, cause: str) -> None:
        data: Any = raw["data"]
        if kind == "error" and cause == _CONNECTION:
            code, words = data.get("code", 0), data.get("message", "it does not say why")
            raise (
                TokenProblem(f"the daemon does not take this token: {words}")
                if code == 403
                else TurnedAway(code, words)
            )
        if kind == "error" and raw["type"].startswith("Sys.") and type(data) is dict and data.get("originalId") is None:  # pyright: ignore[reportUnknownMemberType]
            pending = self._nameless(raw["type"])
            if pending is not None:
                self._finish(pending, errors.from_wire(raw["type"], data, pending.id, pending.type))
                return
        if self._on_other is not None and raw["type"] != errors.Cancelled.wire_type:
            _call(self._on_other, Message(raw))

    def _nameless(self, error_type: str) -> Pending | None:
        """The request that an error is about which the daemon could not name: the only one, or the longest line."""
        written = [pending for pending in self.pending.values() if pending.is_written]
        if len(written) == 1:
            return written[0]
        if written and error_type == errors.TooLargeError.wire_type:
            return max(written, key=lambda pending: len(pending.line))
        return None

    def _take_event(self, raw: dict[str, Any], cause: str | None) -> None:
        type_name: str = raw["type"]
        message = Message(raw)
        if type_name == "Sys.EventsDropped":
            for watch in self.watches:
                watch.put(Gap("daemon", raw["data"].get("count")))
            return
        if cause in self.pending and type_name.endswith(".Progress"):
            on_progress = self.pending[cause].on_progress
            if on_progress is not None:
                _call(on_progress, raw["data"])
        for watch in self.watches:
            if watch.is_live and watch.wants(type_name):
                watch.put(message)

    def _take_unreadable(self, line: bytes, error: Exception) -> None:
        raw = wire.load_envelope(line)
        if raw is None or type(raw.get("metadata")) is not dict:
            raise NotADaemon(f"what listens there wrote something that is not a message: {line[:80]!r}") from error
        pending = self.pending.get(raw["metadata"].get("causation"))
        if pending is not None:
            self._finish(pending, InvalidMessage(f"the answer cannot be read in Python: {error}"))
        else:
            log.warning("a message of the daemon cannot be read: %s", error)

    # Time.

    def next_deadline(self) -> float | None:
        """When `tick` must be called, on the clock of `time.monotonic`; `None` if nothing is waited for."""
        if not self.pending:
            return None
        silence = GRACE if self._probe is not None else SILENCE
        quiet = self._heard + silence if self._is_connected else None
        while self._deadlines and self._deadlines[0][2].outcome is not None:
            heapq.heappop(self._deadlines)
        first = self._deadlines[0][0] if self._deadlines else None
        times = [at for at in (quiet, first) if at is not None]
        return min(times) if times else None

    def tick(self) -> bool:
        """Ends what is overdue. False: the daemon does not even answer a ping, and the connection is of no use."""
        now = time.monotonic()
        while self._deadlines and (self._deadlines[0][0] <= now or self._deadlines[0][2].outcome is not None):
            pending = heapq.heappop(self._deadlines)[2]
            if pending.outcome is None:
                words = f"the daemon has not answered {pending.type} in its time, nor {GRACE:g}s later"
                self._finish(pending, NoAnswer(words))
        if not self._is_connected or not self.pending:
            return True
        if self._probe is not None and self._probe.outcome is None:
            return now < self._heard + GRACE
        if now >= self._heard + SILENCE:
            self._heard = now
            self._probe = self._internal("query", "Syscall.Ping", None)
            self._probe.hook = self._forget_probe
        return True

    def _forget_probe(self, _: object) -> None:
        self._probe = None


def _call(function: Callable[[Any], object], argument: Any) -> None:
    """Calls what a user gave. What it raises must not end the connection."""
    try:
        function(argument)
    except Exception:
        log.exception("a callback failed")
