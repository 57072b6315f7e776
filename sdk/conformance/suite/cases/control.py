"""Cancel and progress."""

import time

from ..programs import equal, expect, wait_until
from .register import case


@case(per_transport=True)
def a_cancelled_request_ends_at_once_for_its_requester(scene):
    client = scene.client()
    slow = client.start("send", type="Conf.Slow", data={"ms": 20_000})
    equal(client.ok("query", type="Conf.Echo", data=1), 1, "it is under way")
    start = time.monotonic()
    client.ok("cancel", of=slow)
    error = client.finish(slow).get("error")
    expect(error is not None and error["kind"] == "cancelled", f"it ends: {error}")
    expect(time.monotonic() - start < 5, "it took its time")
    equal(client.ok("query", type="Conf.Echo", data=7), 7, "the next request")


@case(per_transport=True)
def the_capability_is_told_of_a_cancelled_request_and_stops(scene):
    client = scene.client()
    for number in range(1, 4):
        slow = client.start("send", type="Conf.Slow", data={"ms": 60_000})
        equal(client.ok("query", type="Conf.Echo", data=1), 1, "it is under way")
        client.ok("cancel", of=slow)
        equal(client.finish(slow).get("error", {}).get("kind"), "cancelled", "it ends")
        wait_until(lambda: client.ok("query", type="Conf.Status", data={})["cancelled"] == number, "the capability stopped", 20)


@case()
def a_cancelled_request_frees_its_place(scene):
    client = scene.client()
    before = client.ok("query", type="Conf.Status", data={})["pid"]
    # More than its concurrency, so that the next ones need the places of those before.
    slow = [client.start("send", type="Conf.Slow", data={"ms": 60_000}) for _ in range(16)]
    time.sleep(0.3)
    for operation in slow:
        client.ok("cancel", of=operation)
    equal(client.ok("send", type="Conf.Add", data={"a": 1, "b": 2}), {"sum": 3}, "the next request")
    equal(client.ok("query", type="Conf.Status", data={})["pid"], before, "it was no fault")


@case()
def a_request_that_only_waits_is_cancelled_before_it_starts(scene):
    client = scene.client()
    slow = [client.start("send", type="Conf.Slow", data={"ms": 2000}) for _ in range(16)]
    time.sleep(0.3)
    waiting = client.start("send", type="Conf.Slow", data={"ms": 60_000})
    client.ok("cancel", of=waiting)
    equal(client.finish(waiting).get("error", {}).get("kind"), "cancelled", "it ends")
    for operation in slow:
        equal(client.finish(operation).get("ok"), {"waited": 2000}, "the others")
    equal(client.ok("query", type="Conf.Status", data={})["cancelled"], 0, "the capability never saw it")


@case(per_transport=True)
def progress_comes_to_whoever_asked_for_it(scene):
    client = scene.client()
    work = client.start("send", type="Conf.Work", data={"steps": 50}, progress=True)
    equal(client.finish(work).get("ok"), {"steps": 50}, "the answer")
    with client.changed:
        told = [note["progress"] for note in client.notes.get(work, []) if "progress" in note]
    expect(told, "no progress came")
    # The outcome may overtake the last of them.
    equal(told, [{"step": step, "of": 50} for step in range(1, len(told) + 1)], "the progress")
    quiet = client.start("send", type="Conf.Work", data={"steps": 5})
    equal(client.finish(quiet).get("ok"), {"steps": 5}, "without asking")
    with client.changed:
        equal(client.notes.get(quiet, []), [], "no progress")
