"""A daemon under mixed load and random faults, with an account of every request.

`cargo xtask soak` runs it. What must hold:

- a request has one outcome, or its connection ended;
- `started: no` is never wrong, and no command is done twice (the ledger's file says who was started);
- what `Memory` was told is there afterwards, also after the daemon was killed, whether a client on the
  socket told it or a model by the bridge;
- each question of a page has an answer, or its connection ended;
- memory, descriptors and the journal do not grow.
"""

import argparse
import asyncio
import collections
import csv
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import uuid

from account import Account, percentiles
from clients import LOST_SECONDS, Client
from faults import Faults
from model import Model
from page import Page
from plot import plot

CLIENTS = 8
CONFIGURATION = """
[[listen]]
unix = "bus.sock"

[[listen]]
http = "127.0.0.1:{port}"
tokens = [{{ name = "web", token = "{token}", operator = true }}]

[journal]
folder = "{journal}"
keep = "1m"
keep_bytes = "128MiB"

[log]
level = "warn"

[[capability]]
id = "ledger"
description = "Writes down what it was given."
limits = {{ concurrency = 1 }}
restart = {{ max_restarts = 1000, backoff_ms = "50ms", backoff_max_ms = "200ms" }}
inbound = {{ oneOf = [
  {{ properties = {{ kind = {{ const = "command" }}, type = {{ const = "Ledger.Add" }}, data = {{ type = "object", properties = {{ ms = {{ type = "number", minimum = 0 }} }} }} }} }},
  {{ properties = {{ kind = {{ const = "event" }}, type = {{ const = "Soak.Happened" }} }} }},
] }}
program = {{ process = ["python3", "ledger.py"] }}

{guest}
"""
GUEST = """
[[capability]]
id = "guest"
description = "Says what it hears, in a sandbox."
limits = {{ concurrency = 8 }}
restart = {{ max_restarts = 1000, backoff_ms = "50ms", backoff_max_ms = "200ms" }}
inbound = {{ properties = {{ kind = {{ const = "query" }}, type = {{ const = "Echo.Say" }} }} }}
program = {{ wasm = "{path}" }}
"""


class Daemon:
    """The program, started again whenever it ended."""

    def __init__(self, program, folder):
        self.program, self.folder, self.process = program, folder, None
        self.starts = 0

    def start(self):
        log = open(self.folder / "daemon.log", "ab")
        self.process = subprocess.Popen(
            [self.program, "up", "--config", "mainspring.toml"], cwd=self.folder, stdout=log, stderr=log
        )
        self.starts += 1

    def ensure(self):
        if self.process.poll() is not None:
            self.start()

    def children(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        try:
            return [int(word) for word in pathlib.Path(path).read_text().split()]
        except OSError:
            return []


class Soak:
    def __init__(self, options, folder):
        self.options, self.folder, self.account = options, folder, Account()
        self.seed = options.seed
        self.random = random.Random(options.seed)
        self.socket = str(folder / "bus.sock")
        self.guest = options.guest is not None
        self.over = False
        self.samples = []
        self.token = uuid.uuid4().hex
        self.port = free_port()
        self.daemon = Daemon(options.program, folder)
        self.disk = None
        self.model_log = open(folder / "model.log", "ab")

    def prepare(self):
        journal = self.folder / "journal"
        disk = self.folder / "disk"
        disk.mkdir()
        # A disk of its own that can be filled; without the right to mount one there is no such
        # fault.
        mount = ["mount", "-t", "tmpfs", "-o", "size=512m,mode=0700", "tmpfs", str(disk)]
        if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode == 0:
            self.disk, journal = disk, disk / "journal"
        guest = GUEST.format(path=self.options.guest) if self.guest else ""
        text = CONFIGURATION.format(port=self.port, token=self.token, journal=journal, guest=guest)
        (self.folder / "mainspring.toml").write_text(text)
        shutil.copy(pathlib.Path(__file__).with_name("ledger.py"), self.folder / "ledger.py")
        self.journal = journal

    async def run(self):
        self.prepare()
        self.daemon.start()
        tasks = [asyncio.create_task(Client(number, self).run()) for number in range(CLIENTS)]
        page = Page(self)
        jobs = [page.stream, page.ask, self.idle_reader, self.sample, self.keep_up]
        if self.options.bridge:
            jobs.append(Model(self).run)
        if not self.options.no_faults:
            jobs.append(Faults(self).run)
        tasks += [asyncio.create_task(job()) for job in jobs]
        await asyncio.sleep(self.options.seconds)
        self.over = True
        done, late = await asyncio.wait(tasks, timeout=LOST_SECONDS + 10)
        for task in done:
            if task.exception():
                self.account.violation(f"the harness failed: {task.exception()!r}")
        if late:
            self.account.violation(f"{len(late)} tasks do not end")
        self.settle()

    async def keep_up(self):
        while not self.over:
            self.daemon.ensure()
            await asyncio.sleep(0.05)

    async def idle_reader(self):
        """A subscriber that does not read, and one event after another."""
        while not self.over:
            try:
                reader, writer = await asyncio.open_unix_connection(self.socket)
                line = {"kind": "command", "type": "Sys.Subscribe", "data": {"types": ["*"]}}
                line["metadata"] = {"id": uuid.uuid4().hex, "timestamp": 1}
                writer.write(json.dumps(line).encode() + b"\n")
                for _ in range(200):
                    event = {"kind": "event", "type": "Soak.Happened", "data": {"text": "x" * 500}}
                    event["metadata"] = {"id": uuid.uuid4().hex, "timestamp": 1}
                    writer.write(json.dumps(event).encode() + b"\n")
                    await writer.drain()
                    await asyncio.sleep(0.02)
                writer.close()
            except OSError:
                await asyncio.sleep(0.1)

    async def sample(self):
        begun = time.monotonic()
        while not self.over:
            await asyncio.sleep(1)
            latest, self.account.window = self.account.window, []
            row = {"seconds": round(time.monotonic() - begun, 1), "start": self.daemon.starts, "replies": len(latest)}
            row["p50_ms"], row["p99_ms"] = percentiles(latest)
            try:
                pid = self.daemon.process.pid
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                row["rss_mb"] = int(status.split("VmRSS:")[1].split()[0]) / 1024
                row["descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
            except (OSError, IndexError):
                continue
            row["journal_mb"] = folder_bytes(self.journal) / (1 << 20)
            self.samples.append(row)

    def settle(self):
        """The account after everything has ended."""
        if self.daemon.process.poll() is None:
            self.daemon.process.terminate()
            try:
                status = self.daemon.process.wait(60)
                if status != 0:
                    self.account.violation(f"the daemon ended with {status}")
            except subprocess.TimeoutExpired:
                self.account.violation("the daemon does not end")
                self.daemon.process.kill()
        if not self.account.outcomes["reply"]:
            self.account.violation("nothing was answered at all; daemon.log says why")
        ledger = self.folder / "ledger.txt"
        started = collections.Counter(ledger.read_text().split() if ledger.exists() else [])
        for identity, count in started.items():
            if count > 1:
                self.account.violation(f"{identity} was done {count} times")
            if identity in self.account.not_started:
                self.account.violation(f"{identity} was started, and its client was told that it was not")
        missing = [identity for identity in self.account.replied if identity not in started]
        if missing:
            self.account.violation(f"{len(missing)} commands were answered and not done, such as {missing[0]}")
        log = (self.folder / "daemon.log").read_text(errors="replace")
        if "panicked" in log:
            self.account.violation("the daemon panicked: " + log[log.index("panicked") :][:300])
        self.grown("rss_mb", 1.3, 24)
        self.grown("descriptors", 1.2, 16)

    def clean(self):
        """Leaves nothing behind, however this ended."""
        if self.daemon.process and self.daemon.process.poll() is None:
            self.daemon.process.kill()
            self.daemon.process.wait()
        if self.disk:
            subprocess.run(["umount", str(self.disk)], check=False)

    def grown(self, name, factor, slack):
        """The last quarter beside the second: what grows by more than that has a leak."""
        values = [row[name] for row in self.samples if name in row]
        quarter = len(values) // 4
        if quarter < 20:
            return
        early, late = statistics.median(values[quarter : 2 * quarter]), statistics.median(values[-quarter:])
        if late > early * factor + slack:
            self.account.violation(f"{name} grew from {early:.1f} to {late:.1f}")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def folder_bytes(folder):
    try:
        return sum(entry.stat().st_blocks * 512 for entry in os.scandir(folder))
    except OSError:
        return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--seconds", required=True, type=float)
    parser.add_argument("--guest")
    parser.add_argument("--bridge", action="store_true", help="a model among the clients: `mainspring mcp` is there")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=8)
    parser.add_argument("--no-faults", action="store_true")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    work = options.folder / "work"
    work.mkdir(parents=True)
    soak = Soak(options, work)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        asyncio.run(soak.run())
    finally:
        soak.clean()
    account = soak.account
    report = {
        "seconds": options.seconds,
        "sent": dict(account.sent),
        "outcomes": dict(account.outcomes.most_common()),
        "connections that ended before the outcome": account.unknown,
        "faults": dict(account.faults),
        "starts of the daemon": soak.daemon.starts,
        "latency_ms": dict(zip(("p50", "p99"), percentiles(account.latencies))),
        "violations": account.violations,
    }
    (options.folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    names = ["seconds", "start", "replies", "p50_ms", "p99_ms", "rss_mb", "descriptors", "journal_mb"]
    with open(options.folder / "samples.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(soak.samples)
    plot(soak.samples, options.folder / "soak.png")
    print(json.dumps(report, indent=2))
    return 1 if account.violations else 0


if __name__ == "__main__":
    sys.exit(main())
