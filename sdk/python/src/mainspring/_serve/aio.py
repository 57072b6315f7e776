"""Coroutines and threads, several requests at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from .._core.actor import EVENTS_MAX, Actor, Call, tell, trace
from ..context import Context, RequestKind, SyncContext
from .streams import READ_BYTES, Streams, signals

if TYPE_CHECKING:
    from ..capability import Capability

#: Unwritten bytes. Beyond: nothing more is read, and whoever says something waits.
OUT_BYTES_MAX = 1 << 20
#: Events that wait for their handler. Beyond: nothing more is read, unless an answer is waited for.
EVENTS_PAUSE = 1024


async def serve(capability: Capability, streams: Streams) -> None:
    """Serves until the input ends."""
    loop = asyncio.get_running_loop()
    face = AsyncFace(capability, streams, loop)
    terminate = partial(loop.call_soon_threadsafe, face.terminate)
    with signals(terminate):
        await face.run()


class AsyncFace:
    """The tasks of the handlers, and the port of their contexts."""

    def __init__(self, capability: Capability, streams: Streams, loop: asyncio.AbstractEventLoop) -> None:
        self._capability = capability
        self._actor: Actor = capability.actor()
        self._streams = streams
        self._loop = loop
        self._kinds = capability.asks
        self._pool = ThreadPoolExecutor(max_workers=capability.concurrency + 1, thread_name_prefix="handler")
        self._tasks: set[asyncio.Task[None]] = set()
        self._events: deque[Call] = deque()
        self._event_task: asyncio.Task[None] | None = None
        #: Events for plain functions that are not handled yet, and the requests that came after them.
        self._plain_events = 0
        self._held: deque[Call] = deque()
        self._input_ended = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._unwritten = bytearray()
        self._is_reading = False
        self._is_writing = False
        self._is_broken = False

    async def run(self) -> None:
        """Serves until the input ends and everything is answered."""
        try:
            os.set_blocking(self._streams.output, False)
            self._read_on()
            backgrounds = [self._loop.create_task(self._background(run)) for run in self._capability.backgrounds]
            await self._input_ended.wait()
            for task in backgrounds:
                task.cancel()
            while self._tasks or self._event_task is not None:
                rest = [*self._tasks, *([self._event_task] if self._event_task is not None else [])]
                await asyncio.wait(rest)
            await asyncio.gather(*backgrounds, return_exceptions=True)
            while self._unwritten and not self._is_broken:
                self._room.clear()
                await self._room.wait()
        finally:
            self._pause()
            self._loop.remove_writer(self._streams.output)
            with contextlib.suppress(OSError):
                os.set_blocking(self._streams.output, True)
            self._pool.shutdown(wait=False, cancel_futures=True)

    def terminate(self) -> None:
        """SIGTERM: as if the input had ended; and if it has, an end to waiting for the handlers."""
        if self._input_ended.is_set():
            for task in self._tasks:
                self._cancel_soon(task)
        else:
            self._end()

    # Reading.

    def _read_on(self) -> None:
        if self._is_reading or self._input_ended.is_set():
            return
        self._is_reading = True
        try:
            self._loop.add_reader(self._streams.input, self._readable)
        except (PermissionError, OSError):
            # A file, which epoll does not take: somebody tries the program by hand.
            threading.Thread(target=self._read_file, daemon=True).start()

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            with contextlib.suppress(OSError, ValueError):
                self._loop.remove_reader(self._streams.input)

    def _read_file(self) -> None:
        while chunk := os.read(self._streams.input, READ_BYTES):
            self._loop.call_soon_threadsafe(self._take, chunk)
        self._loop.call_soon_threadsafe(self._end)

    def _readable(self) -> None:
        try:
            chunk = os.read(self._streams.input, READ_BYTES)
        except BlockingIOError:
            return
        if chunk:
            self._take(chunk)
        else:
            self._end()

    def _take(self, chunk: bytes) -> None:
        self._actor.feed(chunk)
        self._start_ready()
        self._write()
        self._balance()

    def _end(self) -> None:
        self._pause()
        self._actor.end()
        self._start_ready()
        self._write()
        self._input_ended.set()

    def _balance(self) -> None:
        """Reads on, or not: nothing that is held may grow without a bound."""
        is_full = len(self._unwritten) > OUT_BYTES_MAX
        # An event handler may wait for an answer, which would never be read. The actor has a bound
        # of its own for that.
        is_flooded = len(self._events) > EVENTS_PAUSE and not self._actor.asks
        if is_full or is_flooded:
            self._pause()
        else:
            self._read_on()

    # Handlers.

    def _start_ready(self) -> None:
        ready = self._actor.ready
        while ready:
            call = ready.popleft()
            if call.handler.kind == "event":
                self._start_event(call)
            elif self._plain_events and not self._actor.asks:
                # A plain function sees an event before the request that came after it, though it
                # runs in a thread. One that asks is not waited for: the request may be what its
                # answer waits for.
                self._held.append(call)
            else:
                self._start_request(call)

    def _start_event(self, call: Call) -> None:
        self._events.append(call)
        self._plain_events += not call.handler.is_async
        if len(self._events) > EVENTS_MAX:
            self._plain_events -= not self._events.popleft().handler.is_async
            self._actor.tell_dropping()
        if self._event_task is None:
            self._event_task = self._loop.create_task(self._handle_events())

    def _start_request(self, call: Call) -> None:
        task = self._task(self._handle(call))
        if not task.done():
            if call.handler.is_async:
                call.on_cancel = partial(self._cancel_soon, task)
                if call.is_cancelled:
                    self._cancel_soon(task)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _start_held(self) -> None:
        while self._held:
            self._start_request(self._held.popleft())

    def _cancel_soon(self, task: asyncio.Task[None]) -> None:
        # Not before its first step: a coroutine that has not begun would end without an answer.
        self._loop.call_soon(task.cancel)

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        if sys.version_info >= (3, 12):
            # A handler that never waits is done before this returns, without a turn of the loop.
            return asyncio.Task(work, loop=self._loop, eager_start=True)
        return self._loop.create_task(work)

    async def _handle_events(self) -> None:
        while self._events:
            call = self._events.popleft()
            await self._handle(call)
            self._plain_events -= not call.handler.is_async
            if not self._plain_events:
                self._start_held()
            self._balance()
        self._event_task = None

    async def _handle(self, call: Call) -> None:
        actor, handler = self._actor, call.handler
        try:
            arguments = actor.arguments(call)
            if handler.is_async:
                if handler.context is not None:
                    arguments = {**arguments, handler.context: Context(call, self)}
                value = await handler.function(**arguments)
            else:
                if handler.context is not None:
                    arguments = {**arguments, handler.context: SyncContext(call, _ThreadPort(self))}
                value = await self._loop.run_in_executor(self._pool, partial(handler.function, **arguments))
        except (Exception, asyncio.CancelledError) as error:
            actor.fail(call, error)
        else:
            actor.reply(call, value)
        self._write()

    async def _background(self, run: Callable[[Context], Any]) -> None:
        try:
            await run(Context(None, self))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # A capability that does half of its work is worse than one that is restarted.
            tell(f"the background task {getattr(run, '__qualname__', run)} failed:\n{trace(error)}")
            os._exit(1)

    # Writing.

    def _write(self) -> None:
        if self._actor.out:
            output = self._actor.take_output()
            if not self._unwritten and not self._is_broken:
                output = output[self._write_some(output) :]
            self._unwritten += output
        if self._unwritten and not self._is_writing and not self._is_broken:
            self._is_writing = True
            self._loop.add_writer(self._streams.output, self._writable)
            self._room.clear()

    def _write_some(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._streams.output, data)
        except BlockingIOError:
            return 0
        except OSError:
            # The daemon is gone: nobody is left to be answered.
            self._is_broken = True
            self._unwritten.clear()
            self._room.set()
            self._input_ended.set()
            return len(data)

    def _writable(self) -> None:
        del self._unwritten[: self._write_some(self._unwritten)]
        if self._unwritten:
            return
        self._is_writing = False
        self._loop.remove_writer(self._streams.output)
        self._room.set()
        self._balance()

    # The port.

    async def ask(
        self,
        call: Call | None,
        kind: RequestKind | None,
        type_name: str,
        data: Any,
        timeout: float | None,
        on_progress: Callable[[Any], object] | None,
    ) -> Any:
        """Asks, and waits for the answer. A handler that is cancelled cancels what it asked."""
        await self._room.wait()
        actor = self._actor
        ask = actor.ask(kind or self._kinds.get(type_name, "query"), type_name, data, call, timeout, on_progress)
        done: asyncio.Future[None] = self._loop.create_future()
        ask.on_done = partial(_set_done, done)
        if self._input_ended.is_set():
            actor.end()
        self._start_held()
        self._write()
        self._balance()
        try:
            await done
        finally:
            actor.asks.pop(ask.id, None)
        return ask.result()

    async def emit(self, call: Call | None, type_name: str, data: Any) -> None:
        """Tells an event; waits while too much is unwritten."""
        await self._room.wait()
        self._actor.say("event", type_name, data, call)
        self._write()


def _set_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


class _ThreadPort:
    """The port of a plain function that runs in a thread of its own."""

    def __init__(self, face: AsyncFace) -> None:
        self._face = face

    def ask(self, *arguments: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(self._face.ask(*arguments), self._face._loop).result()

    def emit(self, *arguments: Any) -> None:
        asyncio.run_coroutine_threadsafe(self._face.emit(*arguments), self._face._loop).result()

    def poll(self, call: Call | None, seconds: float) -> None:
        """Waits for the time, or for the requester to cancel."""
        if seconds <= 0 or call is None or call.is_cancelled:
            return
        woken = threading.Event()
        call.on_cancel = woken.set
        if not call.is_cancelled:
            woken.wait(seconds)
