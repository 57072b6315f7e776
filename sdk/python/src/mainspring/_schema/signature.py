"""The data of a handler, from its parameters.

A parameter called `data` takes the data whole. Otherwise each parameter is a member of the data, which is an object.
A parameter with the hint `Context` or `SyncContext`, or called `ctx` without a hint, is the context.
"""

# Everything here is known at run time only:
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import SchemaProblem
from . import docs
from .convert import Converter, convert_members, converter
from .hints import Schemas, add_default, record, unwrap
from .validate import Misfit

_KINDS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)
_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True)
class Signature:
    """What a handler takes and gives."""

    #: From the docstring.
    description: str
    #: Makes the keyword arguments out of data; raises `Misfit`.
    bind: Callable[[Any], dict[str, Any]]
    #: The parameter that is the context.
    context: str | None
    #: Writes the schema of the data.
    input: Callable[[Schemas], dict[str, Any]]
    #: The hint of what is returned; `inspect.Parameter.empty` if there is none.
    returns: Any


def read(function: Callable[..., Any], contexts: tuple[type, ...]) -> Signature:
    """The signature of a handler.

    Raises:
        SchemaProblem: A parameter cannot be filled from JSON.
    """
    name = getattr(function, "__qualname__", repr(function))
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise SchemaProblem(f"{name}: {error}; hints of handlers must be names of their module") from error
    parameters = dict(inspect.signature(function).parameters)
    context = _context(parameters, hints, contexts)
    if context is not None:
        del parameters[context]
    for parameter in parameters.values():
        if parameter.kind in _KINDS:
            raise SchemaProblem(f"{name}: the parameter {parameter.name} has no name in JSON; use keyword parameters")
    description, words = docs.read(function.__doc__)
    returns = hints.get("return", _EMPTY)
    if set(parameters) == {"data"}:
        hint = hints.get("data", Any)
        note = words.get("data")
        return Signature(
            description, _bind_whole(hint), context, lambda schemas: _noted(schemas.of(hint), note), returns
        )
    return Signature(
        description, _bind_members(parameters, hints), context, _members(parameters, hints, words), returns
    )


def _context(parameters: dict[str, inspect.Parameter], hints: dict[str, Any], contexts: tuple[type, ...]) -> str | None:
    for name in parameters:
        hint = unwrap(hints.get(name))
        if (isinstance(hint, type) and issubclass(hint, contexts)) or (name == "ctx" and name not in hints):
            return name
    return None


def _noted(schema: dict[str, Any], note: str | None) -> dict[str, Any]:
    if note:
        schema.setdefault("description", note)
    return schema


def _bind_whole(hint: Any) -> Callable[[Any], dict[str, Any]]:
    convert = converter(hint)
    if convert is None:
        return lambda data: {"data": data}
    return lambda data: {"data": convert(data)}


def _bind_members(parameters: dict[str, inspect.Parameter], hints: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    found = {name: converter(hints.get(name, Any)) for name in parameters}
    parts: dict[str, Converter] = {name: convert for name, convert in found.items() if convert}
    takes_more = any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters.values())
    names = frozenset(name for name, item in parameters.items() if item.kind is not inspect.Parameter.VAR_KEYWORD)
    needed = frozenset(name for name in names if parameters[name].default is _EMPTY)

    def bind(data: Any) -> dict[str, Any]:
        # The daemon has seen to all this. Programs may also run behind an older manifest.
        if data is None:
            data = {}
        if type(data) is not dict:
            raise Misfit("", "expected an object")
        values: dict[str, Any] = data
        if not needed <= values.keys():
            raise Misfit("", f"{sorted(needed - values.keys())[0]!r} is missing")
        if not takes_more and not values.keys() <= names:
            raise Misfit("", f"{sorted(values.keys() - names)[0]!r} is not known here")
        return convert_members(values, parts) if parts else values

    return bind


def _members(
    parameters: dict[str, inspect.Parameter], hints: dict[str, Any], words: dict[str, str]
) -> Callable[[Schemas], dict[str, Any]]:
    def write(schemas: Schemas) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required: list[str] = []
        takes_more = False
        for name, parameter in parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                takes_more = True
                continue
            schema = _noted(schemas.of(hints.get(name, Any)), words.get(name))
            if parameter.default is _EMPTY:
                required.append(name)
            else:
                add_default(schema, parameter.default)
            properties[name] = schema
        made = record(properties, required)
        if takes_more:
            del made["additionalProperties"]
        return made

    return write
