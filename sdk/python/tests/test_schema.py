"""Schemas and values from type hints."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, TypedDict, Union

import pytest

from mainspring import Capability, Context, Field, SchemaProblem, SyncContext
from mainspring._schema import docs
from mainspring._schema.convert import converter
from mainspring._schema.hints import Schemas
from mainspring._schema.validate import Misfit, fits

UserId = NewType("UserId", int)


class Colour(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    """A place.

    Attributes:
        x: To the right.
    """

    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


@dataclass
class Tree:
    name: str
    children: list[Tree]


class Note(TypedDict, total=False):
    text: str
    done: bool


class Pair(NamedTuple):
    left: int
    right: str


def schema(hint: Any) -> dict[str, Any]:
    return Schemas().of(hint)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (Any, {}),
        (str, {"type": "string"}),
        (Optional[int], {"type": ["integer", "null"]}), 
        (int | str, {"type": ["integer", "string"]}),
        (Union[int, list[str]], {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]}), 
        (Literal["a"], {"const": "a"}),
        (Literal["a", 1, None], {"enum": ["a", 1, None]}),
        (Colour, {"enum": ["red", "blue"], "description": "A colour."}),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
        (Mapping[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (Pair, {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2}),
        (UserId, {"type": "integer"}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (Annotated[int, Field(ge=1, lt=9, description="So many.")], {"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "description": "So many."}),
        (Annotated[str, "A name.", Field(min_length=1, pattern="^a")], {"type": "string", "description": "A name.", "minLength": 1, "pattern": "^a"}),
        (Annotated[list[str], Field(max_length=3), {"x-unit": "m"}], {"type": "array", "items": {"type": "string"}, "maxItems": 3, "x-unit": "m"}),
    ],
)  # fmt: skip
def test_a_hint_has_its_schema(hint: Any, expected: dict[str, Any]) -> None:
    assert schema(hint) == expected


def test_a_dataclass_is_an_object_with_defaults_and_words() -> None:
    assert schema(Point) == {
        "type": "object",
        "description": "A place.",
        "properties": {
            "x": {"type": "number", "description": "To the right."},
            "y": {"type": "number", "default": 0.0},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["x"],
        "additionalProperties": False,
    }


def test_of_a_typed_dict_only_required_keys_are_required() -> None:
    made = schema(Note)
    assert set(made["properties"]) == {"text", "done"} and "required" not in made


def test_a_class_that_holds_itself_is_a_definition() -> None:
    schemas = Schemas()
    assert schemas.of(Tree) == {"$ref": "#/$defs/Tree"}
    assert schemas.defs["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert fits(
        {"name": "a", "children": [{"name": "b", "children": []}]}, {"$ref": "#/$defs/Tree"}, {"$defs": schemas.defs}
    )
    assert not fits({"name": "a", "children": [{"name": 1}]}, {"$ref": "#/$defs/Tree"}, {"$defs": schemas.defs})


@pytest.mark.parametrize("hint", [dict[int, str], Capability, complex, "x", list[complex], Literal[b"a"]])
def test_what_json_has_nothing_like_is_refused(hint: Any) -> None:
    with pytest.raises(SchemaProblem):
        schema(hint)


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (Point, {"x": 1}, Point(1)),
        (list[Point], [{"x": 1}], [Point(1)]),
        (Tree, {"name": "a", "children": [{"name": "b", "children": []}]}, Tree("a", [Tree("b", [])])),
        (Optional[Colour], "red", Colour.RED),
        (Optional[Colour], None, None),
        (int | Point, {"x": 2}, Point(2)),
        (Colour | Point | None, "blue", Colour.BLUE),
        (dict[str, Colour], {"a": "red"}, {"a": Colour.RED}),
        (tuple[int, Colour], [1.0, "red"], (1, Colour.RED)),
        (Pair, [1, "a"], Pair(1, "a")),
        (set[str], ["a"], {"a"}),
        (bytes, "AP8=", b"\x00\xff"),
        (
            datetime.datetime,
            "2026-01-02T03:04:05Z",
            datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
        ),
        (int, 3.0, 3),
    ],
)
def test_json_becomes_what_the_hint_promises(hint: Any, value: Any, expected: Any) -> None:
    convert = converter(hint)
    assert convert is not None
    made = convert(value)
    assert made == expected and type(made) is type(expected)


@pytest.mark.parametrize("hint", [str, float, Any, list[str], dict[str, Any], Note, Literal["a", "b"], str | None])
def test_what_is_json_already_costs_nothing(hint: Any) -> None:
    assert converter(hint) is None


def test_what_cannot_be_converted_is_told_with_its_path() -> None:
    convert = converter(list[dict[str, datetime.date]])
    assert convert is not None
    with pytest.raises(Misfit, match=r"^/1/b: '2026-13-01' will not do"):
        convert([{}, {"b": "2026-13-01"}])


def test_pydantic_models_are_schemas_and_values() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Inner(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        n: int

    class Outer(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        inner: Inner
        more: list[Inner] = []

    Outer.model_rebuild(_types_namespace={"Inner": Inner})
    schemas = Schemas()
    made = schemas.of(Outer)
    assert made["properties"]["inner"] == {"$ref": "#/$defs/Inner"} and "Inner" in schemas.defs
    convert = converter(Outer)
    assert convert is not None
    assert convert({"inner": {"n": 1}}).inner.n == 1
    with pytest.raises(Misfit, match="/inner/n: "):
        convert({"inner": {"n": "x"}})


def test_msgspec_structs_are_schemas_and_values() -> None:
    msgspec = pytest.importorskip("msgspec")
    made = msgspec.defstruct("Made", [("name", str), ("count", int, 1)])
    schemas = Schemas()
    assert schemas.of(made) == {"$ref": "#/$defs/Made"}
    assert schemas.defs["Made"]["required"] == ["name"]
    convert = converter(made)
    assert convert is not None and convert({"name": "a"}).count == 1


@pytest.mark.parametrize(
    "text",
    [
        "Adds.\n\nArgs:\n    text: What\n        to add.\n    ctx: No.\n\nReturns:\n    That.\n",
        "Adds.\n\nParameters\n----------\ntext : str\n    What\n    to add.\nctx\n    No.\n\nReturns\n-------\nint\n    That.",
        "Adds.\n\n:param str text: What to add.\n:param ctx: No.\n:returns: That.",
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_docstrings_of_three_styles_are_read(text: str) -> None:
    assert docs.read(text) == ("Adds.", {"text": "What to add.", "ctx": "No."})


def test_a_handler_has_the_schema_of_its_parameters() -> None:
    cap = Capability("notes", "Keeps notes.")

    @cap.command("Notes.Add", destructive=False, examples=[{"text": "milk"}])
    def add(text: Annotated[str, Field(min_length=1)], ctx: SyncContext, colour: Colour = Colour.RED) -> dict[str, int]:
        """Keeps a note.

        Args:
            text: What it says.
        """
        return {}

    manifest = cap.manifest(["python3", "notes.py"])
    assert manifest["inbound"] == {
        "type": "object",
        "description": "Keeps a note.",
        "properties": {
            "kind": {"const": "command"},
            "type": {"const": "Notes.Add"},
            "data": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "minLength": 1, "description": "What it says."},
                    "colour": {"enum": ["red", "blue"], "description": "A colour.", "default": "red"},
                },
                "required": ["text"],
                "additionalProperties": False,
                "examples": [{"text": "milk"}],
            },
        },
        "required": ["kind", "type", "data"],
    }
    assert manifest["types"] == {"Notes.Add": {"destructive": False}}
    assert manifest["program"] == {"process": ["python3", "notes.py"]}
    reply = manifest["outbound"]["anyOf"][0]["properties"]
    assert reply["kind"] == {"const": "reply"} and reply["data"]["additionalProperties"] == {"type": "integer"}


def test_a_parameter_called_data_is_the_data_itself() -> None:
    cap = Capability("a", "A.")

    @cap.query("A.B")
    def handler(data: list[Point]) -> None: ...

    assert cap.requests["query", "A.B"].signature.bind([{"x": 1}]) == {"data": [Point(1)]}


def test_mistakes_in_declarations_are_told_at_once() -> None:
    cap = Capability("a", "A.")

    async def with_wrong_context(ctx: SyncContext) -> None: ...
    def with_the_other_one(ctx: Context) -> None: ...
    def with_stars(*texts: str) -> None: ...
    def with_nonsense(number: complex) -> None: ...

    for function in (with_wrong_context, with_the_other_one, with_stars):
        with pytest.raises(SchemaProblem):
            cap.command("A.B")(function)
    cap.command("A.B")(with_nonsense)
    with pytest.raises(SchemaProblem, match="complex"):
        cap.manifest()
    with pytest.raises(SchemaProblem, match="already"):
        cap.command("A.B")(with_nonsense)
    with pytest.raises(SchemaProblem, match="belongs to the daemon"):
        cap.command("Sys.Thing")
    with pytest.raises(SchemaProblem, match="uncaused"):
        cap.background(with_wrong_context)  # type: ignore[arg-type]
