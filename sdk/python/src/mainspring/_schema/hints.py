"""The JSON Schema (draft 2020-12) of a type hint."""

# Everything here is known at run time only:
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import importlib
import importlib.util
import pathlib
import sys
import types
import typing
import uuid
from typing import Any, Literal, Union, get_args, get_origin

from ..errors import SchemaProblem
from . import docs, field

_SIMPLE: dict[Any, dict[str, Any]] = {
    Any: {},
    object: {},
    None: {"type": "null"},
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "number", "description": "Seconds."},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"},
    pathlib.Path: {"type": "string"},
    pathlib.PurePath: {"type": "string"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array", "uniqueItems": True},
    frozenset: {"type": "array", "uniqueItems": True},
    dict: {"type": "object"},
}
_LISTS = (
    list,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Iterable,
    collections.abc.Collection,
)
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_UNIONS: tuple[Any, ...] = (Union, types.UnionType)
_MISSING = dataclasses.MISSING


def _required() -> tuple[Any, ...]:
    """`Required` and `NotRequired`; on Python 3.10 they come from typing_extensions, if that is there."""
    for module in ("typing", "typing_extensions"):
        found = sys.modules.get(module) or importlib.util.find_spec(module) and importlib.import_module(module)
        if found and hasattr(found, "NotRequired"):
            return (found.Required, found.NotRequired)
    return ()


_REQUIRED = _required()


def is_struct(hint: Any) -> bool:
    """Whether it is a struct of msgspec."""
    return isinstance(hint, type) and hasattr(hint, "__struct_fields__")


def is_model(hint: Any) -> bool:
    """Whether it is a model of pydantic."""
    return isinstance(hint, type) and hasattr(hint, "model_json_schema")


def is_typed_dict(hint: Any) -> bool:
    """Whether it is a `TypedDict`, of `typing` or of `typing_extensions`."""
    return isinstance(hint, type) and issubclass(hint, dict) and hasattr(hint, "__total__")


def is_named_tuple(hint: Any) -> bool:
    """Whether it is a `NamedTuple`."""
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def unwrap(hint: Any) -> Any:
    """Behind `NewType`, `Required` and names of types there is the type itself."""
    while True:
        if isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif hasattr(hint, "__value__"):
            hint = hint.__value__
        elif get_origin(hint) in _REQUIRED and _REQUIRED:
            hint = get_args(hint)[0]
        else:
            return hint


def members(hint: Any) -> dict[str, Any]:
    """The hints of a class with fields, resolved."""
    try:
        return typing.get_type_hints(hint, include_extras=True)
    except NameError as error:
        raise SchemaProblem(f"{hint.__name__}: {error}; its hints must be names of its module") from error


class Schemas:
    """Makes schemas that share their definitions: `defs` belongs to the document that they end up in."""

    def __init__(self, output: bool = False) -> None:
        #: Definitions by name, for `$defs`.
        self.defs: dict[str, Any] = {}
        self._output = output
        self._names: dict[Any, str] = {}
        self._open: list[Any] = []

    def of(self, hint: Any) -> dict[str, Any]:
        """The schema of a hint.

        Raises:
            SchemaProblem: JSON has nothing like it.
        """
        hint = unwrap(hint)
        try:
            if hint in _SIMPLE:
                return dict(_SIMPLE[hint])
        except TypeError:  # not hashable, so nothing simple
            pass
        origin = get_origin(hint)
        if origin is typing.Annotated:
            inner, *notes = get_args(hint)
            return field.apply(self.of(inner), notes)
        if origin is Literal:
            return _literal(get_args(hint))
        if origin in _UNIONS:
            return self._union(get_args(hint))
        if origin is not None:
            return self._generic(hint, origin, get_args(hint))
        if isinstance(hint, typing.TypeVar):
            return self.of(hint.__bound__) if hint.__bound__ else {}
        if isinstance(hint, type):
            return self._class(hint)
        raise SchemaProblem(f"{hint!r} has no JSON Schema")

    def _union(self, hints: tuple[Any, ...]) -> dict[str, Any]:
        branches = [self.of(hint) for hint in hints]
        kinds = [branch["type"] for branch in branches if set(branch) == {"type"} and isinstance(branch["type"], str)]
        # `str | None` reads better as one list of types than as two branches.
        return {"type": kinds} if len(kinds) == len(branches) else {"anyOf": branches}

    def _generic(self, hint: Any, origin: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
        if origin is tuple:
            return self._tuple(arguments)
        if origin in _LISTS:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin in _SETS:
            return {"type": "array", "items": self.of(arguments[0]), "uniqueItems": True}
        if origin in _MAPS:
            if arguments[0] not in (str, Any):
                raise SchemaProblem(f"{hint!r}: the names in a JSON object are text")
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if is_model(hint) or is_model(origin):
            return self._model(hint)
        if is_struct(origin):
            return self._struct(hint)
        raise SchemaProblem(f"{hint!r} has no JSON Schema")

    def _tuple(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self.of(arguments[0])}
        items = [self.of(argument) for argument in arguments if argument != ()]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}

    def _class(self, hint: type) -> dict[str, Any]:
        if issubclass(hint, enum.Enum):
            return {**_literal(tuple(member.value for member in hint)), **_description(hint)}
        if is_model(hint):
            return self._model(hint)
        if is_struct(hint):
            return self._struct(hint)
        if dataclasses.is_dataclass(hint):
            return self._once(hint, self._dataclass)
        if is_typed_dict(hint):
            return self._once(hint, self._typed_dict)
        if is_named_tuple(hint):
            return self._once(hint, lambda made: self._tuple(tuple(members(made).values())))
        for base in (str, bool, int, float):  # a plain subclass of one of them
            if issubclass(hint, base):
                return dict(_SIMPLE[base])
        raise SchemaProblem(
            f"{hint.__qualname__} has no JSON Schema; use a dataclass, TypedDict, enum, pydantic model or msgspec struct"
        )

    def _once(self, hint: type, make: typing.Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """The schema of a class: in place, or as a definition if it refers to itself."""
        if hint in self._open:
            return {"$ref": f"#/$defs/{self._name(hint)}"}
        if hint in self._names and self._names[hint] in self.defs:
            return {"$ref": f"#/$defs/{self._names[hint]}"}
        self._open.append(hint)
        try:
            schema = {**make(hint), **_description(hint)}
        finally:
            self._open.pop()
        if hint not in self._names:
            return schema
        self.defs[self._names[hint]] = schema
        return {"$ref": f"#/$defs/{self._names[hint]}"}

    def _name(self, hint: type) -> str:
        if hint not in self._names:
            self._names[hint] = self._free_name(hint.__name__)
        return self._names[hint]

    def _free_name(self, name: str) -> str:
        taken = {*self.defs, *self._names.values()}
        number = 2
        free = name
        while free in taken:
            free, number = f"{name}{number}", number + 1
        return free

    def _dataclass(self, hint: Any) -> dict[str, Any]:
        hints = members(hint)
        properties: dict[str, Any] = {}
        required: list[str] = []
        _, words = docs.read(hint.__doc__)
        for item in dataclasses.fields(hint):
            if not item.init and not self._output:
                continue
            schema = self.of(hints[item.name])
            note = item.metadata.get("description") or words.get(item.name)
            if note:
                schema.setdefault("description", note)
            has_default = item.default is not _MISSING or item.default_factory is not _MISSING
            if not has_default or self._output:
                required.append(item.name)
            if item.default is not _MISSING:
                add_default(schema, item.default)
            properties[item.name] = schema
        return record(properties, required)

    def _typed_dict(self, hint: Any) -> dict[str, Any]:
        hints = members(hint)
        _, words = docs.read(hint.__doc__)
        properties = {name: self.of(inner) for name, inner in hints.items()}
        for name, note in words.items():
            if name in properties:
                properties[name].setdefault("description", note)
        required = [name for name in hints if name in hint.__required_keys__]
        return record(properties, required)

    def _model(self, hint: Any) -> dict[str, Any]:
        mode = "serialization" if self._output else "validation"
        return self._adopt(hint.model_json_schema(mode=mode, by_alias=True))

    def _struct(self, hint: Any) -> dict[str, Any]:
        import msgspec

        return self._adopt(msgspec.json.schema(hint))

    def _adopt(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A schema that another library made: its definitions join ours, under names that are free here."""
        theirs = schema.pop("$defs", {})
        names: dict[str, str] = {}
        for name, body in theirs.items():
            taken = name in self.defs and self.defs[name] != _renamed(body, names)
            names[name] = self._free_name(name) if taken else name
        for name, body in theirs.items():
            self.defs[names[name]] = _renamed(body, names)
        return typing.cast("dict[str, Any]", _renamed(schema, names))


def record(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """The schema of an object with these members and no others."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def add_default(schema: dict[str, Any], value: Any) -> None:
    """Tells the default, if JSON has a word for it."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, (bool, int, float, str)):
        schema.setdefault("default", value)


def _literal(values: tuple[Any, ...]) -> dict[str, Any]:
    plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
    for value in plain:
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise SchemaProblem(f"{value!r} is not a value of JSON")
    return {"const": plain[0]} if len(plain) == 1 else {"enum": plain}


def _description(hint: type) -> dict[str, str]:
    """What the class says of itself; not what `dataclass` or `Enum` wrote for it."""
    text = hint.__dict__.get("__doc__")
    if not text or text.startswith(f"{hint.__name__}(") or text == "An enumeration.":
        return {}
    words, _ = docs.read(text)
    return {"description": words} if words else {}


def _renamed(node: Any, names: dict[str, str]) -> Any:
    """The same schema with references to the new names, without keywords that are OpenAPI's and not JSON Schema's."""
    if isinstance(node, list):
        return [_renamed(item, names) for item in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key == "$ref" and isinstance(value, str):
            name = value.rpartition("/")[2]
            made[key] = f"#/$defs/{names.get(name, name)}"
        elif key == "discriminator" and isinstance(value, dict) and "propertyName" in value:
            continue
        else:
            made[typing.cast(str, key)] = _renamed(value, names)
    return made
