"""A capability as a program: its streams, its signals, its end."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

START = "from mainspring import *\nimport os, subprocess, sys, time\n"
Start = Callable[[str], Any]
PLAIN = START + 'cap = Capability("p", "P.", says_anything=True)\n'
THREADS = START + 'cap = Capability("p", "P.", says_anything=True, concurrency=4)\n'


@pytest.mark.parametrize("head", [PLAIN, THREADS], ids=["plain", "threads"])
def test_what_handlers_libraries_and_children_print_goes_to_standard_error(program: Start, head: str) -> None:
    running = program(
        head
        + """
print("before")
@cap.command("P.Print")
def talk() -> int:
    print("by print")
    os.write(1, b"by write\\n")
    subprocess.run(["echo", "by child"])
    sys.stdout.write("without an end")
    assert sys.stdin.read() == ""
    return 1
cap.run()
print("after")
"""
    )
    running.give("command", "P.Print", {})
    assert running.take()["data"] == 1
    code, out, err = running.end()
    assert (code, out) == (0, "")
    for words in ("before", "by print", "by write", "by child", "without an end", "after"):
        assert words in err


ASKS = """
@cap.command("P.Ask")
def ask(ctx: SyncContext) -> object:
    return ctx.ask("Other.Get", {"n": 2**70}, timeout=1.5)
@cap.on("P.Told")
def told(data: object, ctx: SyncContext) -> None:
    ctx.emit("P.Heard", data)
cap.run()
"""


@pytest.mark.parametrize("head", [PLAIN, THREADS], ids=["plain", "threads"])
def test_a_plain_function_asks_and_what_comes_meanwhile_waits_for_its_turn(program: Start, head: str) -> None:
    running = program(head + ASKS)
    request = running.give("command", "P.Ask", {})
    question = running.take()
    assert question["data"] == {"n": 2**70} and question["metadata"]["timeout"] == 1500
    assert question["metadata"]["causation"] == request
    event = running.give("event", "P.Told", 7)
    running.give("reply", "Other.Get", "the answer", causation=question["metadata"]["id"])
    said = [running.take(), running.take()]
    by_kind = {message["kind"]: message for message in said}
    assert by_kind["reply"]["data"] == "the answer" and by_kind["reply"]["metadata"]["causation"] == request
    assert by_kind["event"]["data"] == 7 and by_kind["event"]["metadata"]["causation"] == event
    assert running.end()[0] == 0


@pytest.mark.parametrize("head", [PLAIN, THREADS], ids=["plain", "threads"])
def test_a_question_whose_answer_cannot_come_ends_with_the_input(program: Start, head: str) -> None:
    running = program(head + ASKS)
    running.give("command", "P.Ask", {})
    running.take()
    code, out, _ = running.end()
    assert code == 0 and json.loads(out)["kind"] == "error"


SLEEPS = """
@cap.command("P.Sleep")
def sleep(ctx: SyncContext) -> None:
    print("begins", flush=True)
    ctx.sleep(60)
@cap.command("P.Look")
def look(ctx: SyncContext) -> str:
    while not ctx.cancelled:
        time.sleep(0.01)
    return "stopped"
cap.run()
"""


@pytest.mark.parametrize("type_name", ["P.Sleep", "P.Look"])
@pytest.mark.parametrize("head", [PLAIN, THREADS], ids=["plain", "threads"])
def test_a_plain_function_notices_that_it_is_cancelled(program: Start, head: str, type_name: str) -> None:
    running = program(head + SLEEPS)
    request = running.give("command", type_name, {})
    running.give(
        "event", "Sys.RequestCancelled", {"id": request, "type": type_name, "reason": "cancelled"}, causation=request
    )
    outcome = running.take()
    assert outcome["metadata"]["causation"] == request
    assert outcome["data"] == "stopped" if type_name == "P.Look" else outcome["data"]["code"] == 499
    assert running.end()[0] == 0


def test_a_request_that_is_cancelled_in_the_same_breath_begins_and_has_an_outcome(program: Start) -> None:
    running = program(
        THREADS
        + """
import asyncio
@cap.command("P.Wait")
async def wait() -> None:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("it was cancelled")
        raise
cap.run()
"""
    )
    request = {"kind": "command", "type": "P.Wait", "data": {}, "metadata": {"id": "r", "timestamp": 0}}
    told = {"id": "r", "type": "P.Wait", "reason": "cancelled"}
    metadata = {"id": "e", "timestamp": 0, "causation": "r"}
    event = {"kind": "event", "type": "Sys.RequestCancelled", "data": told, "metadata": metadata}
    running.process.stdin.write(f"{json.dumps(request)}\n{json.dumps(event)}\n".encode())
    running.process.stdin.flush()
    assert running.take()["data"] == {"code": 499, "message": "cancelled"}
    assert "it was cancelled" in running.end()[2]


@pytest.mark.parametrize("head", [PLAIN, THREADS], ids=["plain", "threads"])
def test_sigterm_is_the_end_of_the_input_and_sigint_is_nothing(program: Start, head: str) -> None:
    running = program(head + '@cap.query("P.Hi")\ndef hi(data: object) -> object:\n    return data\ncap.run()\n')
    running.give("query", "P.Hi", 1)
    assert running.take()["data"] == 1
    running.process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    running.give("query", "P.Hi", 2)
    assert running.take()["data"] == 2
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(20) == 0


def test_whoever_does_not_read_makes_the_program_stop_reading(program: Start) -> None:
    running = program(
        THREADS.replace("concurrency=4", "concurrency=64")
        + '@cap.query("P.Blob")\nasync def blob(padding: str) -> str:\n    return "x" * 100_000\ncap.run()\n'
    )
    running.give("query", "P.Blob", {"padding": ""})
    running.take()
    before = _resident(running.process.pid)
    # 60 MB of answers; some thirty requests fit into one read.
    asking = threading.Thread(
        target=lambda: [running.give("query", "P.Blob", {"padding": "x" * 2000}) for _ in range(600)]
    )
    asking.start()
    time.sleep(1)
    assert asking.is_alive(), "it has read everything"
    assert _resident(running.process.pid) - before < 20 << 20
    for _ in range(600):
        assert len(running.take()["data"]) == 100_000
    asking.join()
    assert running.end()[0] == 0


def _resident(pid: int) -> int:
    fields = pathlib.Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * 4096


def test_a_daemon_that_is_gone_ends_the_program(program: Start) -> None:
    running = program(PLAIN + '@cap.query("P.Hi")\ndef hi() -> int:\n    return 1\ncap.run()\n')
    running.process.stdout.close()
    running.give("query", "P.Hi", {})
    assert running.process.wait(20) == 0


def test_the_manifest_is_printed_checked_and_run_by_the_module(tmp_path: pathlib.Path) -> None:
    (tmp_path / "notes.py").write_text(
        START + 'cap = Capability("n", "N.")\n@cap.query("N.Hi")\ndef hi() -> int:\n    return 1\n'
    )

    def mainspring(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mainspring", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, **options)

    printed = mainspring("manifest", "notes:cap")
    manifest = json.loads(printed.stdout)
    assert manifest["id"] == "n" and manifest["program"]["process"][1:] == ["-m", "mainspring", "run", "notes:cap"]
    assert mainspring("manifest", "notes:cap", "--out", "m.json").returncode == 0
    assert mainspring("manifest", "notes:cap", "--check", "m.json").returncode == 0
    (tmp_path / "m.json").write_text("{}")
    checked = mainspring("manifest", "notes:cap", "--check", "m.json")
    assert checked.returncode == 1 and "--out m.json" in checked.stderr
    for place, words in (
        ("notes", "MODULE:NAME"),
        ("nothing:cap", "no module"),
        ("notes:other", "no 'other'"),
        ("notes:os", "not a Capability"),
    ):
        failed = mainspring("manifest", place)
        assert failed.returncode == 1 and words in failed.stderr and "Traceback" not in failed.stderr
    request = '{"kind":"query","type":"N.Hi","data":{},"metadata":{"id":"1","timestamp":0}}\n'
    assert json.loads(mainspring("run", "notes:cap", input=request).stdout)["data"] == 1


def test_what_a_module_prints_while_it_is_loaded_goes_to_standard_error_too(tmp_path: pathlib.Path) -> None:
    source = (
        'print("while it is loaded", flush=True)\n' + PLAIN + '@cap.query("P.Hi")\ndef hi() -> int:\n    return 1\n'
    )
    (tmp_path / "p.py").write_text(source)
    request = '{"kind":"query","type":"P.Hi","data":{},"metadata":{"id":"1","timestamp":0}}\n'
    command = [sys.executable, "-m", "mainspring", "run", "p:cap"]
    done = subprocess.run(command, cwd=tmp_path, input=request, capture_output=True, text=True)
    assert json.loads(done.stdout)["data"] == 1 and "while it is loaded" in done.stderr


def test_a_capability_of_plain_functions_loads_no_event_loop(tmp_path: pathlib.Path) -> None:
    source = (
        PLAIN.replace("import *", "import Capability")
        + '@cap.query("P.Hi")\ndef hi() -> bool:\n    return "asyncio" in sys.modules\ncap.run()\n'
    )
    (tmp_path / "p.py").write_text(source)
    request = '{"kind":"query","type":"P.Hi","data":{},"metadata":{"id":"1","timestamp":0}}\n'
    done = subprocess.run([sys.executable, "p.py"], cwd=tmp_path, input=request, capture_output=True, text=True)
    assert json.loads(done.stdout)["data"] is False
