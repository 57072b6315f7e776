"""A capability's side of its standard streams, without the streams: bytes in, calls and bytes out."""

from __future__ import annotations

import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from .. import errors
from .._schema.validate import Misfit
from ..errors import CapabilityError, ConnectionLost, InvalidMessage, RequestError
from . import wire
from .lines import Lines

if TYPE_CHECKING:
    from ..capability import Handler

#: The longest line that a daemon takes, as shipped (`limits.line_bytes_max`).
LINE_BYTES_MAX = 1 << 20
#: Events that wait for their handler. Beyond: the oldest is dropped, and told on standard error.
EVENTS_MAX = 16_384
#: The most characters of a line that are quoted on standard error.
_QUOTE_MAX = 80
_CANCELLED = "Sys.RequestCancelled"


def tell(text: str) -> None:
    """Writes a line to standard error, which the daemon puts into its log."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # nobody is left to be told


class Call:
    """A message in the hands of a handler."""

    __slots__ = ("core", "handler", "raw", "id", "at", "is_cancelled", "on_cancel", "is_over")

    def __init__(self, core: Actor, handler: Handler, raw: dict[str, Any], id: str) -> None:
        self.core = core
        self.handler = handler
        self.raw = raw
        self.id = id
        self.at = time.monotonic()
        self.is_cancelled = False
        #: What a face does when the requester cancels.
        self.on_cancel: Callable[[], object] | None = None
        self.is_over = False

    def left(self) -> float | None:
        """Seconds until the deadline of the request; `None` if it does not say."""
        metadata = self.raw["metadata"]
        timeout = metadata.get("timeout")
        if type(timeout) is not int:
            return None
        # Time in the mailbox counts as well. A clock that makes no sense is not believed.
        age = int(time.time() * 1000) - metadata["timestamp"] - int((time.monotonic() - self.at) * 1000)
        waited = age if 0 <= age < timeout else 0
        return (timeout - waited) / 1000 - (time.monotonic() - self.at)


class Ask:
    """A request that a handler made, until its outcome is there."""

    __slots__ = ("id", "type", "outcome", "on_done", "on_progress")

    def __init__(self, id: str, type_name: str) -> None:
        self.id = id
        self.type = type_name
        #: The data of the reply in a tuple of one, or the error.
        self.outcome: tuple[Any] | Exception | None = None
        self.on_done: Callable[[], object] | None = None
        self.on_progress: Callable[[Any], object] | None = None

    def settle(self, outcome: tuple[Any] | Exception) -> None:
        """Ends it."""
        self.outcome = outcome
        if self.on_done is not None:
            self.on_done()

    def result(self) -> Any:
        """The data of the reply; raises the error."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        assert self.outcome is not None
        return self.outcome[0]


class Actor:
    """The state of a running capability: what it has in its hands, what it asked, what it has yet to write."""

    def __init__(
        self,
        requests: Mapping[tuple[str, str], Handler],
        events: Mapping[str, Handler],
        says: frozenset[tuple[str, str]] | None,
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        self._requests = requests
        self._events = events
        self._says = says
        self._line_bytes_max = line_bytes_max
        self._lines = Lines()
        #: Requests in the hands of handlers, by id.
        self.calls: dict[str, Call] = {}
        #: Requests of its own, by id.
        self.asks: dict[str, Ask] = {}
        #: Messages that wait for their handler.
        self.ready: deque[Call] = deque()
        #: Lines to write, and their size.
        self.out: list[bytes] = []
        self.out_bytes = 0
        self._is_dropping = False

    # What comes in.

    def feed(self, chunk: bytes) -> None:
        """Takes bytes from standard input; `ready` has what is to be done."""
        for line in self._lines.feed(chunk):
            self._take(line)

    def end(self) -> None:
        """Standard input has ended: no answer will come any more."""
        rest = self._lines.rest()
        if rest.strip():
            self._take(rest)
        for ask in list(self.asks.values()):
            ask.settle(ConnectionLost(f"the input ended before {ask.type} was answered"))
        self.asks.clear()

    def _take(self, line: bytes) -> None:
        try:
            raw = wire.load(line)
            kind = raw["kind"]
            metadata = raw["metadata"]
            if kind == "command" or kind == "query":
                self._take_request(raw, kind, metadata["id"])
            elif kind == "event":
                self._take_event(raw, metadata)
            else:
                self._take_outcome(raw, kind, metadata["causation"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self._take_unreadable(line, error)

    def _take_request(self, raw: dict[str, Any], kind: str, id: str) -> None:
        handler = self._requests.get((kind, raw["type"]))
        if handler is None:
            self._write_error(
                raw["type"], id, {"code": 404, "message": f"there is no handler for the {kind} {raw['type']}"}
            )
            return
        raw["data"]  # must be there
        call = Call(self, handler, raw, id)
        self.calls[id] = call
        self.ready.append(call)

    def _take_event(self, raw: dict[str, Any], metadata: dict[str, Any]) -> None:
        type_name = raw["type"]
        cause = metadata.get("causation")
        if type_name == _CANCELLED:
            call = self.calls.get(raw["data"]["id"] if cause is None else cause)
            if call is not None:
                self.cancel(call)
        if cause in self.asks and type_name.endswith(".Progress"):
            on_progress = self.asks[cause].on_progress
            if on_progress is not None:
                on_progress(raw["data"])
        handler = self._events.get(type_name)
        if handler is None:
            return
        self.ready.append(Call(self, handler, raw, metadata["id"]))
        if len(self.ready) > EVENTS_MAX:
            self._drop_event()

    def _drop_event(self) -> None:
        """Requests are bounded by the daemon, so there is an event among so many."""
        for at, call in enumerate(self.ready):
            if call.handler.kind == "event":
                del self.ready[at]
                break
        self.tell_dropping()

    def tell_dropping(self) -> None:
        """Tells on standard error, once, that events are dropped."""
        if not self._is_dropping:
            self._is_dropping = True
            tell(f"events come faster than they are handled: beyond {EVENTS_MAX} the oldest are dropped from now on")

    def _take_outcome(self, raw: dict[str, Any], kind: str, cause: str) -> None:
        ask = self.asks.pop(cause, None)
        if ask is None:
            return
        if kind == "reply":
            ask.settle((raw["data"],))
        else:
            ask.settle(errors.from_wire(raw["type"], raw["data"], ask.id, ask.type))

    def _take_unreadable(self, line: bytes, error: Exception) -> None:
        raw = wire.load_envelope(line)
        quoted = line[:_QUOTE_MAX].decode("utf-8", "replace")
        tell(f"a line on standard input cannot be read: {error!r}; it begins with {quoted!r}")
        try:
            if raw is not None and raw["kind"] in ("command", "query"):
                words = f"the request cannot be read here: {error}"
                self._write_error(wire.check_type(raw["type"]), raw["metadata"]["id"], {"code": 422, "message": words})
        except (KeyError, TypeError, InvalidMessage):
            pass

    def cancel(self, call: Call) -> None:
        """The requester does not want the answer any more."""
        if not call.is_cancelled:
            call.is_cancelled = True
            if call.on_cancel is not None:
                call.on_cancel()

    # What handlers do.

    def arguments(self, call: Call) -> dict[str, Any]:
        """The keyword arguments of the handler, without the context."""
        try:
            return call.handler.signature.bind(call.raw["data"])
        except Misfit as misfit:
            raise CapabilityError(422, f"data{misfit.path}: {misfit.reason}") from misfit

    def reply(self, call: Call, value: Any) -> None:
        """Ends a request with what its handler returned. An event has no answer."""
        if call.is_over:
            return
        if call.handler.kind == "event":
            call.is_over = True
            return
        try:
            data = wire.dump(value)
            line = wire.to_bytes(
                f'{{"kind":"reply","type":"{call.handler.type}","data":{data},"metadata":{{"id":"{wire.fresh_id()}",'
                f'"timestamp":{wire.now_ms()},"causation":{wire.quote(call.id)}}}}}\n'
            )
            wire.check_line(line, self._line_bytes_max)
        except InvalidMessage as error:
            self.fail(call, error)
            return
        call.is_over = True
        self.calls.pop(call.id, None)
        self.out.append(line)
        self.out_bytes += len(line)

    def fail(self, call: Call, error: BaseException) -> None:
        """Ends a request with what its handler raised."""
        if call.is_over:
            return
        call.is_over = True
        if call.handler.kind == "event":
            tell(f"the handler of the event {call.handler.type} failed:\n{trace(error)}")
            return
        self.calls.pop(call.id, None)
        self._write_error(call.handler.type, call.id, self._error_data(call, error))

    def _error_data(self, call: Call, error: BaseException) -> dict[str, Any]:
        if call.is_cancelled and not isinstance(error, CapabilityError):
            return {"code": 499, "message": "cancelled"}
        if isinstance(error, CapabilityError) and not error.type:
            return _within_range(error.data)
        if isinstance(error, RequestError):
            # An answer of somebody else that the handler let through.
            cause = {"code": error.code, "message": error.message}
            words = f"asking {error.original_type or 'another capability'} failed: {error.message}"
            return _within_range({"code": error.code, "message": words, "cause": cause})
        if isinstance(error, InvalidMessage):
            tell(f"the handler of {call.handler.type} made a message that cannot be written: {error}")
            return {
                "code": 500,
                "message": f"the handler of {call.handler.type} made a message that cannot be written: {error}",
            }
        # What an unexpected exception says is for the log: it may be about others' requests.
        tell(f"the handler of {call.handler.type} failed:\n{trace(error)}")
        name = type(error).__name__
        return {
            "code": 500,
            "message": f"the handler of {call.handler.type} failed ({name}); the capability's log says more",
        }

    def _write_error(self, type_name: str, cause: str, data: dict[str, Any]) -> None:
        metadata = {"id": wire.fresh_id(), "timestamp": wire.now_ms(), "causation": cause}
        try:
            line = wire.compose("error", type_name, wire.dump(data), metadata)
            wire.check_line(line, self._line_bytes_max)
        except InvalidMessage as error:
            tell(f"the error of {type_name} cannot be written: {error}")
            short = {"code": data["code"], "message": str(data["message"])[:4096]}
            line = wire.compose("error", type_name, wire.dump(short), metadata)
        self.out.append(line)
        self.out_bytes += len(line)

    def say(
        self,
        kind: Literal["command", "query", "event"],
        type_name: str,
        data: Any,
        cause: Call | None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Writes an event or a request, and returns its id.

        Raises:
            InvalidMessage: It cannot be said, or the manifest does not list it.
        """
        wire.check_type(type_name)
        if self._says is not None and (kind, type_name) not in self._says:
            raise InvalidMessage(_undeclared(kind, type_name))
        id = wire.fresh_id()
        members: dict[str, Any] = {"id": id, "timestamp": wire.now_ms()}
        if cause is not None:
            members["causation"] = cause.id
        if metadata:
            members.update(metadata)
        line = wire.compose(kind, type_name, wire.dump(data), members)
        wire.check_line(line, self._line_bytes_max)
        self.out.append(line)
        self.out_bytes += len(line)
        return id

    def ask(
        self,
        kind: Literal["command", "query"],
        type_name: str,
        data: Any,
        cause: Call | None,
        timeout: float | None,
        on_progress: Callable[[Any], object] | None = None,
    ) -> Ask:
        """Writes a request and remembers it until its outcome comes."""
        metadata: dict[str, Any] = {}
        if timeout is not None:
            metadata["timeout"] = wire.timeout_ms(timeout)
        if on_progress is not None:
            metadata["progress"] = True
        ask = Ask(self.say(kind, type_name, data, cause, metadata), type_name)
        ask.on_progress = on_progress
        self.asks[ask.id] = ask
        return ask

    def take_output(self) -> bytes:
        """What is to be written to standard output now."""
        lines, self.out, self.out_bytes = self.out, [], 0
        return lines[0] if len(lines) == 1 else b"".join(lines)


def _within_range(data: dict[str, Any]) -> dict[str, Any]:
    code = data.get("code")
    if type(code) is int and 400 <= code <= 599:
        return data
    tell(f"an error has the code {code!r}, which is not between 400 and 599; it becomes 500")
    return {**data, "code": 500}


def _undeclared(kind: str, type_name: str) -> str:
    how = {
        "event": f'declare it with capability.event("{type_name}", ...)',
        "command": f'declare it with asks={{"{type_name}": "command"}}',
        "query": f'declare it with asks={{"{type_name}": "query"}}',
    }[kind]
    return f"the {kind} {type_name} is not in the manifest: {how}, or make the capability with says_anything=True"


def trace(error: BaseException) -> str:
    """An exception as Python shows it."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
