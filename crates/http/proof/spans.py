"""Spans: what a collector gets of requests, of what they cause, and of errors; and what happens when it is away."""

import time

from collector import Collector
from daemon import Client, eventually

INTERNAL, SERVER, PRODUCER, ERROR = 1, 2, 4, 2


def traces(daemon, collector):
    trace, asker = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    before = time.time_ns()
    headers = {"traceparent": f"00-{trace}-{asker}-01"}
    status, reply = Client(daemon).ask("POST", "/v1/commands/Shop.Buy", {"item": "tea", "count": 2}, headers)
    assert (status, reply["paid"]) == (200, True), reply
    mine = lambda: [span for span in collector.spans() if span.trace == trace]
    eventually("the spans come", lambda: len(mine()) >= 5)
    by_name = {span.name: span for span in mine()}
    buy, pay, sold = by_name["Shop.Buy"], by_name["Bank.Pay"], by_name["Shop.Sold"]
    work = by_name["Shop.Buy in shop"]
    assert (buy.parent, buy.kind, buy.status, buy.service) == (asker, SERVER, 0, "proof")
    assert (pay.parent, sold.parent, work.parent) == (buy.id, buy.id, buy.id), "what it caused is below it"
    assert (pay.kind, sold.kind, work.kind) == (SERVER, PRODUCER, INTERNAL)
    assert buy.attributes["mainspring.peer"] == "app" and pay.attributes["mainspring.from"] == "shop"
    for span in by_name.values():
        assert before - 10**9 < span.start <= span.end < time.time_ns() + 10**9, span.name
    assert buy.start <= work.start <= pay.start and pay.end <= work.end <= buy.end
    ids = [span.id for span in collector.spans()]
    assert len(ids) == len(set(ids)), "a span is told once"


def without_traceparent(daemon, collector):
    headers = {"X-Correlation-Id": "order-1"}
    Client(daemon).ask("POST", "/v1/commands/Shop.Buy", {"item": "flow", "count": 1}, headers)
    flow = lambda: [span for span in collector.spans() if span.attributes.get("messaging.message.conversation_id") == "order-1"]
    eventually("the spans of a workflow come", lambda: len(flow()) >= 3)
    assert len({span.trace for span in flow()}) == 1, "a workflow is a trace"
    Client(daemon).ask("POST", "/v1/commands/Shop.Buy", {"item": "none", "count": 1}, {"Idempotency-Key": "first-cause"})
    first = lambda: [span for span in collector.spans() if span.attributes.get("messaging.message.id") == "first-cause"]
    (root,) = eventually("its span comes", first)
    below = lambda: [span for span in collector.spans() if span.parent == root.id]
    eventually("what it caused comes", lambda: len(below()) >= 3)
    assert root.parent == "" and {span.trace for span in below()} == {root.trace}


def errors_and_sampling(daemon, collector):
    client = Client(daemon)
    assert client.ask("POST", "/v1/commands/Shop.Fail", {})[0] == 418
    failed = lambda: [span for span in collector.spans() if span.name == "Shop.Fail"]
    (span,) = eventually("the span of an error comes", failed)
    assert span.status == ERROR and span.attributes["error.type"] == "418"
    unsampled = "1af7651916cd43dd8448eb211c80319c"
    client.ask("POST", "/v1/commands/Shop.Fail", {}, {"traceparent": f"00-{unsampled}-b7ad6b7169203331-00"})
    client.ask("POST", "/v1/commands/Shop.Fail", {}, {"traceparent": "00-nonsense"})
    eventually("the one after it comes", lambda: len(failed()) == 2)
    assert all(span.trace != unsampled for span in collector.spans()), "who is not recorded is not told"
    assert daemon.stats()["floors"]["telemetry"]["spansUnsampled"] == 1


def away(daemon, collector):
    """Gives the collector that came back."""
    told = lambda: daemon.stats()["floors"]["telemetry"]
    before = told()
    collector.close()
    client = Client(daemon)
    slowest = 0
    for _ in range(200):
        began = time.monotonic()
        assert client.ask("POST", "/v1/queries/Shop.Stock", {"item": "tea"})[0] == 200
        slowest = max(slowest, time.monotonic() - began)
    eventually("what nobody takes is counted", lambda: told()["spansDropped"] >= before["spansDropped"] + 400)
    assert told()["postsFailed"] > before["postsFailed"] and slowest < 2, slowest
    again = Collector(collector.port)
    client.ask("POST", "/v1/queries/Shop.Stock", {"item": "back"})
    eventually("it goes on when the collector is back", lambda: again.spans())
    return again
