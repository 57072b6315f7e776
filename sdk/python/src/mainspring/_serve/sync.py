"""Plain functions, one request at a time, no event loop: the shortest way from a line to its answer."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._core.actor import Actor, Ask, Call
from ..context import RequestKind, SyncContext
from ..errors import ConnectionLost
from .streams import READ_BYTES, Streams, signals

if TYPE_CHECKING:
    from ..capability import Capability


def serve_sync(capability: Capability, streams: Streams) -> None:
    """Serves until the input ends."""
    face = SyncFace(capability, streams)
    with signals(streams.end_input):
        face.run()


class SyncFace:
    """The loop, and the port of its contexts: a handler that waits reads on by itself."""

    def __init__(self, capability: Capability, streams: Streams) -> None:
        self._actor: Actor = capability.actor()
        self._kinds = capability.asks
        self._streams = streams
        self._has_ended = False

    def run(self) -> None:
        """Serves until the input ends and everything is answered."""
        ready = self._actor.ready
        try:
            while True:
                while ready:
                    self.handle(ready.popleft())
                if self._has_ended:
                    return
                self._read()
                self._flush()
        except BrokenPipeError:
            return  # The daemon is gone, and nobody is left to be answered.

    def handle(self, call: Call) -> None:
        """Calls a handler and writes its answer."""
        actor, handler = self._actor, call.handler
        try:
            arguments = actor.arguments(call)
            if handler.context is not None:
                arguments = {**arguments, handler.context: SyncContext(call, self)}
            value = handler.function(**arguments)
        except Exception as error:
            actor.fail(call, error)
        else:
            actor.reply(call, value)
        self._flush()

    def _read(self) -> None:
        chunk = os.read(self._streams.input, READ_BYTES)
        if chunk:
            self._actor.feed(chunk)
        else:
            self._has_ended = True
            self._actor.end()

    def _flush(self) -> None:
        if self._actor.out:
            self._streams.write(self._actor.take_output())

    # The port.

    def ask(
        self,
        call: Call | None,
        kind: RequestKind | None,
        type_name: str,
        data: Any,
        timeout: float | None,
        on_progress: Callable[[Any], object] | None,
    ) -> Any:
        """Asks, and reads until the answer is there. What else comes waits for its turn."""
        ask: Ask = self._actor.ask(
            kind or self._kinds.get(type_name, "query"), type_name, data, call, timeout, on_progress
        )
        self._flush()
        while ask.outcome is None:
            if self._has_ended:
                raise ConnectionLost(f"the input ended before {type_name} was answered")
            self._read()
        return ask.result()

    def emit(self, call: Call | None, type_name: str, data: Any) -> None:
        """Tells an event."""
        self._actor.say("event", type_name, data, call)
        self._flush()

    def poll(self, call: Call | None, seconds: float) -> None:
        """Reads what comes within a time, until the requester cancels."""
        until = time.monotonic() + seconds
        while not self._has_ended and not (call is not None and call.is_cancelled):
            left = until - time.monotonic()
            if not select.select([self._streams.input], [], [], max(0.0, left))[0]:
                return
            self._read()
        if call is None or not call.is_cancelled:
            time.sleep(max(0.0, until - time.monotonic()))
