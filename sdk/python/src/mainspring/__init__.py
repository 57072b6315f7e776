"""Mainspring for Python: write capabilities, and talk to the daemon.

A capability::

    from mainspring import Capability

    notes = Capability("notes", "Keeps notes.")

    @notes.command("Notes.Add")
    def add(text: str) -> dict[str, int]:
        "Keeps a note."
        ...

    if __name__ == "__main__":
        notes.run()

A client, with `asyncio` and without::

    async with mainspring.connect() as ms:
        await ms.send("Notes.Add", {"text": "milk"})

    with mainspring.sync.connect() as ms:
        ms.send("Notes.Add", {"text": "milk"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._core.wire import Message
from ._schema.field import Field
from .capability import Capability
from .context import Context, SyncContext
from .errors import (
    AccessDenied,
    ActorCrash,
    ActorFault,
    BadAddress,
    Cancelled,
    CapabilityError,
    ClientClosed,
    ConflictError,
    ConnectionFailed,
    ConnectionLost,
    DaemonError,
    Deadlock,
    ForbiddenError,
    InternalError,
    InvalidMessage,
    LimitExceeded,
    MainspringError,
    MalformedError,
    NoAnswer,
    NoDaemon,
    NotADaemon,
    Overloaded,
    RequestError,
    RequestTimeout,
    RoutingError,
    SchemaError,
    SchemaProblem,
    ShuttingDown,
    TokenProblem,
    TooLargeError,
    TurnedAway,
    Unhealthy,
)

if TYPE_CHECKING:
    from . import sync, testing
    from ._client.aio import Client, Watch, connect
    from ._core.watch import Gap

__version__ = "0.1.0"

#: What is loaded when it is first used: capabilities of plain functions need neither sockets nor an event loop.
_LAZY = {
    "Client": "mainspring._client.aio",
    "Gap": "mainspring._core.watch",
    "Watch": "mainspring._client.aio",
    "connect": "mainspring._client.aio",
    "sync": "",
    "testing": "",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'mainspring' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_LAZY[name] or f"mainspring.{name}")
    value = getattr(module, name) if _LAZY[name] else module
    globals()[name] = value
    return value


__all__ = [
    "AccessDenied",
    "ActorCrash",
    "ActorFault",
    "BadAddress",
    "Cancelled",
    "Capability",
    "CapabilityError",
    "Client",
    "ClientClosed",
    "ConflictError",
    "ConnectionFailed",
    "ConnectionLost",
    "Context",
    "DaemonError",
    "Deadlock",
    "Field",
    "ForbiddenError",
    "Gap",
    "InternalError",
    "InvalidMessage",
    "LimitExceeded",
    "MainspringError",
    "MalformedError",
    "Message",
    "NoAnswer",
    "NoDaemon",
    "NotADaemon",
    "Overloaded",
    "RequestError",
    "RequestTimeout",
    "RoutingError",
    "SchemaError",
    "SchemaProblem",
    "ShuttingDown",
    "SyncContext",
    "TokenProblem",
    "TooLargeError",
    "TurnedAway",
    "Unhealthy",
    "Watch",
    "connect",
    "sync",
    "testing",
]
