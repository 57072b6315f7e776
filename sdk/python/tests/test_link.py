"""The connection of the client without asyncio, against a daemon that does exactly what a test says."""

from __future__ import annotations

import json
import pathlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mainspring
from mainspring._client.blocking import link as link_module


class Peer:
    """The daemon's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.lines = connection.makefile("rb")

    def take(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.lines.readline())
        return message

    def say(self, *lines: bytes) -> None:
        self.connection.sendall(b"".join(lines))

    def end(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)


def line(kind: str, type_name: str, cause: str | None, data: Any) -> bytes:
    metadata = {"id": "d", "timestamp": 0, "causation": cause}
    return json.dumps({"kind": kind, "type": type_name, "data": data, "metadata": metadata}).encode() + b"\n"


def reply(request: dict[str, Any], data: Any) -> bytes:
    return line("reply", request["type"], request["metadata"]["id"], data)


Play = Callable[..., mainspring.sync.Client]


@pytest.fixture
def play(tmp_path: pathlib.Path) -> Iterator[Play]:
    """Starts a daemon that plays one part for each connection, and a client of it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    failed: list[BaseException] = []
    ends: list[Callable[[], object]] = [listener.close]

    def start(*parts: Callable[[Peer], object], **options: Any) -> mainspring.sync.Client:
        def run() -> None:
            try:
                for part in parts:
                    connection, _ = listener.accept()
                    ends.append(connection.close)
                    part(Peer(connection))
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        client = mainspring.sync.connect(tmp_path / "s", **options)
        ends.extend([lambda: thread.join(10), client.close])
        return client

    yield start
    for end in reversed(ends):
        end()
    assert not failed


def test_a_reply_may_come_in_pieces(play: Play) -> None:
    def part(peer: Peer) -> None:
        text = reply(peer.take(), "whole")
        for piece in (text[:1], text[1:40], text[40:-1], text[-1:]):
            time.sleep(0.01)
            peer.say(piece)

    assert play(part).query("App.Ask") == "whole"


def test_what_comes_before_and_behind_a_reply_is_not_lost(play: Play) -> None:
    strays: list[mainspring.Message] = []
    seen: list[Any] = []

    def part(peer: Peer) -> None:
        peer.say(reply(peer.take(), {}))
        asked = peer.take()
        id = asked["metadata"]["id"]
        told = line("event", "App.Told", None, 1), line("event", "App.Ask.Progress", id, 0.5)
        peer.say(line("reply", "App.Other", "t", 7), *told, reply(asked, 2), line("event", "App.Told", None, 3))

    ms = play(part, on_other=strays.append)
    with ms.watch("App.Told") as watch:
        assert ms.query("App.Ask", on_progress=seen.append) == 2
        assert [watch.next(5).data, watch.next(5).data] == [1, 3]
    assert seen == [0.5] and [stray.data for stray in strays] == [7]


def test_a_request_whose_connection_is_lost_is_repeated_byte_for_byte(play: Play) -> None:
    seen: list[dict[str, Any]] = []

    def lose(peer: Peer) -> None:
        seen.append(peer.take())
        peer.say(reply(seen[0], "half")[:-1])
        peer.end()

    def answer(peer: Peer) -> None:
        seen.append(peer.take())
        peer.say(reply(seen[1], "done"))

    assert play(lose, answer).send("App.Do", {"n": 1}) == "done"
    assert seen[0] == seen[1]


def test_a_request_that_is_not_to_be_repeated_ends_with_its_connection(play: Play) -> None:
    def lose(peer: Peer) -> None:
        peer.take()
        peer.end()

    with pytest.raises(mainspring.ConnectionLost):
        play(lose).send("App.Do", repeat=False)


def test_ctrl_c_cancels_a_request_and_the_next_gets_its_own_answer(play: Play) -> None:
    def part(peer: Peer) -> None:
        asked = peer.take()
        time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        cancel = peer.take()
        assert (cancel["type"], cancel["data"]) == ("Syscall.Cancel", {"id": asked["metadata"]["id"]})
        peer.say(reply(asked, "too late"), reply(cancel, {}), reply(peer.take(), "next"))

    ms = play(part)
    # Whoever runs the tests in the background has had this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            ms.query("App.Ask")
    finally:
        signal.signal(signal.SIGINT, before)
    assert ms.query("App.Ask") == "next"


def test_an_exception_while_a_line_is_written_cancels_the_request(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    def part(peer: Peer) -> None:
        while (asked := peer.take())["data"] != "next":
            pass
        peer.say(reply(asked, "next"))

    ms = play(part)
    with monkeypatch.context() as patch:
        patch.setattr(link_module.Link, "_send_some", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            ms.query("App.Ask")
    assert not ms._link.lock.locked() and ms.query("App.Ask", "next") == "next"


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_whoever_reads_hands_out_what_is_for_others(play: Play) -> None:
    """The second thread's answer comes first, and is read by the first thread."""

    def part(peer: Peer) -> None:
        first, second = peer.take(), peer.take()
        peer.say(reply(second, second["data"]))
        time.sleep(0.1)
        assert answers == ["b"]
        peer.say(reply(first, first["data"]))

    answers: list[Any] = []
    ms = play(part)
    threads = [threading.Thread(target=lambda data=data: answers.append(ms.query("App.Ask", data))) for data in "ab"]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join(10)
    assert answers == ["b", "a"]


def test_when_the_reader_has_its_answer_another_thread_goes_on(play: Play) -> None:
    def part(peer: Peer) -> None:
        asked = [peer.take() for _ in range(3)]
        for request in asked:
            time.sleep(0.02)
            peer.say(reply(request, request["data"]))

    answers: list[Any] = []
    ms = play(part)
    threads = [threading.Thread(target=lambda data=data: answers.append(ms.query("App.Ask", data))) for data in "abc"]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join(10)
    assert answers == ["a", "b", "c"]


def test_a_line_that_the_daemon_takes_slowly_is_written_to_its_end(play: Play) -> None:
    def part(peer: Peer) -> None:
        time.sleep(0.1)
        asked = peer.take()
        peer.say(reply(asked, len(asked["data"])))

    assert play(part).query("App.Ask", "x" * (4 << 20)) == 4 << 20


def test_closing_ends_a_request_of_another_thread(play: Play) -> None:
    ms = play(lambda peer: (peer.take(), peer.lines.readline()))
    threading.Timer(0.1, ms.close).start()
    with pytest.raises(mainspring.ClientClosed):
        ms.query("App.Ask")
    with pytest.raises(mainspring.ClientClosed):
        ms.query("App.Ask")


def test_a_connection_that_ended_meanwhile_is_noticed_before_anything_is_written(play: Play) -> None:
    def answer(peer: Peer) -> None:
        peer.say(reply(peer.take(), 1))

    def lose(peer: Peer) -> None:
        answer(peer)
        peer.end()

    ms = play(lose, answer)
    assert ms.send("App.Do", repeat=False) == 1
    time.sleep(0.1)
    assert ms.send("App.Do", repeat=False) == 1
