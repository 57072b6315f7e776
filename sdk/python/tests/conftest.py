"""What several tests share: the daemon's program, and programs in a folder of their own."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

#: The daemon's program; tests that need one are skipped without it.
MAINSPRING = os.environ.get("MAINSPRING", "")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--package", help="the folder of the built package")


class Program:
    """A capability as a child process, spoken to as the daemon does."""

    def __init__(self, folder: pathlib.Path, source: str) -> None:
        path = folder / "program.py"
        path.write_text(textwrap.dedent(source))
        self.process = subprocess.Popen(
            [sys.executable, str(path)],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.number = 0

    def give(self, kind: str, type_name: str, data: Any = None, **metadata: Any) -> str:
        self.number += 1
        members = {"id": f"m{self.number}", "timestamp": int(time.time() * 1000), **metadata}
        message = {"kind": kind, "type": type_name, "data": data, "metadata": members}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return str(members["id"])

    def take(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the program has ended"
        message: dict[str, Any] = json.loads(line)
        return message

    def end(self) -> tuple[int, str, str]:
        """Ends its input; its exit code, what else it said, and its standard error."""
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out.decode(), err.decode()


@pytest.fixture
def program(tmp_path: pathlib.Path) -> Iterator[Callable[[str], Program]]:
    with contextlib.ExitStack() as stack:

        def start(source: str) -> Program:
            made = Program(tmp_path, source)
            stack.callback(_stop, made.process)
            return made

        yield start


class Daemon:
    """A real daemon in a folder of its own."""

    def __init__(self, folder: pathlib.Path, tcp: bool = False) -> None:
        self.folder = folder
        self.socket = str(folder / "s")
        self.token = "a token of the tests"
        self._tcp = tcp
        self.process: subprocess.Popen[bytes] | None = None

    def add(self, name: str, source: str, place: str) -> None:
        """Adds a capability with the manifest that its program writes."""
        (self.folder / f"{name}.py").write_text(textwrap.dedent(source))
        command = [
            sys.executable,
            "-m",
            "mainspring",
            "manifest",
            place,
            "--out",
            f"{name}.json",
            "--python",
            sys.executable,
        ]
        subprocess.run(command, cwd=self.folder, check=True)

    def start(self) -> None:
        config = f'manifests = ["*.json"]\n[[listen]]\nunix = "{self.socket}"\n'
        (self.folder / "mainspring.toml").write_text(config)
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen([MAINSPRING, "up"], cwd=self.folder, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


@pytest.fixture
def daemon(tmp_path: pathlib.Path) -> Iterator[Daemon]:
    if not MAINSPRING:
        pytest.skip("MAINSPRING does not name the daemon's program")
    made = Daemon(tmp_path)
    yield made
    if made.process is not None:
        _stop(made.process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
