"""A capability: handlers by decorator, and the manifest that their type hints and docstrings make."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from ._core import wire
from ._core.actor import LINE_BYTES_MAX, Actor
from ._schema.signature import Signature
from ._schema.signature import read as read_signature
from ._serve.streams import Streams
from .context import Context, RequestKind, SyncContext
from .errors import SchemaProblem

Function = TypeVar("Function", bound=Callable[..., Any])
Background = Callable[[Context], Awaitable[None]]

#: What clients may not send and capabilities may not say: the daemon's own names.
_RESERVED = ("Sys", "Syscall", "Timer", "Kernel")
_CONTEXTS = (Context, SyncContext)


@dataclass(frozen=True)
class Hints:
    """What a type of message does to the world, for people and models. `None`: the daemon's default for its kind."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True)
class Handler:
    """A function that takes a kind and type of message."""

    kind: Literal["command", "query", "event"]
    type: str
    function: Callable[..., Any]
    signature: Signature
    #: Whether it is a coroutine function.
    is_async: bool
    #: The parameter of the function that is the context.
    context: str | None
    #: The type that the reply has; `inspect.Parameter.empty` if nothing is known of it.
    output: Any
    description: str = ""
    title: str | None = None
    examples: list[Any] = field(default_factory=lambda: [])
    deprecated: bool = False
    hints: Hints = Hints()


@dataclass(frozen=True)
class Event:
    """An event that a capability tells."""

    type: str
    #: The hint of its data.
    data: Any
    description: str = ""


class Capability:
    """A capability: what it takes, what it says, and the functions behind it.

    Args:
        id: The name, unique in the daemon.
        description: What it does, for people and models.
        concurrency: Requests in its hands at once.
        asks: Types of commands and queries that it sends to others: `{"Stock.Reserve": "command"}`.
        uncaused: Whether it may say what no message caused (see `background`).
        cancel: Whether it wants to know that a requester has cancelled.
        says_anything: Leaves the manifest without an outbound schema, so that nothing need be declared.
        line_bytes_max: The longest line that the daemon takes, if that is set to other than 1 MiB.
    """

    def __init__(
        self,
        id: str,
        description: str,
        *,
        concurrency: int = 1,
        asks: Mapping[str, RequestKind] | None = None,
        uncaused: bool = False,
        cancel: bool = False,
        says_anything: bool = False,
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        if not id or not description:
            raise SchemaProblem("a capability needs an id and a description")
        if concurrency < 1:
            raise SchemaProblem("the concurrency of a capability must be at least 1")
        self.id = id
        self.description = description
        self.concurrency = concurrency
        self.asks: dict[str, RequestKind] = {wire.check_type(name): kind for name, kind in (asks or {}).items()}
        self.uncaused = uncaused
        self.cancel = cancel
        self.says_anything = says_anything
        self.line_bytes_max = line_bytes_max
        self.requests: dict[tuple[str, str], Handler] = {}
        self.subscriptions: dict[str, Handler] = {}
        self.events: dict[str, Event] = {}
        self.backgrounds: list[Background] = []

    def command(
        self,
        type: str,
        *,
        description: str | None = None,
        output: Any = inspect.Parameter.empty,
        title: str | None = None,
        examples: list[Any] | None = None,
        deprecated: bool = False,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
    ) -> Callable[[Function], Function]:
        """Makes a function the handler of a command. What it returns is the reply.

        Args:
            type: The type of the command, such as `Notes.Add`.
            description: What it does; the function's docstring if absent.
            output: The type of the reply; the hint of what the function returns if absent.
            title: A short name for people.
            examples: Examples of data.
            deprecated: Whether it should not be used any more.
            read_only: It changes nothing.
            destructive: It may undo or delete something.
            idempotent: Done twice is done once.
            open_world: It reaches beyond this daemon.
        """
        hints = Hints(read_only, destructive, idempotent, open_world)
        return self._decorator("command", type, description, output, title, examples, deprecated, hints)

    def query(
        self,
        type: str,
        *,
        description: str | None = None,
        output: Any = inspect.Parameter.empty,
        title: str | None = None,
        examples: list[Any] | None = None,
        deprecated: bool = False,
        open_world: bool | None = None,
    ) -> Callable[[Function], Function]:
        """Makes a function the handler of a query, which changes nothing. The arguments are those of `command`."""
        hints = Hints(open_world=open_world)
        return self._decorator("query", type, description, output, title, examples, deprecated, hints)

    def on(self, *types: str) -> Callable[[Function], Function]:
        """Makes a function the handler of events of these types. Events are handled in the order of their coming."""
        if not types:
            raise SchemaProblem("say which events: @capability.on('Order.Placed')")

        def decorate(function: Function) -> Function:
            for type_name in types:
                wire.check_type(type_name)
                if type_name in self.subscriptions:
                    raise SchemaProblem(f"the event {type_name} has a handler already")
                self.subscriptions[type_name] = _handler("event", type_name, function, None, inspect.Parameter.empty)
            return function

        return decorate

    def event(self, type: str, data: Any = Any, *, description: str = "") -> Event:
        """Declares an event that the capability tells, with the type of its data."""
        _check_own(type, "tells")
        if type in self.events:
            raise SchemaProblem(f"the event {type} is declared twice")
        self.events[type] = Event(type, data, description)
        return self.events[type]

    def background(self, function: Background) -> Background:
        """Runs a coroutine function beside the handlers, from the start to the end of the program.

        What it says has no cause, so the capability must be made with `uncaused=True`.
        """
        if not self.uncaused:
            raise SchemaProblem("a background task says what no message caused: make the capability with uncaused=True")
        if not inspect.iscoroutinefunction(function):
            raise SchemaProblem("a background task is a coroutine function (async def)")
        self.backgrounds.append(function)
        return function

    def _decorator(
        self,
        kind: Literal["command", "query"],
        type_name: str,
        description: str | None,
        output: Any,
        title: str | None,
        examples: list[Any] | None,
        deprecated: bool,
        hints: Hints,
    ) -> Callable[[Function], Function]:
        _check_own(type_name, "takes")
        key = (kind, type_name)

        def decorate(function: Function) -> Function:
            if key in self.requests:
                raise SchemaProblem(f"the {kind} {type_name} has a handler already")
            self.requests[key] = _handler(
                kind, type_name, function, description, output, title, examples, deprecated, hints
            )
            return function

        return decorate

    @property
    def is_async(self) -> bool:
        """Whether an event loop is needed: a handler is a coroutine, or several requests are handled at once."""
        handlers = [*self.requests.values(), *self.subscriptions.values()]
        return self.concurrency > 1 or bool(self.backgrounds) or any(handler.is_async for handler in handlers)

    def manifest(self, program: list[str] | None = None) -> dict[str, Any]:
        """The manifest, as `capability.json` has it."""
        from .manifest import manifest

        return manifest(self, program)

    def actor(self) -> Actor:
        """A running instance without streams, for faces and test harnesses."""
        says: frozenset[tuple[str, str]] | None = None
        if not self.says_anything:
            said = {("event", name) for name in self.events} | {(kind, name) for name, kind in self.asks.items()}
            progress = {("event", f"{name}.Progress") for _, name in self.requests}
            says = frozenset(said | progress)
        return Actor(self.requests, self.subscriptions, says, self.line_bytes_max)

    def run(self, arguments: list[str] | None = None) -> None:
        """Serves standard input and output until the input ends. With `--manifest` prints the manifest instead.

        Does not return before all is answered. Call it in the main thread, last of all.
        """
        given = sys.argv[1:] if arguments is None else arguments
        if given == ["--manifest"]:
            json.dump(self.manifest(), sys.stdout, indent=2, ensure_ascii=False)
            sys.stdout.write("\n")
            return
        with Streams.reserve() as streams:
            self.serve(streams)

    def serve(self, streams: Streams) -> None:
        """Serves streams that are reserved already."""
        if self.is_async:
            # Not at the top: a capability of plain functions starts in half the time without an
            # event loop.
            import asyncio

            from ._serve.aio import serve

            asyncio.run(serve(self, streams))
        else:
            from ._serve.sync import serve_sync

            serve_sync(self, streams)


def _handler(
    kind: Literal["command", "query", "event"],
    type_name: str,
    function: Callable[..., Any],
    description: str | None,
    output: Any,
    title: str | None = None,
    examples: list[Any] | None = None,
    deprecated: bool = False,
    hints: Hints | None = None,
) -> Handler:
    signature = read_signature(function, _CONTEXTS)
    is_async = inspect.iscoroutinefunction(function)
    _check_context(function, signature, is_async)
    return Handler(
        kind=kind,
        type=type_name,
        function=function,
        signature=signature,
        is_async=is_async,
        context=signature.context,
        output=signature.returns if output is inspect.Parameter.empty else output,
        description=signature.description if description is None else description,
        title=title,
        examples=examples or [],
        deprecated=deprecated,
        hints=hints or Hints(),
    )


def _check_context(function: Callable[..., Any], signature: Signature, is_async: bool) -> None:
    """A coroutine with the context of plain functions would block everybody, and the other way round nothing would be sent."""
    hint = function.__annotations__.get(signature.context or "")
    name = hint if isinstance(hint, str) else getattr(hint, "__name__", "")
    wanted = "Context" if is_async else "SyncContext"
    if name.rpartition(".")[2] not in ("", wanted):
        how = "is a coroutine function" if is_async else "is a plain function"
        raise SchemaProblem(f"{function.__qualname__} {how}: its context is a {wanted}, not a {name}")


def _check_own(type_name: str, verb: str) -> None:
    wire.check_type(type_name)
    if type_name.partition(".")[0] in _RESERVED:
        raise SchemaProblem(f"{type_name} belongs to the daemon: no capability {verb} it")
