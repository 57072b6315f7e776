"""JSON values into what the hints promise: dataclasses, enums, dates, models.

A converter of `None` means that the JSON value is what was asked for. The daemon has validated the data by then, so
nothing is checked twice; what JSON Schema cannot say (that a text is a date) is told with its path.
"""

# Everything here is known at run time only:
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import pathlib
import typing
import uuid
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

from .hints import Schemas, is_model, is_named_tuple, is_struct, is_typed_dict, members, unwrap
from .validate import Misfit, fits

Converter = Callable[[Any], Any]


def _integer(value: Any) -> Any:
    # 3.0 and 3e0 are integers in JSON Schema. `bool` is a subclass and stays what it is.
    return int(value) if type(value) is float and value.is_integer() else value


def _datetime(value: str) -> datetime.datetime:
    # Python 3.10 does not know the "Z" of RFC 3339.
    return datetime.datetime.fromisoformat(value[:-1] + "+00:00" if value[-1:] in ("Z", "z") else value)


_SIMPLE: dict[Any, Converter] = {
    int: _integer,
    bytes: lambda value: base64.b64decode(value, validate=True),
    datetime.datetime: _datetime,
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    datetime.timedelta: lambda value: datetime.timedelta(seconds=value),
    uuid.UUID: uuid.UUID,
    decimal.Decimal: decimal.Decimal,
    pathlib.Path: pathlib.Path,
    pathlib.PurePath: pathlib.PurePath,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
}
_SETS: dict[Any, Callable[[Any], Any]] = {
    set: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
    collections.abc.MutableSet: set,
}


def converter(hint: Any) -> Converter | None:
    """What makes a value of this hint out of JSON; `None` if JSON's own value will do."""
    return _Maker().of(hint)


class _Maker:
    """Converters of classes are made once, so that a class may hold itself."""

    def __init__(self) -> None:
        self._made: dict[Any, list[Converter | None]] = {}

    def of(self, hint: Any) -> Converter | None:
        hint = unwrap(hint)
        origin = get_origin(hint)
        if origin is typing.Annotated:
            return self.of(get_args(hint)[0])
        if origin is Literal:
            return _literal(get_args(hint))
        if origin is not None:
            return self._generic(hint, origin, get_args(hint))
        try:
            if hint in _SIMPLE:
                return _told(_SIMPLE[hint]) if hint is not int else _integer
        except TypeError:
            return None
        return self._class(hint) if isinstance(hint, type) else None

    def _generic(self, hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Converter | None:
        if is_model(hint) or is_model(origin):
            return _model(hint)
        if is_struct(origin):
            return _struct(hint)
        if origin is tuple:
            return self._tuple(arguments)
        if origin in _SETS:
            return _set(_SETS[origin], self.of(arguments[0]))
        if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
            return _each_value(self.of(arguments[1])) if len(arguments) == 2 else None
        if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
            return _each(self.of(arguments[0]))
        return self._union(arguments)

    def _tuple(self, arguments: tuple[Any, ...]) -> Converter:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            each = _each(self.of(arguments[0]))
            return (lambda value: tuple(each(value))) if each else tuple
        parts = [self.of(argument) for argument in arguments]

        def convert(value: list[Any]) -> tuple[Any, ...]:
            return tuple(part(item) if part else item for part, item in zip(parts, value, strict=False))

        return convert

    def _union(self, hints: tuple[Any, ...]) -> Converter | None:
        found = [(hint, self.of(hint)) for hint in hints]
        if all(convert is None for _, convert in found):
            return None
        rest = [(hint, convert) for hint, convert in found if hint is not type(None)]
        if len(rest) == 1:
            only = rest[0][1]
            return (lambda value: None if value is None else only(value)) if only else None
        branches: list[tuple[Any, Any, Converter | None]] = []
        for hint, convert in found:
            schemas = Schemas()
            schema = schemas.of(hint)
            branches.append((schema, {"$defs": schemas.defs}, convert))

        def choose(value: Any) -> Any:
            for schema, root, convert in branches:
                if fits(value, schema, root):
                    return convert(value) if convert else value
            raise Misfit("", "fits none of the types of the union")

        return choose

    def _class(self, hint: type) -> Converter | None:
        if issubclass(hint, enum.Enum):
            return _told(hint)
        if is_model(hint):
            return _model(hint)
        if is_struct(hint):
            return _struct(hint)
        if dataclasses.is_dataclass(hint) or is_typed_dict(hint) or is_named_tuple(hint):
            if hint in self._made:
                cell = self._made[hint]
                return lambda value: cell[0](value) if cell[0] else value
            cell = self._made[hint] = [None]
            cell[0] = self._fields(hint)
            return cell[0]
        for base in (str, int, float):
            if issubclass(hint, base) and hint is not base and not issubclass(hint, bool):
                return _told(hint)
        return None

    def _fields(self, hint: Any) -> Converter | None:
        found = {name: self.of(inner) for name, inner in members(hint).items()}
        parts = {name: convert for name, convert in found.items() if convert}
        if is_named_tuple(hint):
            order = list(found.values())
            return lambda value: hint(*(part(item) if part else item for part, item in zip(order, value, strict=False)))
        if dataclasses.is_dataclass(hint):
            make: Callable[..., Any] = hint  # type: ignore[assignment]
            return lambda value: make(**convert_members(value, parts))
        return (lambda value: convert_members(value, parts)) if parts else None


def convert_members(value: dict[str, Any], parts: dict[str, Converter]) -> dict[str, Any]:
    """A copy of an object with some of its members converted.

    Raises:
        Misfit: One cannot be; it has the path.
    """
    made = dict(value)
    for name, convert in parts.items():
        if name in made:
            made[name] = below(name, convert, made[name])
    return made


def below(name: object, convert: Converter, value: Any) -> Any:
    """Converts a part; what is wrong with it is told with its path."""
    try:
        return convert(value)
    except Misfit as misfit:
        raise Misfit(f"/{name}{misfit.path}", misfit.reason) from misfit.__cause__


def _told(convert: Callable[[Any], Any]) -> Converter:
    def told(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, TypeError, ArithmeticError, OverflowError) as error:
            raise Misfit("", f"{value!r:.80} will not do: {error}") from error

    return told


def _literal(values: tuple[Any, ...]) -> Converter | None:
    enums = {value.value: value for value in values if isinstance(value, enum.Enum)}
    return (lambda value: enums.get(value, value)) if enums else None


def _each(convert: Converter | None) -> Converter | None:
    if convert is None:
        return None
    return lambda value: [below(number, convert, item) for number, item in enumerate(value)]


def _each_value(convert: Converter | None) -> Converter | None:
    if convert is None:
        return None
    return lambda value: {name: below(name, convert, item) for name, item in value.items()}


def _set(make: Callable[[Any], Any], convert: Converter | None) -> Converter:
    each = _each(convert)
    return _told((lambda value: make(each(value))) if each else make)


def _model(hint: Any) -> Converter:
    def convert(value: Any) -> Any:
        try:
            return hint.model_validate(value)
        except ValueError as error:  # pydantic's ValidationError is one
            problems: list[dict[str, Any]] = getattr(error, "errors", list)()
            if not problems:
                raise Misfit("", str(error)) from error
            first = problems[0]
            raise Misfit("".join(f"/{part}" for part in first["loc"]), first["msg"]) from error

    return convert


def _struct(hint: Any) -> Converter:
    import msgspec

    def convert(value: Any) -> Any:
        try:
            return msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            raise Misfit("", str(error)) from error

    return convert
