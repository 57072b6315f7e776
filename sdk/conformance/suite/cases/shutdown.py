"""The end of the daemon, and what clients and capabilities make of it."""

import os
import signal
import time

from ..programs import equal, expect, wait_until
from .register import case


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@case(per_transport=True)
def a_shutdown_answers_what_is_under_way_and_ends_the_capability(scene):
    client = scene.client(reconnect=False)
    pid = client.ok("query", type="Conf.Status", data={})["pid"]
    slow = client.start("send", type="Conf.Slow", data={"ms": 1000})
    equal(client.ok("query", type="Conf.Echo", data=1), 1, "the slow one is under way")
    scene.daemon.signal(signal.SIGTERM)
    equal(client.finish(slow).get("ok"), {"waited": 1000}, "what was under way")
    equal(scene.daemon.process.wait(20), 0, "the daemon's exit code")
    wait_until(lambda: not is_alive(pid), "the capability has ended", 10)
    expect("grace" not in scene.daemon.words().lower(), "it had to be told twice")


@case()
def a_capability_ends_by_itself_before_its_grace_is_over(scene):
    client = scene.client(reconnect=False)
    client.ok("query", type="Conf.Status", data={})
    start = time.monotonic()
    scene.daemon.signal(signal.SIGTERM)
    equal(scene.daemon.process.wait(20), 0, "the daemon's exit code")
    expect(time.monotonic() - start < 4, "it waited for the capability")


@case()
def after_a_shutdown_requests_are_refused_or_closed(scene):
    client = scene.client(reconnect=False)
    client.ok("query", type="Conf.Echo", data=1)
    scene.daemon.signal(signal.SIGTERM)
    scene.daemon.process.wait(20)
    error = client.error("query", type="Conf.Echo", data=1)
    expect(error["kind"] == "closed" or (error["kind"], error["code"]) == ("outcome", 503), f"the error: {error}")
    # Written before the end of the connection was seen, nobody knows.
    expect(error.get("started") in ("no", None), f"it has not started: {error}")


@case()
def a_capability_dies_with_a_daemon_that_is_killed(scene):
    client = scene.client(reconnect=False)
    pid = client.ok("query", type="Conf.Status", data={})["pid"]
    expect(pid != os.getpid() and is_alive(pid), "it runs")
    scene.daemon.kill()
    wait_until(lambda: not is_alive(pid), "it has ended", 20)
