"""The manifest of a capability: what `capability.json` holds."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any

from ._schema.hints import Schemas

if TYPE_CHECKING:
    from .capability import Capability, Handler

#: What says nothing about the data of a reply: no hint at all.
_UNKNOWN = inspect.Parameter.empty


def manifest(capability: Capability, program: list[str] | None) -> dict[str, Any]:
    """The manifest of a capability, with the command line of its program if there is one."""
    made: dict[str, Any] = {
        "id": capability.id,
        "description": capability.description,
        "inbound": _inbound(capability),
    }
    outbound = None if capability.says_anything else _outbound(capability)
    if outbound is not None:
        made["outbound"] = outbound
    if capability.subscriptions:
        made["subscribes"] = list(capability.subscriptions)
    if capability.uncaused:
        made["uncaused"] = True
    if capability.cancel:
        made["cancel"] = True
    types = {handler.type: words for handler in capability.requests.values() if (words := _type_table(handler))}
    if types:
        made["types"] = types
    if capability.concurrency > 1:
        made["limits"] = {"concurrency": capability.concurrency}
    if program is not None:
        made["program"] = {"process": program}
    return made


def _inbound(capability: Capability) -> dict[str, Any]:
    schemas = Schemas()
    branches: list[dict[str, Any]] = []
    for handler in capability.requests.values():
        data = handler.signature.input(schemas)
        if handler.examples:
            data["examples"] = handler.examples
        branches.append(_branch(handler.kind, handler.type, data, handler.description))
    if not branches:
        # A manifest must take something; its subscriptions are all that there is.
        branches = [
            _branch("event", name, {}, handler.description) for name, handler in capability.subscriptions.items()
        ]
    return _document(branches, schemas)


def _outbound(capability: Capability) -> dict[str, Any] | None:
    schemas = Schemas(output=True)
    branches: list[dict[str, Any]] = []
    for handler in capability.requests.values():
        data = {} if handler.output is _UNKNOWN else schemas.of(handler.output)
        branches.append(_branch("reply", handler.type, data, ""))
    for event in capability.events.values():
        branches.append(_branch("event", event.type, schemas.of(event.data), event.description))
    names = dict.fromkeys(f"{name}.Progress" for _, name in capability.requests)
    branches.extend(_branch("event", name, {}, "") for name in names if name not in capability.events)
    branches.extend(_branch(kind, name, {}, "") for name, kind in capability.asks.items())
    return _document(branches, schemas) if branches else None


def _branch(kind: str, type_name: str, data: dict[str, Any], description: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "object",
        "properties": {"kind": {"const": kind}, "type": {"const": type_name}, "data": data},
        "required": ["kind", "type", "data"],
    }
    if description:
        made["description"] = description
    return made


def _document(branches: list[dict[str, Any]], schemas: Schemas) -> dict[str, Any]:
    made = branches[0] if len(branches) == 1 else {"anyOf": branches}
    return {**made, "$defs": schemas.defs} if schemas.defs else made


def _type_table(handler: Handler) -> dict[str, Any]:
    """What the catalogue says of a type beyond its schema; nothing if the author said nothing."""
    words: dict[str, Any] = {
        name: value for name, value in dataclasses.asdict(handler.hints).items() if value is not None
    }
    if handler.title:
        words["title"] = handler.title
    if handler.deprecated:
        words["deprecated"] = True
    return words
