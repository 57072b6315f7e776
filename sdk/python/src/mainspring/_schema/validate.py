"""Whether a JSON value fits a schema, for the keywords that schemas of hints, pydantic and msgspec are made of.

The daemon validates with a complete library before a message reaches a program; this is for the test harness, which
has no daemon, and for telling the members of a union apart. Keywords that it does not know assert nothing.
"""

# Everything here is known at run time only:
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, cast

Schema = dict[str, Any]

#: References that lead to references: more is a circle.
_DEPTH_MAX = 200


class Misfit(Exception):
    """A value breaks a schema; says where and how."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


def check(value: Any, schema: Any, root: Any, path: str) -> None:
    """Raises `Misfit` if the value breaks the schema. References lead into `root`."""
    for misfit in _misfits(value, schema, root, path, 0):
        raise misfit


def fits(value: Any, schema: Any, root: Any) -> bool:
    """Whether the value fits the schema."""
    return next(_misfits(value, schema, root, "", 0), None) is None


def _misfits(value: Any, schema: Any, root: Any, path: str, depth: int) -> Iterator[Misfit]:
    if schema is True:
        return
    if schema is False:
        yield Misfit(path, "is not allowed")
        return
    if depth > _DEPTH_MAX:
        yield Misfit(path, "the schema refers to itself for ever")
        return
    keywords = cast(Schema, schema)
    if "$ref" in keywords:
        yield from _misfits(value, _resolve(keywords["$ref"], root), root, path, depth + 1)
    yield from _of_value(value, keywords, path)
    if isinstance(value, dict):
        yield from _of_object(cast("dict[str, Any]", value), keywords, root, path, depth)
    elif isinstance(value, list):
        yield from _of_array(value, keywords, root, path, depth)
    yield from _of_branches(value, keywords, root, path, depth)


def _resolve(reference: str, root: Any) -> Any:
    node = root
    for part in reference.lstrip("#/").split("/"):
        node = node[part.replace("~1", "/").replace("~0", "~")]
    return node


def _kinds(value: Any) -> tuple[str, ...]:
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("boolean",)
    if isinstance(value, int):
        return ("integer", "number")
    if isinstance(value, float):
        return ("integer", "number") if value.is_integer() else ("number",)
    if isinstance(value, str):
        return ("string",)
    return ("array",) if isinstance(value, list) else ("object",)


def _same(one: Any, other: Any) -> bool:
    """JSON's equality: true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _of_value(value: Any, schema: Schema, path: str) -> Iterator[Misfit]:
    if "type" in schema:
        asked = schema["type"]
        kinds = cast("list[str]", [asked] if isinstance(asked, str) else asked)
        if not any(kind in kinds for kind in _kinds(value)):
            yield Misfit(path, f"{_show(value)} is not of type {' or '.join(kinds)}")
            return
    if "const" in schema and not _same(value, schema["const"]):
        yield Misfit(path, f"{_show(value)} is not {_show(schema['const'])}")
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield Misfit(path, f"{_show(value)} is not one of {', '.join(_show(one) for one in schema['enum'])}")
    if isinstance(value, str):
        yield from _of_text(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _of_number(value, schema, path)


def _of_text(value: str, schema: Schema, path: str) -> Iterator[Misfit]:
    if len(value) < schema.get("minLength", 0):
        yield Misfit(path, f"{_show(value)} is shorter than {schema['minLength']} characters")
    if len(value) > schema.get("maxLength", math.inf):
        yield Misfit(path, f"{_show(value)} is longer than {schema['maxLength']} characters")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield Misfit(path, f"{_show(value)} does not match {schema['pattern']}")


def _of_number(value: int | float, schema: Schema, path: str) -> Iterator[Misfit]:
    if value < schema.get("minimum", -math.inf):
        yield Misfit(path, f"{_show(value)} is less than {schema['minimum']}")
    if value > schema.get("maximum", math.inf):
        yield Misfit(path, f"{_show(value)} is greater than {schema['maximum']}")
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield Misfit(path, f"{_show(value)} is not greater than {schema['exclusiveMinimum']}")
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        yield Misfit(path, f"{_show(value)} is not less than {schema['exclusiveMaximum']}")
    if "multipleOf" in schema and value % schema["multipleOf"] != 0:
        yield Misfit(path, f"{_show(value)} is not a multiple of {schema['multipleOf']}")


def _of_object(value: dict[str, Any], schema: Schema, root: Any, path: str, depth: int) -> Iterator[Misfit]:
    properties: dict[str, Any] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield Misfit(path, f"{_show(name)} is missing")
    for name, inner in value.items():
        if name in properties:
            yield from _misfits(inner, properties[name], root, f"{path}/{name}", depth + 1)
        elif schema.get("additionalProperties") is False:
            yield Misfit(path, f"{_show(name)} is not known here")
        elif "additionalProperties" in schema:
            yield from _misfits(inner, schema["additionalProperties"], root, f"{path}/{name}", depth + 1)
    if len(value) < schema.get("minProperties", 0):
        yield Misfit(path, f"has fewer than {schema['minProperties']} members")
    if len(value) > schema.get("maxProperties", math.inf):
        yield Misfit(path, f"has more than {schema['maxProperties']} members")


def _of_array(value: list[Any], schema: Schema, root: Any, path: str, depth: int) -> Iterator[Misfit]:
    first: list[Any] = schema.get("prefixItems", [])
    for number, item in enumerate(value):
        if number < len(first):
            yield from _misfits(item, first[number], root, f"{path}/{number}", depth + 1)
        elif "items" in schema:
            yield from _misfits(item, schema["items"], root, f"{path}/{number}", depth + 1)
    if len(value) < schema.get("minItems", 0):
        yield Misfit(path, f"has fewer than {schema['minItems']} items")
    if len(value) > schema.get("maxItems", math.inf):
        yield Misfit(path, f"has more than {schema['maxItems']} items")
    if schema.get("uniqueItems") and any(_same(one, other) for at, one in enumerate(value) for other in value[:at]):
        yield Misfit(path, "has the same item twice")


def _of_branches(value: Any, schema: Schema, root: Any, path: str, depth: int) -> Iterator[Misfit]:
    for branch in schema.get("allOf", ()):
        yield from _misfits(value, branch, root, path, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            taken = sum(
                next(_misfits(value, branch, root, path, depth + 1), None) is None for branch in schema[keyword]
            )
            if taken == 0 or (keyword == "oneOf" and taken > 1):
                yield Misfit(
                    path, f"{_show(value)} fits {'none' if taken == 0 else 'more than one'} of the schemas in {keyword}"
                )
    if "not" in schema and next(_misfits(value, schema["not"], root, path, depth + 1), None) is None:
        yield Misfit(path, f"{_show(value)} is not allowed")


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
