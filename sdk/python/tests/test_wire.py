"""Messages as lines of JSON."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import os
import random
import uuid

import pytest

from mainspring import InvalidMessage
from mainspring._core import wire
from mainspring._core.lines import Lines, LineTooLong


def round_trip(value: object) -> object:
    line = wire.compose("query", "App.Echo", wire.dump(value), {"id": "1", "timestamp": 0})
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    return wire.load(line.rstrip(b"\n"))["data"]


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**200),
        10**4000,
        0.1,
        1e308,
        "",
        "\x00\x1f\u2028\u2029",
        "\U0001f600",
        "\ud800",
        "a\udfffb",
        [[[]]],
        {"": None},
    ],
    ids=repr and (lambda value: repr(value)[:30]),
)
def test_what_is_written_is_read_again_exactly(value: object) -> None:
    assert round_trip(value) == value


def test_lone_surrogates_are_written_as_escapes_and_other_text_as_it_is() -> None:
    line = wire.compose("query", "App.Echo", wire.dump("é\ud800"), {"id": "\udc00", "timestamp": 0})
    assert b"\xc3\xa9\\ud800" in line and b"\\udc00" in line


def test_a_plain_request_is_the_line_that_it_is_with_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "now_ms", lambda: 1763370000000)
    for value in ({"name": "Ada"}, wire.NOTHING, "é\ud800", None):
        id, line = wire.compose_plain("command", "App.Do", value)
        assert line == wire.compose("command", "App.Do", wire.dump(value), {"id": id, "timestamp": 1763370000000})


def test_a_plain_request_is_checked_like_any_other() -> None:
    for type_name in ("App", "app.Do", 'App.Do","data":1}', "App.Do\n", "A" + ".A" * 200):
        with pytest.raises(InvalidMessage, match="is not a type"):
            wire.compose_plain("command", type_name, None)
    with pytest.raises(InvalidMessage, match="no NaN"):
        wire.compose_plain("command", "App.Do", math.nan)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [1, {"a": math.nan}]])
def test_nan_and_infinities_are_refused(value: object) -> None:
    with pytest.raises(InvalidMessage, match="no NaN and no infinity"):
        wire.dump(value)


def test_nan_in_a_line_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN is not JSON"):
        wire.load(b'{"data":NaN}')


def test_what_holds_itself_is_refused() -> None:
    itself: list[object] = []
    itself.append(itself)
    with pytest.raises(InvalidMessage, match="holds itself"):
        wire.dump(itself)


def test_integers_beyond_what_python_writes_are_refused_in_words() -> None:
    with pytest.raises(InvalidMessage, match="more digits"):
        wire.dump(10**5000)


def test_an_envelope_is_read_though_its_data_holds_an_integer_too_long_for_python() -> None:
    line = b'{"kind":"query","type":"App.Echo","data":' + b"9" * 5000 + b',"metadata":{"id":"a","timestamp":1}}'
    with pytest.raises(ValueError):
        wire.load(line)
    raw = wire.load_envelope(line)
    assert raw is not None and raw["metadata"]["id"] == "a"


def test_values_of_the_standard_library_have_json() -> None:
    @dataclasses.dataclass
    class Point:
        x: int
        when: datetime.date

    class Colour(enum.Enum):
        RED = "red"

    value = [
        Point(1, datetime.date(2026, 1, 2)),
        Colour.RED,
        uuid.UUID(int=1),
        decimal.Decimal("1.50"),
        b"\x00\xff",
        {3},
    ]
    assert json.loads(wire.dump(value)) == [
        {"x": 1, "when": "2026-01-02"}, "red", str(uuid.UUID(int=1)), "1.50", "AP8=", [3],
    ]  # fmt: skip


def test_what_has_no_json_is_refused_by_name() -> None:
    with pytest.raises(InvalidMessage, match="a object has no JSON"):
        wire.dump({"a": object()})


@pytest.mark.parametrize(
    "name", ["", "Notes", "notes.Add", "Notes.", "Notes.add", "Notes.Add\n", "Notes.Add\x00", "A.B" + "b" * 256]
)
def test_bad_types_are_refused(name: str) -> None:
    with pytest.raises(InvalidMessage):
        wire.check_type(name)


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, 1e30])
def test_bad_timeouts_are_refused(seconds: float) -> None:
    with pytest.raises(InvalidMessage, match="timeout"):
        wire.timeout_ms(seconds)


def test_a_timeout_is_never_shorter_than_asked_for() -> None:
    assert [wire.timeout_ms(seconds) for seconds in (0.0001, 0.001, 1.0001, 2)] == [1, 1, 1001, 2000]


def test_ids_of_a_forked_process_are_others() -> None:
    read, write = os.pipe()
    before = wire.fresh_id()
    child = os.fork()
    if child == 0:
        os.write(write, wire.fresh_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode().partition("-")[0] != before.partition("-")[0]
    os.close(read)
    os.close(write)


def test_lines_are_the_same_however_the_bytes_are_divided() -> None:
    text = b"one\n\ntwo\nthree" * 50
    choose = random.Random(7)
    for _ in range(200):
        lines, found, at = Lines(), [], 0
        while at < len(text):
            size = choose.randint(1, 40)
            found += lines.feed(text[at : at + size])
            at += size
        found.append(lines.rest())
        assert found == text.split(b"\n")


@pytest.mark.parametrize("text", ["[" * 500, '"{' * 300, "\\\\", ""])
def test_a_line_may_nest_as_deeply_as_the_daemon_takes_and_no_deeper(text: str) -> None:
    def nested(levels: int) -> bytes:
        value: object = [text]
        for _ in range(levels - 2):
            value = [value, {}]
        return wire.compose("reply", "App.Echo", wire.dump(value), {"id": "1", "timestamp": 0})

    wire.check_line(nested(128), 1 << 20)
    with pytest.raises(InvalidMessage, match="128 levels"):
        wire.check_line(nested(129), 1 << 20)
    with pytest.raises(InvalidMessage, match="at most 10 are"):
        wire.check_line(nested(3), 10)


def test_many_brackets_beside_each_other_are_not_deep() -> None:
    line = wire.compose("reply", "App.Echo", wire.dump([{"a": []}] * 5000), {"id": "1", "timestamp": 0})
    wire.check_line(line, 1 << 20)


def test_without_the_encoder_in_c_the_same_is_written_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    encode = wire._make_encoder()
    assert encode({"a": ["\u00e9\ud800", 1.5, {1}]}) == '{"a":["\u00e9\ud800",1.5,[1]]}'
    with pytest.raises(ValueError):
        encode(math.nan)


def test_a_line_without_end_is_refused_at_its_bound() -> None:
    lines = Lines(limit=10)
    lines.feed(b"12345")
    with pytest.raises(LineTooLong):
        lines.feed(b"1234567")
