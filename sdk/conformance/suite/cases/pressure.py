"""Much at once: floods, large messages, and readers that do not read."""

import json
import time

from ..programs import equal, expect, memory_peak
from .register import case

MIB = 1024 * 1024


@case()
def output_of_64_mib_that_nobody_reads_yet_is_held_back_and_comes_whole(scene):
    bare = scene.bare()
    # It has done all of this once before, so that what it then grows by is what it holds.
    bare.ask("command", "Conf.Emit", {"count": 200, "data": "x" * (16 * 1024 - 200)})
    before = memory_peak(bare.pid)
    bare.reading.clear()
    name = bare.send("command", "Conf.Emit", {"count": 4096, "data": "x" * (16 * 1024 - 200)})
    time.sleep(3.0)
    grown = memory_peak(bare.pid) - before
    bare.reading.set()
    count = 0
    while True:
        message = bare.receive()
        if message["kind"] == "event":
            count += 1
            equal(message["data"]["number"], count, "their order")
        else:
            equal((message["kind"], message["metadata"]["causation"]), ("reply", name), "the answer")
            break
    equal(count, 4096, "the events")
    expect(grown < 48 * MIB, f"it held {grown / MIB:.0f} MiB while nobody read")


@case()
def input_of_64_mib_is_taken_whole(scene):
    bare = scene.bare()
    line = json.dumps({"kind": "event", "type": "Conf.Noted", "data": "x" * (64 * 1024 - 200), "metadata": {"id": "ID", "timestamp": 0}}).encode()
    for number in range(1024):
        bare.write(line.replace(b'"ID"', b'"e%d"' % number) + b"\n")
    for number in range(100):
        bare.send("event", "Conf.Noted", number)
    equal(bare.ask("query", "Conf.Status", {})["data"]["noted"], list(range(100)), "the last hundred")


@case(per_transport=True)
def requests_of_64_mb_at_once_pass_up_and_down(scene):
    client = scene.client()
    found = client.ok("flood", kind="query", type="Syscall.Ping", count=128, inFlight=128, bytes=500_000)
    equal(found, {"replies": 128, "errors": {}, "wrong": 0}, "the flood")


@case(per_transport=True)
def answers_of_64_mb_come_from_the_capability(scene):
    client = scene.client()
    found = client.ok("flood", kind="query", type="Conf.Blob", count=128, inFlight=8, data={"bytes": 500_000})
    equal(found, {"replies": 128, "errors": {}, "wrong": 0}, "the flood")


@case(per_transport=True)
def a_flood_of_small_requests_is_answered(scene):
    client = scene.client()
    found = client.ok("flood", kind="command", type="Conf.Add", count=5000, inFlight=64, data={"a": 1, "b": 2})
    equal(found, {"replies": 5000, "errors": {}, "wrong": 0}, "the flood")
    found = client.ok("flood", kind="query", type="Conf.Echo", count=2000, inFlight=500, bytes=100)
    equal(found, {"replies": 2000, "errors": {}, "wrong": 0}, "the second flood")


@case()
def a_slow_request_does_not_hold_up_a_flood(scene):
    client = scene.client()
    slow = client.start("send", type="Conf.Slow", data={"ms": 1500})
    found = client.ok("flood", kind="command", type="Conf.Add", count=500, inFlight=10, data={"a": 1, "b": 2})
    equal(found["replies"], 500, "the flood")
    equal(client.finish(slow).get("ok"), {"waited": 1500}, "the slow one")


@case()
def a_client_that_asks_for_too_much_at_once_is_told_and_goes_on(scene):
    client = scene.client()
    # Far more than may wait: each SDK refuses some of them itself, and answers for the others come.
    found = client.ok("flood", kind="query", type="Syscall.Ping", count=300, inFlight=300, bytes=900_000)
    equal(found["replies"] + sum(found["errors"].values()), 300, "every request has an end")
    equal(found["wrong"], 0, "wrong answers")
    equal(client.ok("query", type="Conf.Echo", data=7), 7, "the next request")


@case()
def capabilities_that_crash_under_load_lose_no_answer(scene):
    client = scene.client()
    flood = client.start("flood", kind="command", type="Conf.Add", count=2000, inFlight=32, data={"a": 1, "b": 2})
    for _ in range(3):
        time.sleep(0.2)
        equal(client.error("send", type="Conf.Crash", data={})["code"], 502, "the crash")
    found = client.finish(flood)["ok"]
    equal(found["replies"] + sum(found["errors"].values()), 2000, "every request has an end")
    expect(set(found["errors"]) <= {"502"}, f"other errors: {found['errors']}")
