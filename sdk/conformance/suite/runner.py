"""Runs cases, and tells how each went."""

import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable

from .programs import TOKEN, Bare, Client, Daemon, Failed, Program, Proxy, expect


@dataclass
class Case:
    """Something that holds for every SDK."""

    name: str
    run: Callable
    per_transport: bool = False


@dataclass
class Programs:
    """What is tested: the daemon, and the two programs of an SDK."""

    name: str
    daemon: str
    capability: list[str]
    client: list[str]


def require_capability(programs: Programs) -> None:
    """Makes sure that the capability runs at all: without it every case would fail for the same reason."""
    folder = tempfile.mkdtemp(prefix="ms-")
    try:
        daemon = Daemon(programs.daemon, programs.capability, folder)
        try:
            with daemon.raw() as raw:
                answer = raw.ask("query", "Conf.Echo", "here", timeout=20_000)
            expect(answer["data"] == "here", f"the capability does not run: {answer['data']}\n{daemon.words()}")
        finally:
            daemon.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Scene:
    """What a case works with. Everything that it starts ends with it."""

    def __init__(self, programs: Programs, transport: str, folder: str):
        self.programs, self.transport, self.folder = programs, transport, folder
        self.things: list = []
        self.the_daemon: Daemon | None = None

    def keep(self, thing):
        self.things.append(thing)
        return thing

    @property
    def daemon(self) -> Daemon:
        if self.the_daemon is None:
            self.the_daemon = self.keep(Daemon(self.programs.daemon, self.programs.capability, self.folder))
        return self.the_daemon

    def bare(self) -> Bare:
        return self.keep(Bare(self.programs.capability, self.folder))

    def start(self, command: list[str]) -> Program:
        return self.keep(Program(command, self.folder))

    def client(self, connect: bool = True, environment: dict | None = None, folder: str | None = None, **members) -> Client:
        """A client that is connected by its environment, unless it is told otherwise."""
        if environment is None:
            if self.transport == "unix":
                environment = {"MAINSPRING_SOCKET": self.daemon.socket}
            else:
                environment = {"MAINSPRING_TCP": f"127.0.0.1:{self.daemon.port}", "MAINSPRING_TOKEN": TOKEN}
        client = self.keep(Client(self.programs.client, folder or self.folder, environment))
        if connect:
            client.ok("connect", **members)
        return client

    def proxy(self) -> Proxy:
        return self.keep(Proxy(os.path.join(self.folder, "proxy.sock"), self.daemon.socket))

    def check(self, manifest: dict) -> subprocess.CompletedProcess:
        """What `mainspring check` says about a manifest."""
        folder = tempfile.mkdtemp(prefix="check-", dir=self.folder)
        with open(os.path.join(folder, "capability.json"), "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        with open(os.path.join(folder, "mainspring.toml"), "w", encoding="utf-8") as file:
            file.write('manifests = ["capability.json"]\n')
        return subprocess.run([self.programs.daemon, "check"], cwd=folder, capture_output=True, text=True, check=False)

    def end(self) -> None:
        for thing in reversed(self.things):
            thing.stop()


class Runner:
    def __init__(self, programs: Programs, transports: list[str], keep: bool, jobs: int):
        self.programs, self.transports, self.keep, self.jobs = programs, transports, keep, jobs
        self.passed = self.failed = 0
        self.printing = threading.Lock()

    def run(self, cases: list[Case]) -> int:
        try:
            require_capability(self.programs)
        except Failed as failure:
            print(f"FAIL {self.programs.name}: {failure}\n0 passed, 1 failed, 0 skipped", flush=True)
            return 1
        start = time.monotonic()
        chosen = []
        for case in cases:
            chosen += [(case, transport) for transport in (self.transports if case.per_transport else self.transports[:1])]
        # Most of the time a case waits for a process or for time to pass.
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(lambda pair: self.one(*pair), chosen))
        print(f"{self.programs.name}: conformance in {time.monotonic() - start:.0f} s")
        print(f"{self.passed} passed, {self.failed} failed, 0 skipped", flush=True)
        return 1 if self.failed else 0

    def one(self, case: Case, transport: str) -> None:
        name = f"{self.programs.name}: {case.name}" + (f" [{transport}]" if case.per_transport else "")
        # A short path: that of a socket has at most 107 bytes.
        folder = tempfile.mkdtemp(prefix="ms-")
        scene = Scene(self.programs, transport, folder)
        start, problem = time.monotonic(), None
        try:
            case.run(scene)
        except Failed as failure:
            problem = str(failure)
        except Exception:  # pylint: disable=broad-except
            problem = traceback.format_exc()
        words = scene.the_daemon.words() if problem and scene.the_daemon else ""
        scene.end()
        took = time.monotonic() - start
        with self.printing:
            self.tell(name, took, problem, words)
            if self.keep:
                print(f"     kept: {folder}")
        if not self.keep:
            shutil.rmtree(folder, ignore_errors=True)

    def tell(self, name: str, took: float, problem: str | None, words: str) -> None:
        if problem is None:
            self.passed += 1
            print(f"ok   {name} ({took:.1f} s)", flush=True)
            return
        self.failed += 1
        print(f"FAIL {name} ({took:.1f} s)\n     {problem}", flush=True)
        if words:
            print("     the daemon's log:\n" + "\n".join(f"     | {line}" for line in words.splitlines()[-15:]), flush=True)
