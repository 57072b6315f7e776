"""Constraints and words inside of `Annotated`."""

# Everything here is known at run time only:
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

#: Attributes of whatever stands in `Annotated`, and the keywords that they become. The names are those that
#: annotated-types, pydantic and msgspec share.
_NUMBERS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_LENGTHS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_WORDS = ("title", "description", "examples", "deprecated")


@dataclass(frozen=True)
class Field:
    """What is asked of a value beyond its type, and what is said of it: `Annotated[str, Field(min_length=1)]`.

    A plain string in `Annotated` is a description, and a `dict` is merged into the schema as it is.
    """

    description: str | None = None
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    title: str | None = None
    examples: list[Any] | None = None
    deprecated: bool | None = None
    extra: dict[str, Any] = field(default_factory=lambda: {})


def apply(schema: dict[str, Any], notes: Iterable[Any]) -> dict[str, Any]:
    """The schema with what stands beside its type in `Annotated`."""
    for note in notes:
        if isinstance(note, str):
            schema = {**schema, "description": note}
        elif isinstance(note, dict):
            schema = {**schema, **note}
        else:
            schema = {**schema, **_keywords(note, schema)}
            # pydantic keeps the constraints of its `Field` in a list of such objects.
            parts = getattr(note, "metadata", None)
            if isinstance(parts, list):
                schema = apply(schema, parts)
    return schema


def _keywords(note: Any, schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for attribute, keyword in _NUMBERS.items():
        value = getattr(note, attribute, None)
        if isinstance(value, (int, float)):
            found[keyword] = value
    lengths = _LENGTHS.get(schema.get("type", ""))
    if lengths:
        for attribute, keyword in zip(("min_length", "max_length"), lengths, strict=True):
            value = getattr(note, attribute, None)
            if isinstance(value, int) and (value > 0 or keyword.startswith("max")):
                found[keyword] = value
    pattern = getattr(note, "pattern", None)
    if isinstance(pattern, (str, re.Pattern)):
        found["pattern"] = pattern if isinstance(pattern, str) else pattern.pattern
    for word in _WORDS:
        value = getattr(note, word, None)
        if value is not None and not callable(value):
            found[word] = value
    for attribute in ("extra", "extra_json_schema", "json_schema_extra"):
        value = getattr(note, attribute, None)
        if isinstance(value, dict):
            found.update(value)
    return found
