"""Every way in which a request ends, from the client's side."""

from ..programs import equal, expect, wait_until
from .register import case
from .values import TRICKY


@case(per_transport=True)
def a_command_and_a_query_end_in_a_reply(scene):
    client = scene.client()
    equal(client.ok("send", type="Conf.Add", data={"a": 2, "b": 40}), {"sum": 42}, "the command")
    equal(client.ok("query", type="Conf.Echo", data=[1, "two"]), [1, "two"], "the query")
    equal(client.ok("query", type="Conf.Echo", data=None), None, "null")


@case(per_transport=True)
def tricky_data_passes_client_daemon_and_capability(scene):
    client = scene.client()
    for name, value in TRICKY.items():
        equal(client.ok("query", type="Conf.Echo", data=value), value, name)


@case(per_transport=True)
def data_that_does_not_fit_is_422(scene):
    client = scene.client()
    error = client.error("send", type="Conf.Add", data={"a": "two", "b": 40})
    equal((error["kind"], error["code"], error["type"], error["started"]), ("outcome", 422, "Sys.SchemaError", "no"), "the error")
    expect("data/a" in error["message"], f"the place is not told: {error}")
    expect(error["originalId"], "no id of the request")


@case(per_transport=True)
def what_nobody_handles_is_404(scene):
    error = scene.client().error("send", type="No.Such.Thing", data={})
    equal((error["kind"], error["code"], error["type"], error["started"]), ("outcome", 404, "Sys.RoutingError", "no"), "the error")


@case(per_transport=True)
def an_error_of_the_capability_has_its_code_words_and_type(scene):
    error = scene.client().error("query", type="Conf.Fail", data={"code": 418, "message": "a teapot ☕"})
    equal((error["kind"], error["code"], error["type"], error["message"]), ("outcome", 418, "Conf.Fail", "a teapot ☕"), "the error")
    equal(error.get("started"), None, "it does not say whether it had started")


@case()
def an_exception_in_the_capability_is_500(scene):
    client = scene.client()
    error = client.error("query", type="Conf.Throw", data={})
    equal((error["kind"], error["code"]), ("outcome", 500), "the error")
    equal(client.ok("query", type="Conf.Echo", data=7), 7, "the next request")


@case(per_transport=True)
def a_crash_is_502_and_the_capability_comes_back(scene):
    client = scene.client()
    before = client.ok("query", type="Conf.Status", data={})["pid"]
    error = client.error("send", type="Conf.Crash", data={})
    equal((error["kind"], error["code"], error["type"], error["started"]), ("outcome", 502, "Sys.ActorCrash", "yes"), "the error")
    after = client.ok("query", type="Conf.Status", data={})["pid"]
    expect(after != before, "it is the same process")


@case(per_transport=True)
def a_request_that_takes_too_long_is_504_by_the_daemons_word(scene):
    client = scene.client()
    error = client.error("send", type="Conf.Slow", data={"ms": 20_000}, timeout=300)
    equal((error["kind"], error["code"], error["type"], error["started"]), ("outcome", 504, "Sys.Timeout", "yes"), "the error")


@case()
def a_message_that_breaks_the_rules_is_refused_before_it_is_sent(scene):
    client = scene.client()
    for name in ("lower.case", "One", "", 'Quote"d.Type', "Two..Dots"):
        equal(client.error("send", type=name, data={})["kind"], "invalid", f"the type {name!r}")
    equal(client.error("send", type="Conf.Add", data={"a": 1, "b": 1}, timeout=0)["kind"], "invalid", "no time at all")
    equal(client.ok("query", type="Conf.Echo", data=7), 7, "the next request")


@case(per_transport=True)
def a_message_beyond_the_longest_line_is_413(scene):
    client = scene.client()
    small = client.start("send", type="Conf.Slow", data={"ms": 300})
    error = client.error("query", type="Conf.Echo", data="x" * (2 * 1024 * 1024))
    equal((error["kind"], error["code"]), ("outcome", 413), "the error")
    equal(client.finish(small).get("ok"), {"waited": 300}, "a small one that was under way")
    equal(client.ok("query", type="Conf.Echo", data=7), 7, "the next request")


@case()
def the_same_id_again_gets_the_same_answer_and_with_other_data_409(scene):
    client = scene.client()
    first = client.ok("send", type="Memory.Set", data={"key": "once", "value": 1}, id="an-id-of-mine")
    equal(first, {"created": True}, "the first time")
    again = client.ok("send", type="Memory.Set", data={"key": "once", "value": 1}, id="an-id-of-mine")
    equal(again, {"created": True}, "the same answer")
    error = client.error("send", type="Memory.Set", data={"key": "other", "value": 1}, id="an-id-of-mine")
    equal((error["kind"], error["code"], error["type"], error["originalId"]), ("outcome", 409, "Sys.ConflictError", "an-id-of-mine"), "other data")


@case()
def a_handler_is_told_id_type_workflow_and_time_left(scene):
    client = scene.client()
    told = client.ok("query", type="Conf.Context", data={}, id="my-id", correlation="workflow ä", timeout=20_000)
    equal((told["id"], told["kind"], told["type"], told["correlation"]), ("my-id", "query", "Conf.Context", "workflow ä"), "what it is told")
    expect(told["leftMs"] is not None and 0 < told["leftMs"] <= 20_000, f"the time left: {told['leftMs']}")
    told = client.ok("query", type="Conf.Context", data={})
    equal((told["correlation"], told["leftMs"]), (None, None), "without workflow and time")


@case()
def a_capability_asks_another_one(scene):
    client = scene.client()
    def ask(**members):
        return client.ok("send", type="Conf.Ask", data=members)
    equal(ask(kind="command", type="Memory.Set", data={"key": "k", "value": [1, 12345678901234567890]}), {"ok": {"created": True}}, "a command")
    equal(ask(kind="query", type="Memory.Get", data={"key": "k"}), {"ok": {"value": [1, 12345678901234567890]}}, "a query")
    error = ask(kind="query", type="Memory.Get", data={"key": "none"})["error"]
    equal((error["code"], error["type"]), (404, "Memory.Get"), "an error of the other one")
    error = ask(kind="query", type="No.Such", data={})["error"]
    equal((error["code"], error["type"], error["started"]), (404, "Sys.RoutingError", "no"), "an error of the daemon")
    error = ask(kind="command", type="Conf.Slow", data={"ms": 20_000}, timeout=300)["error"]
    equal((error["code"], error["type"], error["started"]), (504, "Sys.Timeout", "yes"), "a timeout")


@case()
def what_a_capability_prints_is_no_fault(scene):
    client = scene.client()
    before = client.ok("query", type="Conf.Status", data={})["pid"]
    equal(client.ok("send", type="Conf.Print", data={"text": "hello from print"}), {}, "the answer")
    equal(client.ok("query", type="Conf.Status", data={})["pid"], before, "the same process")
    wait_until(lambda: "hello from print" in scene.daemon.words(), "the text is in the daemon's log")
