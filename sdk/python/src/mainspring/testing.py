"""Tests of a capability without a daemon.

`Harness` (and `AsyncHarness` inside of a running event loop) plays the daemon's part: it validates by the schemas of
the manifest, hands messages to the real handlers as lines of JSON, answers what they ask, and holds what they say to
the rules that a daemon enforces::

    with Harness(notes) as loop:
        loop.answers["Stock.Get"] = {"left": 3}
        assert loop.send("Notes.Add", {"text": "milk"}) == {"id": 1}
        assert [event.type for event in loop.events] == ["Notes.Added"]
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal

from . import errors
from ._core import wire
from ._core.actor import Actor, Call
from ._core.wire import NOTHING, Message
from ._schema.validate import Misfit, check
from ._serve.aio import AsyncFace
from ._serve.streams import Streams
from ._serve.sync import SyncFace
from .capability import Capability
from .errors import MainspringError, RequestError, RoutingError, SchemaError

Answer = Any


class BrokenRule(MainspringError, AssertionError):
    """The capability said what a daemon would restart it for."""


class _Loop:
    """What both harnesses share: the daemon's part, without time."""

    def __init__(self, capability: Capability) -> None:
        self._manifest = capability.manifest()
        self._inbound = _branches(self._manifest["inbound"])
        outbound = self._manifest.get("outbound")
        self._outbound = None if outbound is None else _branches(outbound)
        self._subscribes = frozenset(self._manifest.get("subscribes", ()))
        self._given: dict[str, str] = {}
        self._open: dict[str, tuple[str, list[Any], Callable[[Any], object] | None]] = {}
        self._is_uncaused = capability.uncaused
        #: The events that the capability has told, oldest first.
        self.events: list[Message] = []
        #: What others answer, by type: data, an exception, or a function of the data that returns or raises it.
        self.answers: dict[str, Answer] = {}

    def give(
        self,
        kind: Literal["command", "query", "event"],
        type_name: str,
        data: Any,
        metadata: dict[str, Any] | None = None,
        on_progress: Callable[[Any], object] | None = None,
    ) -> tuple[str, bytes, list[Any]]:
        """A message for the capability: its id, its line, and where its outcome will be.

        Raises:
            RequestError: A daemon would refuse it.
        """
        id = wire.fresh_id()
        text = wire.dump(data)
        members: dict[str, Any] = {"id": id, "timestamp": wire.now_ms(), **(metadata or {})}
        if on_progress is not None:
            members["progress"] = True
        line = wire.compose(kind, wire.check_type(type_name), text, members)
        plain = wire.load(line)["data"]
        if kind != "event" or type_name not in self._subscribes:
            self._check_inbound(kind, type_name, plain)
        self._given[id] = type_name
        outcome: list[Any] = []
        if kind != "event":
            self._open[id] = (type_name, outcome, on_progress)
        return id, line, outcome

    def _check_inbound(self, kind: str, type_name: str, data: Any) -> None:
        schema = self._inbound.get((kind, type_name))
        if schema is None:
            words = f"type: no capability handles {kind} {type_name}"
            raise RoutingError(404, words, started="no", type="Sys.RoutingError", original_type=type_name)
        try:
            check(data, schema["data"], schema["root"], "data")
        except Misfit as misfit:
            raise SchemaError(422, str(misfit), started="no", type="Sys.SchemaError", original_type=type_name) from None

    def take(self, output: bytes) -> list[bytes]:
        """What the capability says; returns the answers to what it asks.

        Raises:
            BrokenRule: A daemon would not have it.
        """
        answers: list[bytes] = []
        for line in output.splitlines():
            message = Message(wire.load(line))
            self._check_said(message)
            if message.kind in ("reply", "error"):
                self._end(message)
            elif message.kind == "event":
                self.events.append(message)
                self._progress(message)
            else:
                answers.append(self._answer(message))
        return answers

    def _check_said(self, message: Message) -> None:
        cause = message.causation
        if cause is None and not (self._is_uncaused and message.kind not in ("reply", "error")):
            raise BrokenRule(f"{message} names no cause")
        if cause is not None and cause not in self._given:
            raise BrokenRule(f"{message} names a cause that the capability was never given")
        if self._outbound is None or message.kind == "error":
            return
        schema = self._outbound.get((message.kind, message.type))
        if schema is None:
            raise BrokenRule(f"{message} is not in the outbound schema")
        try:
            check(message.data, schema["data"], schema["root"], "data")
        except Misfit as misfit:
            raise BrokenRule(f"{message} breaks the outbound schema: {misfit}") from None

    def _end(self, message: Message) -> None:
        open_request = self._open.pop(message.causation or "", None)
        if open_request is None:
            raise BrokenRule(f"{message} answers {message.causation}, which is answered already")
        type_name, outcome, _ = open_request
        if type_name != message.type:
            raise BrokenRule(f"{message} answers a request of another type, {type_name}")
        if message.kind == "reply":
            outcome.append((message.data,))
        else:
            outcome.append(errors.from_wire(message.type, message.data, message.causation, type_name))

    def _progress(self, message: Message) -> None:
        open_request = self._open.get(message.causation or "")
        if open_request and open_request[2] is not None and message.type.endswith(".Progress"):
            open_request[2](message.data)

    def _answer(self, message: Message) -> bytes:
        answer = self.answers.get(message.type, _NOBODY)
        try:
            if callable(answer) and not isinstance(answer, type):
                answer = answer(message.data)
            if isinstance(answer, Exception):
                raise answer
        except RequestError as error:
            return self._outcome(message, "error", error.type or message.type, error.data)
        if answer is _NOBODY:
            words = f"type: no capability handles {message.kind} {message.type}; set it in `answers` of the harness"
            data = {
                "code": 404,
                "message": words,
                "originalId": message.id,
                "originalType": message.type,
                "started": "no",
            }
            return self._outcome(message, "error", "Sys.RoutingError", data)
        return self._outcome(message, "reply", message.type, answer)

    def _outcome(self, message: Message, kind: str, type_name: str, data: Any) -> bytes:
        id = wire.fresh_id()
        metadata = {"id": id, "timestamp": wire.now_ms(), "causation": message.id}
        self._given[id] = type_name
        return wire.compose(kind, type_name, wire.dump(data), metadata)


_NOBODY = object()


def _branches(schema: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """The schemas of data by kind and type, of a schema that `manifest` made."""
    made: dict[tuple[str, str], dict[str, Any]] = {}
    for branch in schema.get("anyOf", [schema]):
        parts = branch["properties"]
        made[parts["kind"]["const"], parts["type"]["const"]] = {"data": parts["data"], "root": schema}
    return made


class _SyncFace(SyncFace):
    """The face of plain functions with the harness in the place of the streams."""

    def __init__(self, capability: Capability, loop: _Loop) -> None:
        super().__init__(capability, Streams(-1, -1))
        self._loop = loop

    @property
    def actor(self) -> Actor:
        return self._actor

    def _flush(self) -> None:
        while self._actor.out:
            for answer in self._loop.take(self._actor.take_output()):
                self._actor.feed(answer)

    def _read(self) -> None:
        raise BrokenRule("the capability waits for an answer that never comes")

    def poll(self, call: Call | None, seconds: float) -> None:
        """Time does not pass in here."""


class Harness:
    """Tests a capability in a program without an event loop; its handlers may be coroutines all the same."""

    def __init__(self, capability: Capability) -> None:
        self._loop = _Loop(capability)
        self.events = self._loop.events
        self.answers = self._loop.answers
        self._face: _SyncFace | None = None
        self._runner: asyncio.AbstractEventLoop | None = None
        self._inner: AsyncHarness | None = None
        if capability.is_async:
            self._runner = asyncio.new_event_loop()
            self._inner = AsyncHarness(capability, self._loop)
            self._runner.run_until_complete(self._inner.__aenter__())
        else:
            self._face = _SyncFace(capability, self._loop)

    def send(self, type: str, data: Any = NOTHING, **options: Any) -> Any:
        """Sends a command and returns the data of its reply; the options are `metadata` and `on_progress`.

        Raises:
            RequestError: It ended in an error.
            BrokenRule: A daemon would restart the capability.
        """
        return self._request("command", type, data, options)

    def query(self, type: str, data: Any = NOTHING, **options: Any) -> Any:
        """Sends a query and returns the data of its reply."""
        return self._request("query", type, data, options)

    def emit(self, type: str, data: Any = NOTHING) -> None:
        """Tells the capability an event, and returns when it has handled it."""
        if self._runner is not None and self._inner is not None:
            self._runner.run_until_complete(self._inner.emit(type, data))
            return
        self._run(self._loop.give("event", type, data)[1])

    def _request(self, kind: Literal["command", "query"], type_name: str, data: Any, options: dict[str, Any]) -> Any:
        if self._runner is not None and self._inner is not None:
            return self._runner.run_until_complete(self._inner._request(kind, type_name, data, options))
        _, line, outcome = self._loop.give(kind, type_name, data, **options)
        self._run(line)
        return _result(outcome)

    def _run(self, line: bytes) -> None:
        assert self._face is not None
        self._face.actor.feed(line)
        while self._face.actor.ready:
            self._face.handle(self._face.actor.ready.popleft())
        self._face._flush()

    def close(self) -> None:
        """Ends the harness."""
        if self._runner is not None and self._inner is not None:
            self._runner.run_until_complete(self._inner.close())
            self._runner.close()
            self._runner = None

    def __enter__(self) -> Harness:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _AsyncFace(AsyncFace):
    """The face of coroutines with the harness in the place of the streams."""

    def __init__(self, capability: Capability, loop: _Loop) -> None:
        super().__init__(capability, Streams(-1, -1), asyncio.get_running_loop())
        self._part = loop
        self._changed = asyncio.Event()
        self.broken: BrokenRule | None = None

    def feed(self, line: bytes) -> None:
        self._take(line)

    def _write(self) -> None:
        try:
            while self._actor.out:
                for answer in self._part.take(self._actor.take_output()):
                    self._loop.call_soon(self._take, answer)
        except BrokenRule as broken:
            self.broken = broken
        self._changed.set()

    def _read_on(self) -> None:
        """Lines come from the harness."""

    async def until(self, is_done: Callable[[], bool]) -> None:
        """Waits until something is done, or a rule is broken."""
        while not is_done():
            if self.broken is not None:
                broken, self.broken = self.broken, None
                raise broken
            self._changed.clear()
            await self._changed.wait()

    @property
    def is_idle(self) -> bool:
        return not self._events and self._event_task is None

    async def _handle_events(self) -> None:
        await super()._handle_events()
        self._changed.set()

    def cancel(self, id: str, type_name: str) -> None:
        cause = {"id": wire.fresh_id(), "timestamp": wire.now_ms(), "causation": id}
        data = {"id": id, "type": type_name, "reason": "cancelled"}
        self._take(wire.compose("event", "Sys.RequestCancelled", wire.dump(data), cause))

    def start_backgrounds(self) -> list[asyncio.Task[None]]:
        return [self._loop.create_task(self._background(run)) for run in self._capability.backgrounds]

    def shut_down(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class AsyncHarness:
    """Tests a capability inside of a running event loop. Cancelling the task of a request cancels the request."""

    def __init__(self, capability: Capability, loop: _Loop | None = None) -> None:
        self._capability = capability
        self._loop = loop or _Loop(capability)
        self.events = self._loop.events
        self.answers = self._loop.answers
        self._face: _AsyncFace | None = None
        self._backgrounds: list[asyncio.Task[None]] = []

    async def send(self, type: str, data: Any = NOTHING, **options: Any) -> Any:
        """Sends a command and returns the data of its reply; the options are `metadata` and `on_progress`.

        Raises:
            RequestError: It ended in an error.
            BrokenRule: A daemon would restart the capability.
        """
        return await self._request("command", type, data, options)

    async def query(self, type: str, data: Any = NOTHING, **options: Any) -> Any:
        """Sends a query and returns the data of its reply."""
        return await self._request("query", type, data, options)

    async def emit(self, type: str, data: Any = NOTHING) -> None:
        """Tells the capability an event, and returns when it has handled it."""
        face = self._running()
        face.feed(self._loop.give("event", type, data)[1])
        await face.until(lambda: face.is_idle)

    async def _request(
        self, kind: Literal["command", "query"], type_name: str, data: Any, options: dict[str, Any]
    ) -> Any:
        face = self._running()
        id, line, outcome = self._loop.give(kind, type_name, data, **options)
        face.feed(line)
        try:
            await face.until(lambda: bool(outcome))
        except asyncio.CancelledError:
            if self._capability.cancel:
                face.cancel(id, type_name)
                await face.until(lambda: bool(outcome))
            raise
        return _result(outcome)

    def _running(self) -> _AsyncFace:
        if self._face is None:
            raise MainspringError("use the harness with `async with`")
        return self._face

    async def close(self) -> None:
        """Ends the harness, and the background tasks of the capability."""
        for task in self._backgrounds:
            task.cancel()
        await asyncio.gather(*self._backgrounds, return_exceptions=True)
        if self._face is not None:
            self._face.shut_down()

    async def __aenter__(self) -> AsyncHarness:
        self._face = _AsyncFace(self._capability, self._loop)
        self._backgrounds = self._face.start_backgrounds()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _result(outcome: list[Any]) -> Any:
    if not outcome:
        raise BrokenRule("the request was not answered")
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0][0]


__all__ = ["AsyncHarness", "BrokenRule", "Harness"]
