"""Lost connections: what is repeated, what is not, and what a watch is told."""

import json
import signal
import time

from ..programs import equal, expect, wait_until
from .register import case


def is_reply_of(type_name: str):
    def swallow(line: bytes) -> bool:
        message = json.loads(line)
        return message["kind"] == "reply" and message["type"] == type_name
    return swallow


def lines_of(proxy, type_name: str) -> list[bytes]:
    return [line for line in proxy.upward if json.loads(line).get("type") == type_name]


@case()
def a_command_whose_answer_was_lost_is_repeated_byte_for_byte_and_done_once(scene):
    proxy = scene.proxy()
    client = scene.client(environment={"MAINSPRING_SOCKET": proxy.path})
    with scene.daemon.raw() as raw:
        equal(raw.ask("command", "Sys.Subscribe", {"types": ["Conf.Happened"]})["kind"], "reply", "the subscription")
        proxy.swallow = is_reply_of("Conf.Emit")
        equal(client.ok("send", type="Conf.Emit", data={"count": 1, "data": "once ä"}), {"emitted": 1}, "the answer")
        sent = lines_of(proxy, "Conf.Emit")
        equal(len(sent), 2, "how often it was sent")
        equal(sent[0], sent[1], "the same line")
        equal(raw.receive(10)["type"], "Conf.Happened", "the event")
        equal(raw.receive(0.5), None, "no second event")


@case()
def what_is_under_way_when_the_connection_is_cut_is_answered(scene):
    proxy = scene.proxy()
    client = scene.client(environment={"MAINSPRING_SOCKET": proxy.path})
    slow = [client.start("send", type="Conf.Slow", data={"ms": 1000 + number}) for number in range(5)]
    wait_until(lambda: len(lines_of(proxy, "Conf.Slow")) == 5, "they are sent")
    proxy.cut()
    for number, operation in enumerate(slow):
        equal(client.finish(operation).get("ok"), {"waited": 1000 + number}, "the answer")
    equal(client.ok("query", type="Conf.Echo", data=7), 7, "the next request")


@case()
def many_cuts_lose_no_request(scene):
    proxy = scene.proxy()
    client = scene.client(environment={"MAINSPRING_SOCKET": proxy.path})
    flood = client.start("flood", kind="command", type="Conf.Add", count=2000, inFlight=20, data={"a": 1, "b": 2})
    for _ in range(5):
        time.sleep(0.15)
        proxy.cut()
    equal(client.finish(flood).get("ok"), {"replies": 2000, "errors": {}, "wrong": 0}, "the flood")


@case()
def without_reconnection_what_is_under_way_is_closed(scene):
    proxy = scene.proxy()
    client = scene.client(environment={"MAINSPRING_SOCKET": proxy.path}, reconnect=False)
    slow = client.start("send", type="Conf.Slow", data={"ms": 20_000})
    wait_until(lambda: lines_of(proxy, "Conf.Slow"), "it is sent")
    proxy.cut()
    error = client.finish(slow).get("error")
    expect(error is not None and error["kind"] == "closed", f"it ends: {error}")
    expect(error.get("started") != "no", "nobody knows that it has not started")
    error = client.error("query", type="Conf.Echo", data=7)
    equal((error["kind"], error.get("started")), ("closed", "no"), "the next request")


@case(per_transport=True)
def a_daemon_that_was_killed_and_started_again_is_found_again(scene):
    client = scene.client()
    watch = client.start("watch", types=["Conf.Happened"])
    client.finish(watch)
    equal(client.ok("query", type="Conf.Echo", data=1), 1, "before")
    scene.daemon.kill()
    during = client.start("query", type="Conf.Echo", data=2)
    time.sleep(0.3)
    scene.daemon.start()
    equal(client.finish(during).get("ok"), 2, "what was asked in between")
    equal(client.ok("send", type="Conf.Emit", data={"count": 1, "data": None}), {"emitted": 1}, "after")
    client.note(watch, lambda note: "event" in note)
    equal([gap["reason"] for gap in client.gaps(watch)], ["reconnected"], "what the watch was told")


@case()
def a_request_to_a_daemon_that_is_gone_ends_in_its_time(scene):
    client = scene.client()
    scene.daemon.kill()
    start = time.monotonic()
    error = client.error("query", type="Conf.Echo", data=1, timeout=500)
    expect(error["kind"] in ("timeout", "closed"), f"the error: {error}")
    expect(time.monotonic() - start < 20, "it took too long")


@case()
def a_daemon_that_does_not_answer_is_given_up_in_time(scene):
    client = scene.client()
    scene.daemon.signal(signal.SIGSTOP)
    start = time.monotonic()
    error = client.error("query", type="Conf.Echo", data=1, timeout=500)
    took = time.monotonic() - start
    scene.daemon.signal(signal.SIGCONT)
    equal((error["kind"], error["code"]), ("timeout", 504), "the error")
    expect(0.5 <= took < 20, f"it took {took:.1f} s")
    equal(client.ok("query", type="Conf.Echo", data=7), 7, "the next request")


@case()
def an_event_in_doubt_is_an_error_and_never_sent_twice(scene):
    proxy = scene.proxy()
    client = scene.client(environment={"MAINSPRING_SOCKET": proxy.path})
    proxy.swallow = lambda line: json.loads(line)["kind"] == "reply"
    error = client.error("emit", type="Conf.Noted", data="in doubt")
    equal(error["kind"], "closed", "the error")
    wait_until(lambda: client.call("query", type="Conf.Echo", data=7).get("ok") == 7, "it is connected again")
    equal(len(lines_of(proxy, "Conf.Noted")), 1, "how often it was sent")


@case(per_transport=True)
def closing_ends_what_is_under_way(scene):
    client = scene.client()
    slow = client.start("send", type="Conf.Slow", data={"ms": 20_000})
    equal(client.ok("query", type="Conf.Echo", data=1), 1, "the slow one is under way")
    equal(client.ok("close"), None, "closed")
    error = client.finish(slow).get("error")
    expect(error is not None and error["kind"] == "closed", f"what was under way: {error}")
    equal(client.error("query", type="Conf.Echo", data=1)["kind"], "closed", "the next request")
    client.end_input()
    equal(client.wait(), 0, "the exit code")


@case()
def the_client_ends_when_its_input_does(scene):
    client = scene.client()
    equal(client.ok("query", type="Conf.Echo", data=1), 1, "it works")
    watch = client.start("watch", types=["*"])
    client.finish(watch)
    client.end_input()
    equal(client.wait(20), 0, "the exit code")
    equal(client.last_errors(), "none", "nothing on standard error")
