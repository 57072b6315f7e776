"""The README: its files are written, its commands are typed, its programs are run."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

import pytest
from conftest import MAINSPRING

README = pathlib.Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"(?:File `([^`]+)`:\n\n)?```(\w+)\n(.*?)```", re.S)


class Reader:
    """Somebody who types what the README says."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.daemon: subprocess.Popen[bytes] | None = None
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "mainspring").symlink_to(os.path.abspath(MAINSPRING))
        (bin_folder / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        (bin_folder / "python3").symlink_to("python")
        (bin_folder / "python").chmod(0o755)
        self.env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
        for name in ("MAINSPRING_SOCKET", "MAINSPRING_TCP"):
            self.env.pop(name, None)

    def type(self, command: str) -> str:
        if command.endswith(" &"):
            words = shlex.split(command[:-2])
            log = (self.folder / "log").open("wb")
            self.daemon = subprocess.Popen(words, cwd=self.folder, env=self.env, stdout=log, stderr=log)
            while not (self.folder / "app.sock").exists():
                assert self.daemon.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.02)
            return ""
        done = subprocess.run(["sh", "-c", command], cwd=self.folder, env=self.env, capture_output=True, text=True)
        if "pytest" in command:
            assert done.returncode == 0, done.stdout
            return ""
        return done.stdout + done.stderr

    def console(self, text: str) -> None:
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            command, _, expected = part.partition("\n")
            assert self.type(command) == expected, command

    def python(self, source: str) -> None:
        command = [sys.executable, "-c", source]
        done = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


def test_the_readme_does_what_it_says(tmp_path: pathlib.Path) -> None:
    if not MAINSPRING:
        pytest.skip("MAINSPRING does not name the daemon's program")
    reader = Reader(tmp_path)
    try:
        for name, language, text in BLOCK.findall(README.read_text()):
            if name:
                (tmp_path / name).write_text(text)
            elif language == "console":
                reader.console(text)
            elif language == "python":
                reader.python(text)
    finally:
        if reader.daemon is not None:
            reader.daemon.terminate()
            reader.daemon.wait(20)
