"""A capability on pipes: the suite takes the daemon's place and can be as awkward as it likes."""

import json
import signal
import time

from ..manifest import HANDLES
from ..programs import Daemon, equal, expect, wait_until
from .register import case
from .values import TRICKY


@case()
def a_request_is_answered_with_its_cause_a_fresh_id_and_a_timestamp(scene):
    bare = scene.bare()
    before = int(time.time() * 1000)
    replies = [bare.ask("query", "Conf.Echo", {"number": number}) for number in range(3)]
    for number, reply in enumerate(replies):
        equal((reply["kind"], reply["type"], reply["data"]), ("reply", "Conf.Echo", {"number": number}), "the reply")
        expect(before - 1000 <= reply["metadata"]["timestamp"] <= int(time.time() * 1000) + 1000, "the timestamp is not of now")
    equal(len({reply["metadata"]["id"] for reply in replies}), 3, "different ids")


@case()
def however_bytes_are_divided_the_lines_are_the_same(scene):
    bare = scene.bare()
    # Before it runs, the pieces would only gather in the pipe.
    equal(bare.ask("query", "Conf.Echo", 1)["data"], 1, "it runs")
    text = "äöü 日本語 🙂"
    lines = b""
    for number in range(3):
        message = {"kind": "query", "type": "Conf.Echo", "data": text * 3, "metadata": {"id": f"b{number}", "timestamp": 0}}
        lines += json.dumps(message, ensure_ascii=False).encode() + b"\n\n"
    for at in range(0, len(lines), 7):
        bare.write(lines[at : at + 7])
        time.sleep(0.003)
    for number in range(3):
        equal(bare.outcome(f"b{number}")["data"], text * 3, "the text")
    bare.write(b'{"kind":"query","type":"Conf.Echo","data":1,"metadata":{"id":"spaced","timestamp":0}}  \r\n')
    equal(bare.outcome("spaced")["data"], 1, "a line with spaces and a carriage return")


@case()
def a_last_line_without_a_line_feed_counts(scene):
    bare = scene.bare()
    bare.write(b'{"kind":"query","type":"Conf.Echo","data":"last","metadata":{"id":"last","timestamp":0}}')
    bare.end_input()
    equal(bare.outcome("last")["data"], "last", "the answer")
    equal(bare.wait(), 0, "the exit code")


@case()
def tricky_data_comes_back_as_it_was(scene):
    bare = scene.bare()
    for name, value in TRICKY.items():
        equal(bare.ask("query", "Conf.Echo", value)["data"], value, name)
        line = json.dumps({"kind": "query", "type": "Conf.Echo", "data": value, "metadata": {"id": f"utf8-{name}", "timestamp": 0}}, ensure_ascii=False)
        bare.write(line.encode() + b"\n")
        equal(bare.outcome(f"utf8-{name}")["data"], value, f"{name}, as UTF-8")


@case()
def half_a_surrogate_pair_kills_nobody(scene):
    bare = scene.bare()
    name = bare.send("query", "Conf.Echo", "half \ud83d of a pair")
    expect(bare.outcome(name)["kind"] in ("reply", "error"), "an outcome")
    equal(bare.ask("query", "Conf.Echo", "next")["data"], "next", "the next request")


@case()
def an_id_of_any_text_is_named_as_the_cause(scene):
    bare = scene.bare()
    for name in ['quote " backslash \\', "日本 🙂", "tab \t", "x" * 256]:
        bare.write(json.dumps({"kind": "query", "type": "Conf.Echo", "data": 1, "metadata": {"id": name, "timestamp": 0}}).encode() + b"\n")
        equal(bare.outcome(name)["data"], 1, f"the answer to {name!r}")


@case()
def a_line_that_is_no_message_is_told_and_the_next_one_counts(scene):
    bare = scene.bare()
    for line in (b"garbage", b"{}", b"[]", b"null", b'"text"', b"\xff\xfe", b'{"kind":"query"}', b'{"kind":"odd","type":"A.B","data":1,"metadata":{"id":"1","timestamp":0}}'):
        bare.write(line + b"\n")
    equal(bare.ask("query", "Conf.Echo", 7)["data"], 7, "the next request")
    wait_until(lambda: bare.errors, "it is told on standard error")


@case()
def what_has_no_handler_is_404(scene):
    bare = scene.bare()
    answer = bare.ask("command", "Conf.Unknown", {})
    equal((answer["kind"], answer["type"], answer["data"]["code"]), ("error", "Conf.Unknown", 404), "the answer")
    answer = bare.ask("command", "Conf.Echo", {})
    equal((answer["kind"], answer["data"]["code"]), ("error", 404), "the right type of the wrong kind")
    bare.send("event", "Conf.Unknown", {})
    bare.send("reply", "Conf.Echo", {}, causation="nothing")
    equal(bare.ask("query", "Conf.Echo", 7)["data"], 7, "the next request")


@case()
def an_exception_ends_its_request_alone_and_keeps_its_secret(scene):
    bare = scene.bare()
    answer = bare.ask("query", "Conf.Throw", {})
    equal((answer["kind"], answer["type"], answer["data"]["code"]), ("error", "Conf.Throw", 500), "the answer")
    expect(isinstance(answer["data"]["message"], str) and answer["data"]["message"], "no words")
    expect("the secret" not in json.dumps(answer), "the exception was told to whoever asked")
    equal(bare.ask("query", "Conf.Echo", 7)["data"], 7, "the next request")
    wait_until(lambda: any("the secret of Conf.Throw" in line for line in bare.errors), "the exception is on standard error")


@case()
def an_error_of_its_own_has_its_code_and_message(scene):
    bare = scene.bare()
    for code in (400, 404, 409, 499, 503, 599):
        answer = bare.ask("query", "Conf.Fail", {"code": code, "message": "words: ä 🙂"})
        equal((answer["kind"], answer["type"]), ("error", "Conf.Fail"), "the answer")
        equal((answer["data"]["code"], answer["data"]["message"]), (code, "words: ä 🙂"), "its data")


@case()
def an_answer_that_json_cannot_express_ends_its_request_alone(scene):
    bare = scene.bare()
    answer = bare.ask("query", "Conf.Unfit", {})
    equal((answer["kind"], answer["data"]["code"]), ("error", 500), "the answer")
    equal(bare.ask("query", "Conf.Echo", 7)["data"], 7, "the next request")


@case()
def an_answer_beyond_the_longest_line_ends_its_request_alone(scene):
    bare = scene.bare()
    answer = bare.ask("query", "Conf.Blob", {"bytes": 2 * 1024 * 1024})
    equal((answer["kind"], answer["data"]["code"]), ("error", 500), "the answer")
    equal(len(bare.ask("query", "Conf.Blob", {"bytes": 1000_000})["data"]["blob"]), 1000_000, "an answer just within it")


@case()
def what_is_printed_goes_to_standard_error(scene):
    bare = scene.bare()
    equal(bare.ask("command", "Conf.Print", {"text": "printed by the capability"})["kind"], "reply", "the answer")
    bare.end_input()
    equal(bare.wait(), 0, "the exit code")
    equal(bare.next_line(), None, "nothing else on standard output")
    wait_until(lambda: any("printed by the capability" in line for line in bare.errors), "it is on standard error")


@case()
def requests_run_at_the_same_time(scene):
    bare = scene.bare()
    names = [bare.send("command", "Conf.Slow", {"ms": 500}) for _ in range(16)]
    start = time.monotonic()
    equal(bare.ask("query", "Conf.Echo", 7)["data"], 7, "a quick one between slow ones")
    waiting = set(names)
    while waiting:
        message = bare.receive()
        waiting.discard(message["metadata"]["causation"])
    expect(time.monotonic() - start < 4, "they ran one after another")


@case()
def events_are_taken_in_their_order_and_need_no_answer(scene):
    bare = scene.bare()
    for number in range(50):
        bare.send("event", "Conf.Noted", {"number": number})
    status = bare.ask("query", "Conf.Status", {})["data"]
    equal([each["number"] for each in status["noted"]], list(range(50)), "what it noted")


@case()
def an_event_names_its_cause_and_has_an_id_of_its_own(scene):
    bare = scene.bare()
    name = bare.send("command", "Conf.Emit", {"count": 3, "data": "x"})
    said = [bare.receive() for _ in range(4)]
    events = [message for message in said if message["kind"] == "event"]
    equal([event["data"]["number"] for event in events], [1, 2, 3], "the events")
    equal({event["metadata"].get("causation") for event in events}, {name}, "their cause")
    equal(len({message["metadata"]["id"] for message in said}), 4, "different ids")


@case()
def progress_is_an_event_that_names_the_request(scene):
    bare = scene.bare()
    name = bare.send("command", "Conf.Work", {"steps": 2}, progress=True)
    said = [bare.receive() for _ in range(3)]
    events = [message for message in said if message["kind"] == "event"]
    equal([(event["type"], event["data"]) for event in events], [("Conf.Work.Progress", {"step": 1, "of": 2}), ("Conf.Work.Progress", {"step": 2, "of": 2})], "the events")
    equal({event["metadata"]["causation"] for event in events}, {name}, "their cause")


@case()
def a_cancelled_request_stops_and_still_has_an_outcome(scene):
    bare = scene.bare()
    name = bare.send("command", "Conf.Slow", {"ms": 60_000})
    bare.send("event", "Sys.RequestCancelled", {"originalId": name}, causation=name)
    expect(bare.receive(20)["metadata"]["causation"] == name, "its outcome does not come")
    equal(bare.ask("query", "Conf.Status", {})["data"]["cancelled"], 1, "how many were cancelled")


@case()
def a_question_names_its_cause_and_takes_its_answer(scene):
    bare = scene.bare()
    name = bare.send("command", "Conf.Ask", {"kind": "command", "type": "Other.Thing", "data": {"a": 12345678901234567890}, "timeout": 1234})
    question = bare.receive()
    equal((question["kind"], question["type"], question["data"]), ("command", "Other.Thing", {"a": 12345678901234567890}), "the question")
    equal((question["metadata"]["causation"], question["metadata"]["timeout"]), (name, 1234), "its cause and time")
    bare.send("reply", "Other.Thing", {"answer": 1}, causation="another")
    bare.send("reply", "Other.Thing", {"answer": 42}, causation=question["metadata"]["id"])
    equal(bare.outcome(name)["data"], {"ok": {"answer": 42}}, "what it makes of the answer")


@case()
def a_question_that_ends_in_an_error_is_an_error_with_code_and_started(scene):
    bare = scene.bare()
    name = bare.send("command", "Conf.Ask", {"kind": "query", "type": "Other.Thing", "data": None})
    question = bare.receive()
    data = {"code": 503, "message": "full", "originalId": question["metadata"]["id"], "originalType": "Other.Thing", "started": "no"}
    bare.send("error", "Sys.Overloaded", data, causation=question["metadata"]["id"])
    found = bare.outcome(name)["data"]["error"]
    equal((found["code"], found["type"], found["message"], found["started"]), (503, "Sys.Overloaded", "full", "no"), "the error")


@case()
def at_the_end_of_its_input_it_finishes_and_exits_with_0(scene):
    bare = scene.bare()
    name = bare.send("command", "Conf.Slow", {"ms": 700})
    bare.end_input()
    equal(bare.outcome(name)["data"], {"waited": 700}, "what was under way")
    equal(bare.wait(), 0, "the exit code")


@case()
def an_idle_one_exits_at_once_when_its_input_ends(scene):
    bare = scene.bare()
    equal(bare.ask("query", "Conf.Echo", 1)["data"], 1, "it runs")
    start = time.monotonic()
    bare.end_input()
    equal(bare.wait(), 0, "the exit code")
    expect(time.monotonic() - start < 3, "it took its time")


@case()
def a_question_whose_answer_cannot_come_any_more_ends_with_the_input(scene):
    bare = scene.bare()
    name = bare.send("command", "Conf.Ask", {"kind": "query", "type": "Other.Thing", "data": None})
    bare.receive()
    bare.end_input()
    expect("error" in bare.outcome(name)["data"], "the question ended in an error")
    equal(bare.wait(), 0, "the exit code")


@case()
def sigterm_ends_it_like_the_end_of_its_input(scene):
    bare = scene.bare()
    equal(bare.ask("query", "Conf.Echo", 1)["data"], 1, "it runs")
    bare.process.send_signal(signal.SIGTERM)
    equal(bare.wait(20), 0, "the exit code")


@case()
def sigint_is_left_to_the_daemon(scene):
    bare = scene.bare()
    equal(bare.ask("query", "Conf.Echo", 1)["data"], 1, "it runs")
    bare.process.send_signal(signal.SIGINT)
    equal(bare.ask("query", "Conf.Echo", 2)["data"], 2, "it runs on")


@case()
def the_manifest_that_it_prints_is_one_and_the_daemon_runs_with_it(scene):
    program = scene.start([*scene.programs.capability, "--manifest"])
    lines = []
    while (line := program.next_line()) is not None:
        lines.append(line)
    equal(program.wait(), 0, "the exit code")
    manifest = json.loads(b"".join(lines))
    equal(manifest["id"], "conformance", "the id")
    expect(manifest["description"], "no description")
    manifest["program"] = {"process": scene.programs.capability}
    checked = scene.check(manifest)
    equal(checked.returncode, 0, f"`mainspring check` says {checked.stdout} {checked.stderr}")
    daemon = scene.keep(Daemon(scene.programs.daemon, scene.programs.capability, scene.folder, own_manifest=manifest))
    with daemon.raw() as raw:
        told = raw.ask("query", "Syscall.Describe", {"capability": "conformance"})["data"]
        described = told["capabilities"][0] if "capabilities" in told else told
        found = {(each["kind"], each["type"]) for each in described["handles"]}
        expect(HANDLES <= found, f"it does not list {HANDLES - found}")
        equal(raw.ask("command", "Conf.Add", {"a": 1, "b": 2})["data"], {"sum": 3}, "an answer")
        equal(raw.ask("command", "Conf.Add", {"a": "1", "b": 2})["data"]["code"], 422, "data that does not fit")
        equal(raw.ask("command", "Conf.Emit", {"count": 2, "data": 1})["data"], {"emitted": 2}, "an answer of one that emits")
        raw.send("event", "Conf.Noted", "noted")
        equal(raw.ask("query", "Conf.Status", {})["data"]["noted"], ["noted"], "its subscription")
