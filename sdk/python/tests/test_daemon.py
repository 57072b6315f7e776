"""Capabilities and both clients with the real daemon. The conformance suite has more of these."""

from __future__ import annotations

import asyncio
import json
import pathlib
import subprocess
import threading
import time
from typing import Any

import pytest
from conftest import MAINSPRING, Daemon

import mainspring

NOTES = """
    from __future__ import annotations
    import time
    from dataclasses import dataclass
    from typing import Annotated, Any
    from mainspring import Capability, CapabilityError, Field, SyncContext

    cap = Capability("notes", "Keeps notes.", asks={"Memory.Set": "command"})

    @dataclass
    class Note:
        text: str
        children: list[Note]

    cap.event("Notes.Added", Note)

    @cap.command("Notes.Add")
    def add(note: Note, ctx: SyncContext) -> Note:
        "Keeps a note."
        ctx.ask("Memory.Set", {"key": note.text, "value": 1})
        ctx.emit("Notes.Added", note)
        return note

    @cap.query("Notes.Echo")
    def echo(data: Any) -> Any:
        return data

    @cap.query("Notes.Slow")
    def slow(seconds: float) -> str:
        time.sleep(seconds)
        return "done"
"""


@pytest.fixture
def notes(daemon: Daemon) -> Daemon:
    daemon.add("notes", NOTES, "notes:cap")
    daemon.start()
    return daemon


def test_the_daemon_takes_a_manifest_with_definitions_and_enforces_it(notes: Daemon) -> None:
    check = subprocess.run([MAINSPRING, "check"], cwd=notes.folder, capture_output=True, text=True)
    assert check.returncode == 0, check.stderr
    with mainspring.sync.connect(notes.socket, wait=20) as ms, ms.watch("Notes.*") as watch:
        note = {"text": "a", "children": [{"text": "b", "children": []}]}
        assert ms.send("Notes.Add", {"note": note}) == note
        assert watch.next(10).data == note
        assert ms.query("Memory.Get", {"key": "a"})["value"] == 1
        with pytest.raises(mainspring.SchemaError, match="children"):
            ms.send("Notes.Add", {"note": {"text": "a", "children": [{"text": "b"}]}})
        described = ms.query("Syscall.Describe", {"type": "Notes.Add"})["handlers"][0]
        assert described["input"]["properties"]["note"] and described["output"]


@pytest.mark.parametrize(
    "value",
    [2**70, 1e300, "\U0001f600", [None, {"": []}], "x" * 500_000],
    ids=["big", "float", "emoji", "nested", "long"],
)
def test_values_pass_both_ways_unchanged(notes: Daemon, value: Any) -> None:
    async def ask() -> Any:
        async with mainspring.connect(notes.socket, wait=20) as ms:
            return await ms.query("Notes.Echo", value)

    with mainspring.sync.connect(notes.socket, wait=20) as ms:
        assert ms.query("Notes.Echo", value) == value
    assert asyncio.run(ask()) == value


def test_half_a_surrogate_pair_harms_nobody(notes: Daemon) -> None:
    with mainspring.sync.connect(notes.socket, wait=20) as ms:
        assert ms.query("Syscall.Ping", {"a\udc00": "\ud800"}) == {"a\udc00": "\ud800"}
        # A daemon that has to look into the data for its schema does not take it, and says so.
        with pytest.raises(mainspring.SchemaError):
            ms.query("Notes.Echo", "\ud800")
        assert ms.query("Notes.Echo", 1) == 1


def test_threads_share_a_client_and_each_gets_its_own_answers(notes: Daemon) -> None:
    wrong: list[Any] = []
    with mainspring.sync.connect(notes.socket, wait=20) as ms:

        def work(name: int) -> None:
            for number in range(50):
                expected = [name, number]
                found = ms.query("Notes.Echo", expected)
                if found != expected:
                    wrong.append(found)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not wrong


def test_a_request_that_was_started_is_waited_for_and_cancelled_by_hand(notes: Daemon) -> None:
    with mainspring.sync.connect(notes.socket, wait=20) as ms:
        request = ms.start("query", "Notes.Slow", {"seconds": 0.3})
        with pytest.raises(TimeoutError):
            request.result(timeout=0.01)
        assert ms.query("Syscall.Ping", 1) == 1
        assert request.result() == "done"
        other = ms.start("query", "Notes.Slow", {"seconds": 0.3})
        other.cancel()
        with pytest.raises(mainspring.Cancelled):
            other.result()


def test_a_timeout_is_the_daemons_word(notes: Daemon) -> None:
    with mainspring.sync.connect(notes.socket, wait=20) as ms, pytest.raises(mainspring.RequestTimeout) as caught:
        ms.query("Notes.Slow", {"seconds": 1}, timeout=0.05)
    assert caught.value.started == "yes"


def test_after_a_restart_of_the_daemon_both_clients_go_on_and_watches_tell_the_gap(notes: Daemon) -> None:
    gaps: list[mainspring.Gap] = []
    with mainspring.sync.connect(notes.socket, wait=20) as ms, ms.watch("Notes.*", on_gap=gaps.append) as watch:
        notes.kill()
        timer = threading.Timer(0.3, notes.start)
        timer.start()
        assert ms.query("Notes.Echo", 1) == 1
        timer.join()
        ms.send("Notes.Add", {"note": {"text": "a", "children": []}})
        assert watch.next(10).type == "Notes.Added"
        assert [gap.reason for gap in gaps] == ["reconnected"]


def test_a_watch_that_waits_comes_back_by_itself(notes: Daemon) -> None:
    async def main() -> str:
        gaps: list[mainspring.Gap] = []
        async with mainspring.connect(notes.socket, wait=20) as ms:
            async with ms.watch("Notes.*", on_gap=gaps.append) as watch:
                notes.kill()
                notes.start()
                waiting = asyncio.ensure_future(watch.__anext__())
                while not gaps:
                    await asyncio.sleep(0.01)
                await ms.send("Notes.Add", {"note": {"text": "a", "children": []}})
                return (await asyncio.wait_for(waiting, 20)).type

    assert asyncio.run(asyncio.wait_for(main(), 60)) == "Notes.Added"


def test_without_a_daemon_the_error_says_what_to_do(tmp_path: pathlib.Path) -> None:
    with pytest.raises(mainspring.NoDaemon, match="mainspring up"):
        mainspring.sync.connect(tmp_path / "nothing", wait=0)

    async def main() -> None:
        await mainspring.connect(tmp_path / "nothing", wait=0)

    with pytest.raises(mainspring.NoDaemon, match="mainspring up"):
        asyncio.run(main())
    with pytest.raises(mainspring.BadAddress, match="107"):
        mainspring.sync.connect("x" * 200, wait=0)


def test_closing_wakes_other_threads(notes: Daemon) -> None:
    ms = mainspring.sync.connect(notes.socket, wait=20)
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            ms.query("Notes.Slow", {"seconds": 5})
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    ms.close()
    thread.join(3)
    assert not thread.is_alive() and isinstance(failed[0], mainspring.ClientClosed)
    with pytest.raises(mainspring.ClientClosed):
        ms.query("Syscall.Ping")


def test_a_flood_of_requests_waits_and_loses_nothing(notes: Daemon) -> None:
    async def main() -> int:
        async with mainspring.connect(notes.socket, wait=20) as ms:
            answers = await asyncio.gather(*(ms.query("Syscall.Ping", number) for number in range(6000)))
            return sum(number == answer for number, answer in enumerate(answers))

    assert asyncio.run(main()) == 6000


def test_64_mib_go_through_a_plain_client_and_come_back(notes: Daemon) -> None:
    blob = "x" * (1 << 19)
    with mainspring.sync.connect(notes.socket, wait=20) as ms:
        requests = []
        for _ in range(128):
            requests.append(ms.start("query", "Syscall.Ping", blob))
            if len(requests) > 8:
                assert requests.pop(0).result() == blob
        assert all(request.result() == blob for request in requests)


def test_events_that_come_faster_than_they_are_read_are_dropped_and_told(notes: Daemon) -> None:
    gaps: list[mainspring.Gap] = []
    with mainspring.sync.connect(notes.socket, wait=20) as ms, ms.watch("App.*", limit=10, on_gap=gaps.append) as watch:
        for number in range(50):
            ms.emit("App.Told", number)
        assert watch.next(10).data == 40
    assert gaps == [mainspring.Gap("buffer", 40)]


def test_the_daemon_logs_what_a_handler_prints(daemon: Daemon) -> None:
    source = 'from mainspring import Capability\ncap = Capability("p", "P.")\n@cap.query("P.Say")\ndef say() -> int:\n    print("words for the log")\n    return 1\n'
    daemon.add("p", source, "p:cap")
    daemon.start()
    with mainspring.sync.connect(daemon.socket, wait=20) as ms:
        assert ms.query("P.Say") == 1
    for _ in range(100):
        if "words for the log" in daemon.log:
            break
        time.sleep(0.05)
    assert "words for the log" in daemon.log
    assert json.loads((daemon.folder / "p.json").read_text())["id"] == "p"
