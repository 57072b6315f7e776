"""Messages as lines of JSON.

What is refused here is refused before anything is written: NaN and infinities, values without JSON, types and ids
that the daemon would not take. Integers are exact; text may hold lone surrogates, which are written as escapes.
"""

from __future__ import annotations

import functools
import itertools
import json
import json.encoder
import os
import re
import time
from collections.abc import Callable
from typing import Any, Literal

from ..errors import InvalidMessage
from .values import NOTHING as NOTHING
from .values import jsonable

Kind = Literal["command", "query", "event", "reply", "error"]

#: The bounds of the daemon on names and numbers of the envelope.
NAME_BYTES_MAX = 256
INTEGER_MAX = 2**53 - 1
#: The deepest nesting of a message; the daemon's own bound.
DEPTH_MAX = 128

_TYPE = re.compile(r"[A-Z][A-Za-z0-9]*(?:\.[A-Z][A-Za-z0-9]*)+\Z")

#: Text as JSON, with its quotes; not escaped beyond what JSON asks for.
quote: Callable[[str], str] = json.encoder.encode_basestring


class Message:
    """A message as it came: a command, query, event, reply or error."""

    __slots__ = ("raw",)

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw

    @property
    def kind(self) -> Kind:
        """What sort of message it is."""
        return self.raw["kind"]  # type: ignore[no-any-return]

    @property
    def type(self) -> str:
        """What it is about, such as `Notes.Add`."""
        return self.raw["type"]  # type: ignore[no-any-return]

    @property
    def data(self) -> Any:
        """What it says."""
        return self.raw["data"]

    @property
    def metadata(self) -> dict[str, Any]:
        """Its metadata, with members that this package does not know."""
        return self.raw["metadata"]  # type: ignore[no-any-return]

    @property
    def id(self) -> str:
        """Its id, chosen by its sender."""
        return self.raw["metadata"]["id"]  # type: ignore[no-any-return]

    @property
    def causation(self) -> str | None:
        """The id of the message that caused it."""
        return self.raw["metadata"].get("causation")  # type: ignore[no-any-return]

    @property
    def correlation(self) -> str | None:
        """The workflow that it belongs to."""
        return self.raw["metadata"].get("correlation")  # type: ignore[no-any-return]

    @property
    def timestamp(self) -> int:
        """When it was made, in milliseconds since 1970."""
        return self.raw["metadata"]["timestamp"]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{self.kind} {self.type} {self.id}>"


def _make_encoder() -> Callable[[Any], str]:
    settings = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False, default=jsonable
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return settings.encode
    # `JSONEncoder.encode` makes this object anew for every value, which costs more than a small
    # value itself.
    encoder = make(None, jsonable, quote, None, ":", ",", False, False, False)

    def encode(value: Any) -> str:
        return "".join(encoder(value, 0))

    try:
        if encode({"a": ["\u00e9", 1.5, True, None]}) == '{"a":["\u00e9",1.5,true,null]}':
            return encode
    except Exception:  # another implementation of Python, or a later one, with another signature
        pass
    return settings.encode


_encode = _make_encoder()


def dump(value: Any) -> str:
    """The JSON of a value.

    Raises:
        InvalidMessage: It has none.
    """
    try:
        return _encode(value)
    except RecursionError:
        raise InvalidMessage("the data nests too deeply, or holds itself") from None
    except (TypeError, ValueError) as error:
        raise InvalidMessage(f"the data cannot be written as JSON: {_why(error)}") from error


def _why(error: Exception) -> str:
    words = str(error)
    if "JSON compliant" in words:
        return "JSON has no NaN and no infinity"
    if "integer string conversion" in words:
        return "an integer has more digits than Python writes (see sys.set_int_max_str_digits)"
    return words


def to_bytes(line: str) -> bytes:
    """A line of JSON as UTF-8. Lone surrogates, which UTF-8 has no bytes for, become escapes."""
    try:
        return line.encode()
    except UnicodeEncodeError:
        # JSON text holds them only inside of strings, so each may be escaped where it stands.
        return line.encode("utf-8", "backslashreplace")


_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def check_line(line: bytes, line_bytes_max: int) -> None:
    """Makes sure that a daemon takes the line: for whoever says one that it does not take is restarted.

    Raises:
        InvalidMessage: It is too long, or nests too deeply.
    """
    if len(line) > line_bytes_max:
        raise InvalidMessage(f"it is a line of {len(line)} bytes; at most {line_bytes_max} are allowed")
    if line.count(b"[") + line.count(b"{") <= DEPTH_MAX:
        return
    # Only the brackets, then level by level from the inside. Text with brackets in it may leave
    # some over.
    brackets = line.translate(None, _NO_BRACKETS)
    for _ in range(DEPTH_MAX):
        inner = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if not inner:
            return
        if len(inner) == len(brackets):
            break
        brackets = inner
    if _depth(line) > DEPTH_MAX:
        raise InvalidMessage(f"it nests more than {DEPTH_MAX} levels")


def _depth(line: bytes) -> int:
    deepest = depth = 0
    for token in _TOKENS.finditer(line):
        first = token.group()[:1]
        depth += first in b"[{"
        depth -= first in b"]}"
        deepest = max(deepest, depth)
    return deepest


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_no_constant)


def load(line: bytes) -> dict[str, Any]:
    """The message of a line.

    Raises:
        ValueError: It is not a JSON object, or not one of a message.
    """
    text = line.decode()
    try:
        raw, end = _decoder.raw_decode(text)
        if end != len(text) and text[end:].strip():
            raise ValueError("more than one JSON value")
    except ValueError:
        # White space at the start is rare, and what is wrong is told better by the whole decoder.
        raw = _decoder.decode(text)
    if type(raw) is not dict:
        raise ValueError("not a JSON object")
    return raw  # pyright: ignore[reportUnknownVariableType]


def load_envelope(line: bytes) -> dict[str, Any] | None:
    """The message of a line that `load` refuses because Python does not read integers that long; they become 0."""
    try:
        raw = json.loads(line, parse_int=lambda digits: int(digits) if len(digits) < 20 else 0)
    except (ValueError, RecursionError):
        return None
    return raw if type(raw) is dict else None  # pyright: ignore[reportUnknownVariableType]


_prefix = ""
_counter = itertools.count(1)


def _begin_ids() -> None:
    global _prefix, _counter
    _prefix = os.urandom(12).hex() + "-"
    _counter = itertools.count(1)


_begin_ids()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_ids)


def fresh_id() -> str:
    """An id that nobody else has: 96 random bits of this process, and a counter."""
    return f"{_prefix}{next(_counter):x}"


def now_ms() -> int:
    """The time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@functools.lru_cache(maxsize=4096)
def check_type(name: str) -> str:
    """The name of a type, if it is one.

    Raises:
        InvalidMessage: It is not.
    """
    if not _TYPE.match(name) or len(name) > NAME_BYTES_MAX:
        raise InvalidMessage(
            f"{name[:80]!r} is not a type: two or more names with a capital letter, joined by dots, such as Notes.Add"
        )
    return name


def check_name(name: str, what: str) -> str:
    """An id or a correlation, if it is one."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 0 < size <= NAME_BYTES_MAX:
        raise InvalidMessage(f"{what} must have 1 to {NAME_BYTES_MAX} bytes, not {size}")
    return name


def timeout_ms(seconds: float) -> int:
    """A timeout as the daemon counts it, never shorter than it was asked for."""
    if not 0 < seconds <= INTEGER_MAX / 1000:
        raise InvalidMessage(f"a timeout must be a positive number of seconds, not {seconds!r}")
    return max(1, -int(-seconds * 1000 // 1))


def compose(
    kind: str,
    type_name: str,
    data_json: str,
    metadata: dict[str, Any],
) -> bytes:
    """A line. The metadata comes first, so that the daemon knows the id of a line that is too long."""
    return to_bytes(f'{{"kind":"{kind}","type":"{type_name}","metadata":{dump(metadata)},"data":{data_json}}}\n')


@functools.lru_cache(maxsize=4096)
def _head(kind: str, type_name: str) -> str:
    return f'{{"kind":"{kind}","type":"{check_type(type_name)}","metadata":{{"id":"'


def compose_plain(kind: str, type_name: str, data: Any) -> tuple[str, bytes]:
    """A fresh id and its line, with nothing but that and the time in the metadata, as nearly every request has it.

    It is the line that `compose` makes, without a dictionary that is made only to be written.

    Raises:
        InvalidMessage: That is no type, or the data has no JSON.
    """
    head, data_json, id = _head(kind, type_name), dump(data), fresh_id()
    return id, to_bytes(f'{head}{id}","timestamp":{now_ms()}}},"data":{data_json}}}\n')
