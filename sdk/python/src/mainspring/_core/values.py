"""Python values that JSON has no word for, written as their JSON Schema says (see `_schema`)."""

# Everything here is known at run time only:
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid
from collections.abc import Mapping, Set
from typing import Any


class _Nothing:
    """Data that was left out: an empty object, as the commands send it."""

    def __repr__(self) -> str:
        return "{}"


NOTHING: Any = _Nothing()


def jsonable(value: Any) -> Any:
    """One step towards JSON for a value that the encoder does not know.

    The encoder calls this for the parts of what it returns, too.

    Raises:
        TypeError: There is no JSON for it.
    """
    if value is NOTHING:
        return {}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, (uuid.UUID, decimal.Decimal, pathlib.PurePath)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return list(value)
    return _of_library(value)


def _of_library(value: Any) -> Any:
    """Models of pydantic and structs of msgspec, known by their shape: neither is imported for it."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json", by_alias=True)
    if hasattr(type(value), "__struct_fields__"):
        import msgspec

        return msgspec.to_builtins(value)
    raise TypeError(f"a {type(value).__name__} has no JSON")
