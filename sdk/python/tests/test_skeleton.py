"""The skeleton of `mainspring new capability --lang python`: its manifest is up to date, its test passes, it runs."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import MAINSPRING

import mainspring

SKELETON = pathlib.Path(__file__).parent.parent / "skeleton"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    if not SKELETON.is_dir():
        pytest.skip("the source package has no skeleton")
    for name in ("main.py", "test_main.py", "capability.json"):
        text = (SKELETON / name).read_text().replace("{{name}}", "greeter").replace("{{Type}}", "Greeter")
        (tmp_path / name).write_text(text)
    return tmp_path


def python(folder: pathlib.Path, *arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_manifest_of_the_skeleton_is_what_its_program_writes(folder: pathlib.Path) -> None:
    python(folder, "-m", "mainspring", "manifest", "main:cap", "--python", "python3", "--check", "capability.json")


def test_the_test_of_the_skeleton_passes(folder: pathlib.Path) -> None:
    python(folder, "-m", "unittest", "-q")


def test_the_skeleton_runs(folder: pathlib.Path) -> None:
    if not MAINSPRING:
        pytest.skip("MAINSPRING does not name the daemon's program")
    # As `new` does: the package beside the program, for whatever Python there is.
    shutil.copytree(pathlib.Path(mainspring.__file__).parent, folder / "mainspring")
    (folder / "mainspring.toml").write_text('manifests = ["capability.json"]\n[[listen]]\nunix = "s"\n')
    assert json.loads((folder / "capability.json").read_text())["id"] == "greeter"
    running = subprocess.Popen([MAINSPRING, "up"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with mainspring.sync.connect(folder / "s", wait=20) as ms:
            assert ms.send("Greeter.Greet", {"name": "Ada"}) == {"text": "Hello, Ada!"}
            with pytest.raises(mainspring.CapabilityError, match="never greeted"):
                ms.query("Greeter.Times", {"name": "Bob"})
    finally:
        running.terminate()
        running.wait(20)
