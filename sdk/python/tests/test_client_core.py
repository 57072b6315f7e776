"""The client's side of a connection, without the connection."""

from __future__ import annotations

import json
from typing import Any

import pytest

import mainspring
from mainspring import ConnectionLost, Gap, InvalidMessage, Message, NoAnswer
from mainspring._core import client as core_module
from mainspring._core.client import GRACE, SILENCE, ClientCore
from mainspring._core.watch import WatchState


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(core_module, "time", made)
    return made


def lines(core: ClientCore) -> list[dict[str, Any]]:
    return [json.loads(line) for line in core.take_output().splitlines()]


def answer(
    core: ClientCore, cause: str, data: Any, kind: str = "reply", type_name: str = "App.Do", **more: Any
) -> None:
    metadata = {"id": "x", "timestamp": 0, "causation": cause, **more}
    core.receive(json.dumps({"kind": kind, "type": type_name, "data": data, "metadata": metadata}).encode() + b"\n")


def tell(core: ClientCore, type_name: str, data: Any = None, **metadata: Any) -> None:
    members = {"id": "e", "timestamp": 0, **metadata}
    core.receive(json.dumps({"kind": "event", "type": type_name, "data": data, "metadata": members}).encode() + b"\n")


def opened(token: str | None = None) -> ClientCore:
    core = ClientCore(token)
    core.opened()
    return core


def test_after_a_lost_connection_requests_are_repeated_byte_for_byte() -> None:
    core = opened()
    one = core.request("command", "App.Do", {"n": 2**70})
    core.request("query", "App.Ask", None)
    before = core.take_output()
    core.lost()
    assert one.outcome is None and core.needs_connection
    core.opened()
    assert core.take_output() == before
    answer(core, one.id, 1)
    assert one.result() == 1


def test_what_is_not_to_be_repeated_is_lost_with_its_connection() -> None:
    core = opened()
    one = core.request("command", "App.Do", None, repeat=False)
    core.take_output()
    core.lost()
    with pytest.raises(ConnectionLost) as caught:
        one.result()
    assert caught.value.started is None


def test_what_was_never_written_was_not_started() -> None:
    core = ClientCore()
    one = core.request("command", "App.Do", None)
    core.give_up(mainspring.NoDaemon("nobody"))
    with pytest.raises(mainspring.NoDaemon) as caught:
        one.result()
    assert caught.value.started == "no"


def test_an_event_is_confirmed_by_the_ping_after_it_and_never_repeated() -> None:
    core = opened()
    one = core.event("App.Happened", 1, id=None, correlation=None, metadata=None)
    event, ping = lines(core)
    assert (event["kind"], ping["type"]) == ("event", "Syscall.Ping")
    answer(core, ping["metadata"]["id"], None)
    assert one.result() is None
    two = core.event("App.Happened", 2, id=None, correlation=None, metadata=None)
    core.take_output()
    core.lost()
    core.opened()
    assert lines(core) == []
    with pytest.raises(ConnectionLost):
        two.result()


def test_a_refused_event_raises_the_refusal() -> None:
    core = opened()
    one = core.event("App.Happened", 1, id=None, correlation=None, metadata=None)
    event, ping = lines(core)
    data = {"code": 403, "message": "no", "originalId": one.id, "originalType": "App.Happened", "started": "no"}
    answer(core, event["metadata"]["id"], data, "error", "Sys.ForbiddenError")
    answer(core, ping["metadata"]["id"], None)
    with pytest.raises(mainspring.ForbiddenError):
        one.result()


def test_by_tcp_the_token_comes_first_and_requests_wait_until_it_is_taken() -> None:
    core = ClientCore("secret")
    core.request("query", "App.Ask", None)
    core.opened()
    token, ping = lines(core)
    assert token == {"token": "secret"} and ping["type"] == "Syscall.Ping"
    answer(core, ping["metadata"]["id"], None)
    assert [line["type"] for line in lines(core)] == ["App.Ask"]


def test_rights_that_were_given_up_are_given_up_first_on_every_later_connection() -> None:
    core = opened()
    one = core.restrict(["Order.*"], False)
    [line] = lines(core)
    assert line["data"] == {"allow": ["Order.*"], "operator": False}
    answer(core, one.id, {})
    two = core.request("command", "Order.Place", None)
    core.take_output()
    core.lost()
    core.opened()
    [again] = lines(core)
    assert again["type"] == "Sys.Restrict" and not core.is_open
    answer(core, again["metadata"]["id"], {})
    assert [line["metadata"]["id"] for line in lines(core)] == [two.id]


def test_a_connection_whose_rights_cannot_be_restricted_is_not_used() -> None:
    core = opened()
    answer(core, core.restrict(["Order.*"], None).id, {})
    one = core.request("command", "Order.Place", None)
    core.lost()
    core.opened()
    restrict = lines(core)[-1]
    answer(core, restrict["metadata"]["id"], {"code": 404, "message": "no"}, "error", "Sys.RoutingError")
    assert lines(core) == []
    with pytest.raises(mainspring.ClientClosed, match="restricted"):
        one.result()


def test_a_cancelled_request_ends_at_once_and_the_daemon_is_told_if_it_knows_how() -> None:
    core = opened()
    one = core.request("command", "App.Do", None)
    core.take_output()
    core.cancel(one)
    with pytest.raises(mainspring.Cancelled):
        one.result()
    [cancel] = lines(core)
    assert (cancel["type"], cancel["data"]) == ("Syscall.Cancel", {"id": one.id})
    answer(core, cancel["metadata"]["id"], {"code": 404, "message": "no"}, "error", "Sys.RoutingError")
    two = core.request("command", "App.Do", None)
    core.take_output()
    core.cancel(two)
    assert lines(core) == []


def test_progress_comes_to_whoever_asked_for_it() -> None:
    core = opened()
    seen: list[Any] = []
    one = core.request("command", "App.Do", None, on_progress=seen.append)
    assert lines(core)[0]["metadata"]["progress"] is True
    tell(core, "App.Do.Progress", {"done": 1}, causation=one.id)
    tell(core, "App.Do.Progress", {"done": 2}, causation="another")
    assert seen == [{"done": 1}]


def test_a_callback_that_fails_does_not_end_the_connection() -> None:
    core = opened()
    one = core.request("command", "App.Do", None, on_progress=lambda data: 1 / 0)
    tell(core, "App.Do.Progress", {}, causation=one.id)
    answer(core, one.id, 5)
    assert one.result() == 5


def test_an_error_that_names_no_message_is_about_the_only_request_or_the_longest_line() -> None:
    core = opened()
    short = core.request("command", "App.Do", "x")
    long = core.request("command", "App.Do", "x" * 100)
    data = {"code": 413, "message": "too long", "originalId": None, "originalType": None, "started": "no"}
    answer(core, "made up", data, "error", "Sys.TooLargeError")
    with pytest.raises(mainspring.TooLargeError):
        long.result()
    assert short.outcome is None


def test_an_answer_that_nobody_waits_for_goes_to_the_callback() -> None:
    seen: list[Message] = []
    core = ClientCore(None, seen.append)
    core.opened()
    answer(core, "t", 1, timerId="t1")
    assert seen[0].metadata["timerId"] == "t1"


def test_watches_get_the_events_that_they_want_and_only_after_the_subscription_holds() -> None:
    core = opened()
    watch = WatchState(["Order.*", "App.Done"], 10)
    one = core.subscribe(watch)
    tell(core, "Order.Placed", 0)
    assert watch.take() is None
    answer(core, one.id, {"types": []})
    for type_name in ("Order.Placed", "Order.Line.Added", "Orders.Placed", "App.Done", "App.Done.Not"):
        tell(core, type_name)
    found = []
    while item := watch.take():
        found.append(item.type if isinstance(item, Message) else item)
    assert found == ["Order.Placed", "Order.Line.Added", "App.Done"]


def test_a_full_watch_drops_its_oldest_and_tells_how_many() -> None:
    watch = WatchState(["*"], 2)
    for number in range(5):
        watch.put(Message({"data": number}))
    items = [watch.take() for _ in range(4)]
    assert items[0] == Gap("buffer", 3)
    assert [item.data for item in items[1:3] if isinstance(item, Message)] == [3, 4] and items[3] is None


def test_after_a_reconnection_a_watch_is_subscribed_again_and_told_of_the_gap() -> None:
    core = opened()
    watch = WatchState(["Order.*"], 10)
    answer(core, core.subscribe(watch).id, {})
    core.take_output()
    core.lost()
    core.opened()
    [again] = lines(core)
    assert again["data"] == {"types": ["Order.*"]}
    answer(core, again["metadata"]["id"], {})
    assert watch.take() == Gap("reconnected", None)


def test_events_that_the_daemon_dropped_are_a_gap() -> None:
    core = opened()
    watch = WatchState(["*"], 10)
    answer(core, core.subscribe(watch).id, {})
    tell(core, "Sys.EventsDropped", {"count": 7})
    assert watch.take() == Gap("daemon", 7)


def test_only_what_no_other_watch_wants_is_unsubscribed() -> None:
    core = opened()
    one, two = WatchState(["A.*", "B.*"], 1), WatchState(["B.*"], 1)
    for watch in (one, two):
        answer(core, core.subscribe(watch).id, {})
    core.take_output()
    core.unsubscribe(one)
    assert lines(core)[0]["data"] == {"types": ["A.*"]}


@pytest.mark.parametrize("pattern", ["", "order.*", "Order", "Order*", "*.Placed", "Order.*.*"])
def test_bad_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidMessage):
        WatchState([pattern], 1)


def test_a_daemon_that_is_silent_is_sent_a_ping_and_given_up_without_an_answer(clock: Clock) -> None:
    core = opened()
    one = core.request("query", "App.Ask", None)
    core.take_output()
    assert core.next_deadline() == clock.now + SILENCE
    clock.now += SILENCE
    assert core.tick()
    [ping] = lines(core)
    assert ping["type"] == "Syscall.Ping" and core.next_deadline() == clock.now + GRACE
    answer(core, ping["metadata"]["id"], None)
    assert core.next_deadline() == clock.now + SILENCE
    clock.now += SILENCE
    assert core.tick()
    clock.now += GRACE
    assert not core.tick()
    assert one.outcome is None


def test_a_request_is_given_up_a_while_after_its_timeout_connected_or_not(clock: Clock) -> None:
    core = opened()
    one = core.request("query", "App.Ask", None, timeout=3)
    core.take_output()
    core.lost()
    assert core.next_deadline() == clock.now + 3 + GRACE
    clock.now += 3 + GRACE
    core.tick()
    with pytest.raises(NoAnswer):
        one.result()
    assert core.next_deadline() is None


def test_requests_are_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "REQUESTS_MAX", 2)
    monkeypatch.setattr(core_module, "REQUEST_BYTES_MAX", 1000)
    core = opened()
    first = core.request("query", "App.Ask", "x" * 2000)
    assert not core.has_room
    answer(core, first.id, None)
    assert core.has_room and core.pending_bytes == 0
    core.request("query", "App.Ask", None)
    core.request("query", "App.Ask", None)
    assert not core.has_room


def test_an_id_that_is_under_way_is_refused() -> None:
    core = opened()
    core.request("query", "App.Ask", None, id="a")
    with pytest.raises(InvalidMessage, match="under way"):
        core.request("query", "App.Ask", None, id="a")


def test_whoever_does_not_speak_messages_is_no_daemon() -> None:
    for text in (b"HTTP/1.1 400 Bad Request\r\n", b"[1]\n", b'{"kind":"reply"}\n', b"\xff\n"):
        with pytest.raises(mainspring.NotADaemon):
            opened().receive(text)


def test_a_refusal_of_the_connection_is_told_by_its_kind() -> None:
    core = opened("wrong")
    with pytest.raises(mainspring.TokenProblem):
        answer(core, "connection", {"code": 403, "message": "no"}, "error", "Sys.ForbiddenError")
    with pytest.raises(mainspring.TurnedAway, match="503"):
        answer(core, "connection", {"code": 503, "message": "full"}, "error", "Sys.Overloaded")


def test_errors_have_classes_codes_and_started_and_survive_pickling() -> None:
    import pickle

    core = opened()
    one = core.request("query", "App.Ask", None)
    data = {
        "code": 504,
        "message": "late",
        "originalId": one.id,
        "originalType": "App.Ask",
        "started": "yes",
        "capabilityId": "a",
    }
    answer(core, one.id, data, "error", "Sys.Timeout")
    with pytest.raises(mainspring.RequestTimeout) as caught:
        one.result()
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.code, error.started, error.type, error.original_type) == (504, "yes", "Sys.Timeout", "App.Ask")
    assert error.data["capabilityId"] == "a" and type(error) is mainspring.RequestTimeout


def test_errors_of_a_capability_are_its_own_and_unknown_ones_of_the_daemon_are_daemons() -> None:
    core = opened()
    one, two = (core.request("query", "App.Ask", None) for _ in range(2))
    answer(core, one.id, {"code": 409, "message": "taken", "who": "Ada"}, "error", "App.Ask")
    answer(core, two.id, {"code": 507, "message": "full", "started": "no"}, "error", "Sys.StorageFull")
    with pytest.raises(mainspring.CapabilityError) as caught:
        one.result()
    assert caught.value.data["who"] == "Ada" and caught.value.started is None
    with pytest.raises(mainspring.DaemonError) as caught_two:
        two.result()
    assert caught_two.value.code == 507 and caught_two.value.started == "no"
