"""Events, in both directions."""

from ..programs import equal, expect, wait_until
from .register import case


@case(per_transport=True)
def an_event_reaches_the_capability(scene):
    client = scene.client()
    for number in range(5):
        client.ok("emit", type="Conf.Noted", data={"number": number, "text": "ä 🙂", "big": 12345678901234567890})
    noted = client.ok("query", type="Conf.Status", data={})["noted"]
    equal([each["number"] for each in noted], [0, 1, 2, 3, 4], "in their order")
    equal((noted[0]["text"], noted[0]["big"]), ("ä 🙂", 12345678901234567890), "their data")


@case()
def an_event_that_is_refused_is_an_error(scene):
    client = scene.client()
    error = client.error("emit", type="Sys.Forbidden", data={})
    equal((error["kind"], error["code"], error["type"]), ("outcome", 403, "Sys.ForbiddenError"), "the error")
    equal(client.ok("emit", type="Nobody.Wants", data={}), None, "one that nobody wants is fine")


@case(per_transport=True)
def events_are_watched_by_type_prefix_and_all(scene):
    client = scene.client()
    exact = client.start("watch", types=["Conf.Happened"])
    prefix = client.start("watch", types=["Conf.*"])
    everything = client.start("watch", types=["*"])
    for number in (exact, prefix, everything):
        expect("ok" in client.finish(number), "it is watched")
    equal(client.ok("send", type="Conf.Emit", data={"count": 3, "data": "ä 🙂"}), {"emitted": 3}, "the command")
    client.ok("emit", type="Conf.Other", data={})
    client.ok("emit", type="Confetti.Thrown", data={})
    client.note(everything, lambda note: note.get("event", {}).get("type") == "Confetti.Thrown")
    client.note(prefix, lambda note: note.get("event", {}).get("type") == "Conf.Other")
    equal([event["data"]["number"] for event in client.events(exact)], [1, 2, 3], "by type")
    equal(client.events(exact)[0]["data"]["data"], "ä 🙂", "their data")
    equal([event["type"] for event in client.events(prefix)], ["Conf.Happened"] * 3 + ["Conf.Other"], "by prefix")
    equal(len(client.events(everything)), 5, "all")


@case()
def a_watch_that_ended_gets_nothing_and_others_go_on(scene):
    client = scene.client()
    first = client.start("watch", types=["Conf.Happened"])
    second = client.start("watch", types=["Conf.Happened", "Conf.Other"])
    client.finish(first), client.finish(second)
    client.ok("unwatch", of=first)
    client.note(first, lambda note: note.get("end"))
    client.ok("send", type="Conf.Emit", data={"count": 2, "data": 1})
    client.note(second, lambda note: note.get("event", {}).get("data", {}).get("number") == 2)
    equal(client.events(first), [], "the one that ended")


@case()
def a_bad_pattern_is_refused(scene):
    client = scene.client()
    number = client.start("watch", types=["not a pattern"])
    error = client.finish(number).get("error")
    expect(error is not None and error["kind"] in ("outcome", "invalid"), f"it is refused: {error}")
    equal(client.ok("query", type="Conf.Echo", data=7), 7, "the next request")


@case()
def a_consumer_that_does_not_keep_up_loses_the_oldest_and_is_told(scene):
    client = scene.client()
    watch = client.start("watch", types=["Conf.Happened"], buffer=10)
    client.finish(watch)
    client.ok("pause", of=watch)
    client.ok("send", type="Conf.Emit", data={"count": 100, "data": None})
    # The last event is there when whatever was asked after it is answered.
    client.ok("query", type="Syscall.Ping", data=None)
    other = client.start("watch", types=["Conf.Marker"])
    client.finish(other)
    client.ok("emit", type="Conf.Marker", data=None)
    client.note(other, lambda note: "event" in note)
    client.ok("resume", of=watch)
    client.note(watch, lambda note: note.get("event", {}).get("data", {}).get("number") == 100)
    numbers = [event["data"]["number"] for event in client.events(watch)]
    lost = sum(gap["count"] for gap in client.gaps(watch) if gap["reason"] in ("buffer", "daemon"))
    expect(len(numbers) <= 12, f"more than the buffer was kept: {numbers}")
    equal(numbers, sorted(numbers), "their order")
    equal(len(numbers) + lost, 100, "every event came or was told to be missing")


@case()
def a_thousand_events_of_one_request_all_come(scene):
    client = scene.client()
    watch = client.start("watch", types=["Conf.Happened"], buffer=5000)
    client.finish(watch)
    equal(client.ok("send", type="Conf.Emit", data={"count": 1000, "data": "x" * 100}), {"emitted": 1000}, "the command")
    wait_until(lambda: len(client.events(watch)) == 1000, "all events came")
    equal([event["data"]["number"] for event in client.events(watch)], list(range(1, 1001)), "their order")
