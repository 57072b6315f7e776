"""Where the daemon is."""

from __future__ import annotations

import os
import pathlib

import pytest

from mainspring import BadAddress, TokenProblem
from mainspring._client import find
from mainspring._client.find import Address


@pytest.fixture(autouse=True)
def empty_place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    for name in ("MAINSPRING_TCP", "MAINSPRING_SOCKET", "MAINSPRING_TOKEN", "MAINSPRING_TOKEN_FILE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def secret(folder: pathlib.Path, mode: int = 0o600) -> str:
    path = folder / "token"
    path.write_text("the secret\n")
    path.chmod(mode)
    return str(path)


def test_the_order_is_argument_tcp_socket_file_default(
    empty_place: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/tmp")
    assert find.find().socket == find.default_socket()
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert find.find() == Address(socket="/run/user/7/mainspring/mainspring.sock")
    (empty_place / "mainspring.toml").write_text(
        '[[listen]]\ntcp = "127.0.0.1:7700"\ntokens = [{ name = "a", token = "0123456789abcdef" }]\n'
    )
    assert find.find() == Address(tcp="127.0.0.1:7700", token="0123456789abcdef")
    with (empty_place / "mainspring.toml").open("a") as file:
        file.write('[[listen]]\nunix = "app.sock"\n')
    assert find.find() == Address(socket="app.sock")
    monkeypatch.setenv("MAINSPRING_SOCKET", "/other.sock")
    assert find.find() == Address(socket="/other.sock")
    monkeypatch.setenv("MAINSPRING_TCP", "localhost:1")
    monkeypatch.setenv("MAINSPRING_TOKEN_FILE", secret(empty_place))
    assert find.find() == Address(tcp="localhost:1", token="the secret")
    monkeypatch.setenv("MAINSPRING_TOKEN", "another")
    assert find.find() == Address(tcp="localhost:1", token="another")
    assert find.find(tcp="localhost:2", token="given") == Address(tcp="localhost:2", token="given")
    assert find.find(socket="mine") == Address(socket="mine")


def test_a_faulty_file_does_not_lead_to_the_daemon_of_another(empty_place: pathlib.Path) -> None:
    for text in ("listen = 3", "[[listen", '[[listen]]\ntcp = "127.0.0.1:0"\n'):
        (empty_place / "mainspring.toml").write_text(text)
        with pytest.raises(BadAddress, match="mainspring.toml"):
            find.find()


def test_below_a_project_its_file_is_found_up_to_the_home_folder(
    empty_place: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_place / "mainspring.toml").write_text('[[listen]]\nunix = "app.sock"\n')
    below = empty_place / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    monkeypatch.setenv("HOME", "/nowhere")
    assert find.find() == Address(socket="../../app.sock")
    monkeypatch.setenv("HOME", str(empty_place))
    assert find.find() == Address(socket="../../app.sock")
    monkeypatch.setenv("HOME", str(empty_place / "a"))
    assert find.find().socket == find.default_socket()
    secret(empty_place)
    (empty_place / "mainspring.toml").write_text(
        '[[listen]]\ntcp = "127.0.0.1:7700"\ntokens = [{ name = "a", token_file = "token" }]\n'
    )
    monkeypatch.setenv("HOME", str(empty_place))
    assert find.find() == Address(tcp="127.0.0.1:7700", token="the secret")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
def test_the_file_of_another_user_above_this_folder_is_refused(
    empty_place: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = empty_place / "b"
    below.mkdir()
    (empty_place / "mainspring.toml").write_text('[[listen]]\nunix = "app.sock"\n')
    monkeypatch.chdir(below)
    monkeypatch.setenv("HOME", "/nowhere")
    for place in (empty_place / "mainspring.toml", empty_place):
        os.chown(place, 12345, -1)
        with pytest.raises(BadAddress, match="belongs to user 12345"):
            find.find()
        os.chown(place, 0, -1)
    assert find.find() == Address(socket="../app.sock")


def test_a_token_that_others_may_read_is_refused(empty_place: pathlib.Path) -> None:
    with pytest.raises(TokenProblem, match="chmod 600"):
        find.find(tcp="127.0.0.1:1", token_file=secret(empty_place, 0o644))
    with pytest.raises(TokenProblem, match="opens to a token"):
        find.find(tcp="127.0.0.1:1")
    with pytest.raises(TokenProblem, match="for TCP"):
        find.find(token="a")
    with pytest.raises(TokenProblem, match="no regular file"):
        find.find(tcp="127.0.0.1:1", token_file=os.devnull)


def test_a_token_is_not_shown() -> None:
    assert "secret" not in repr(Address(tcp="a:1", token="secret")) + str(Address(tcp="a:1", token="secret"))


@pytest.mark.parametrize("place", ["", "7700", "host:", ":1", "host:0", "host:99999", "host:x"])
def test_bad_places_are_refused(place: str) -> None:
    with pytest.raises(BadAddress, match="host and a port"):
        find.parse_place(place)


def test_a_token_does_not_leave_this_machine() -> None:
    with pytest.raises(BadAddress, match="ssh -L 7700"):
        find.check_loopback("x:7700", [(0, 0, 0, "", ("192.0.2.1", 7700))])
    find.check_loopback("x:7700", [(0, 0, 0, "", ("127.0.0.9", 7700)), (0, 0, 0, "", ("::1", 7700, 0, 0))])
