"""A daemon under mixed load and random faults, with an account of every request.

`cargo xtask soak` runs it. What must hold:

- a request has one outcome, or its connection ended;
- `started: no` is never wrong, and no command is done twice (the ledger's file says who was started);
- what `Memory` was told is there afterwards, also after the daemon was killed;
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
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
import uuid

CLIENTS = 8
# A request without an outcome for this long is lost: its own deadline is far shorter.
LOST_SECONDS = 60
TIMEOUT_MS = 5000
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


class Account:
    """What was sent, what came back, and what must not be."""

    def __init__(self):
        self.sent = collections.Counter()
        self.outcomes = collections.Counter()
        self.unknown = 0
        self.violations = []
        # Those of the last second, and some of all.
        self.window, self.latencies = [], []
        self.not_started = set()
        self.replied = set()
        self.faults = collections.Counter()

    def took(self, seconds):
        self.window.append(seconds)
        if len(self.latencies) < 100_000:
            self.latencies.append(seconds)
        else:
            self.latencies[random.randrange(100_000)] = seconds

    def violation(self, text):
        self.violations.append(text)
        print("VIOLATION:", text, flush=True)


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


class Connection:
    """A connection on which requests wait for their outcomes."""

    def __init__(self, path, account):
        self.path, self.account, self.pending = path, account, {}
        self.writer = None

    async def open(self):
        reader, self.writer = await asyncio.open_unix_connection(self.path, limit=4 << 20)
        self.task = asyncio.create_task(self.read(reader))

    async def read(self, reader):
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if message["kind"] not in ("reply", "error"):
                    continue
                cause = message["metadata"].get("causation")
                if cause == "connection":
                    self.account.outcomes["connection refused"] += 1
                    break
                future = self.pending.pop(cause, None)
                if future is None:
                    self.account.violation(f"an outcome that nobody waits for: {line[:300]}")
                elif not future.done():
                    future.set_result(message)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass
        for future in self.pending.values():
            if not future.done():
                future.set_result(None)
        self.pending.clear()
        self.writer.close()
        self.writer = None

    async def request(self, kind, type_name, data, identity=None, timeout=TIMEOUT_MS):
        """The outcome; nothing if the connection ended before."""
        identity = identity or uuid.uuid4().hex
        metadata = {"id": identity, "timestamp": int(time.time() * 1000), "timeout": timeout}
        message = {"kind": kind, "type": type_name, "data": data, "metadata": metadata}
        future = asyncio.get_running_loop().create_future()
        if self.writer is None:
            return None
        self.pending[identity] = future
        begun = time.monotonic()
        self.account.sent[type_name] += 1
        try:
            self.writer.write(json.dumps(message).encode() + b"\n")
            outcome = await asyncio.wait_for(future, LOST_SECONDS)
        except (OSError, ConnectionError):
            outcome = None
        except TimeoutError:
            self.pending.pop(identity, None)
            self.account.violation(f"no outcome of {type_name} {identity} in {LOST_SECONDS} s")
            outcome = None
        if outcome is None:
            self.account.unknown += 1
            return None
        if outcome["kind"] == "reply":
            self.account.outcomes["reply"] += 1
            self.account.took(time.monotonic() - begun)
        else:
            error = outcome["data"]
            self.account.outcomes[f"{outcome['type']} {error.get('code')} started: {error.get('started')}"] += 1
        return outcome


class Client:
    """One client: asks at random, and knows what it was told."""

    def __init__(self, number, soak):
        self.number, self.soak, self.account = number, soak, soak.account
        self.values = {}
        self.random = random.Random(soak.seed * 1000 + number)

    async def run(self):
        while not self.soak.over:
            connection = Connection(self.soak.socket, self.account)
            try:
                await connection.open()
            except OSError:
                await asyncio.sleep(0.05)
                continue
            while not self.soak.over and connection.writer is not None:
                await self.step(connection)
                if self.random.random() < 0.01:
                    break
            if connection.writer is not None:
                connection.writer.close()
                await connection.task

    async def step(self, connection):
        pick = self.random.random()
        if pick < 0.35:
            await self.remember(connection)
        elif pick < 0.60:
            await self.add(connection)
        elif pick < 0.85 and self.soak.guest:
            outcome = await connection.request("query", "Echo.Say", {"text": "x" * self.random.randrange(2000)})
            if outcome and outcome["kind"] == "reply" and outcome["data"] is None:
                self.account.violation("the guest said nothing")
        elif pick < 0.92:
            await self.nonsense(connection)
        else:
            await asyncio.sleep(self.random.random() * 0.02)

    async def remember(self, connection):
        """Sets a key of its own, and reads it: what was confirmed is there."""
        key = f"{self.number}-{self.random.randrange(50)}"
        allowed = self.values.setdefault(key, {None})
        if self.random.random() < 0.5:
            value = uuid.uuid4().hex
            outcome = await connection.request("command", "Memory.Set", {"key": key, "value": value})
            if outcome and outcome["kind"] == "reply":
                self.values[key] = {value}
            elif not (outcome and outcome["data"].get("started") == "no"):
                allowed.add(value)
            return
        outcome = await connection.request("query", "Memory.Get", {"key": key})
        if outcome is None:
            return
        if outcome["kind"] == "reply":
            value = outcome["data"].get("value")
        elif outcome["data"].get("code") == 404:
            value = None
        else:
            return
        if value not in allowed:
            self.account.violation(f"Memory has {value} for {key}, and not one of {allowed}")
        else:
            self.values[key] = {value}

    async def add(self, connection):
        """A durable command at a process, sent again under the same id if nothing was heard of it."""
        identity, data = uuid.uuid4().hex, {"ms": self.random.choice([0, 0, 0, 1, 5, 30])}
        timeout = 20 if self.random.random() < 0.05 else TIMEOUT_MS
        outcome = await connection.request("command", "Ledger.Add", data, identity, timeout)
        if outcome is None:
            return
        if outcome["kind"] == "reply":
            self.account.replied.add(identity)
        elif outcome["data"].get("started") == "no":
            self.account.not_started.add(identity)

    async def nonsense(self, connection):
        """What must be refused."""
        data, code = self.random.choice([({"ms": -1}, 422), ({"ms": "soon"}, 422)])
        outcome = await connection.request("command", "Ledger.Add", data)
        if outcome and (outcome["kind"] != "error" or outcome["data"].get("code") not in (code, 503)):
            self.account.violation(f"nonsense was not refused: {json.dumps(outcome)[:300]}")


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

    def prepare(self):
        journal = self.folder / "journal"
        disk = self.folder / "disk"
        disk.mkdir()
        # A disk of its own that can be filled; without the right to mount one there is no such fault.
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
        tasks += [asyncio.create_task(job()) for job in (self.browse, self.idle_reader, self.sample, self.keep_up)]
        if not self.options.no_faults:
            tasks.append(asyncio.create_task(self.harm()))
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

    async def browse(self):
        """What a page would do: requests over HTTP, and events as they happen."""
        bearer = f"Authorization: Bearer {self.token}\r\n"
        while not self.over:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                if self.random.random() < 0.2:
                    writer.write(f"GET /v1/events?types=* HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n".encode())
                    await asyncio.wait_for(reader.read(4096), 1)
                else:
                    body = json.dumps({"key": "web", "value": self.random.random()})
                    head = f"POST /v1/commands/Memory.Set HTTP/1.1\r\nHost: localhost\r\n{bearer}"
                    writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
                    status = await asyncio.wait_for(reader.readline(), 10)
                    self.account.outcomes["http " + status.decode().split(" ")[1] if status else "http closed"] += 1
                writer.close()
            except (OSError, IndexError, TimeoutError):
                pass
            await asyncio.sleep(0.1)

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

    async def harm(self):
        faults = [self.kill_child, self.stop_child, self.hang_up, self.kill_daemon, self.end_daemon, self.no_descriptors]
        if self.disk:
            faults.append(self.full_disk)
        while not self.over:
            await asyncio.sleep(self.random.uniform(1, 2 * self.options.pause))
            fault = self.random.choice(faults)
            if self.daemon.process.poll() is None and not self.over:
                self.account.faults[fault.__name__] += 1
                try:
                    await fault()
                except (OSError, ProcessLookupError, ValueError):
                    pass

    async def kill_child(self):
        for pid in self.daemon.children()[:1]:
            os.kill(pid, signal.SIGKILL)

    async def stop_child(self):
        for pid in self.daemon.children()[:1]:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(self.random.uniform(0.2, 3))
            os.kill(pid, signal.SIGCONT)

    async def hang_up(self):
        self.daemon.process.send_signal(signal.SIGHUP)

    async def kill_daemon(self):
        self.daemon.process.kill()

    async def end_daemon(self):
        self.daemon.process.terminate()

    async def no_descriptors(self):
        pid = self.daemon.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 1, before[1]))
        await asyncio.sleep(2)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

    async def full_disk(self):
        ballast = self.disk / "ballast"
        try:
            with open(ballast, "wb", buffering=0) as file:
                try:
                    while file.write(b"\0" * (1 << 20)):
                        pass
                except OSError:
                    pass
                await asyncio.sleep(3)
        finally:
            ballast.unlink()

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
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def percentiles(values):
    if not values:
        return 0, 0
    ordered = sorted(values)
    return ordered[len(ordered) // 2] * 1000, ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1000


def folder_bytes(folder):
    try:
        return sum(entry.stat().st_blocks * 512 for entry in os.scandir(folder))
    except OSError:
        return 0


def plot(samples, path):
    try:
        import matplotlib
    except ImportError:
        print("missing: matplotlib; there is no plot")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [("rss_mb", "memory, MB"), ("descriptors", "descriptors"), ("p99_ms", "99th percentile, ms")]
    rows += [("replies", "replies per second"), ("journal_mb", "journal, MB")]
    figure, axes = pyplot.subplots(len(rows), 1, sharex=True, figsize=(11, 13))
    minutes = [row["seconds"] / 60 for row in samples]
    restarts = [b["seconds"] / 60 for a, b in zip(samples, samples[1:]) if b["start"] != a["start"]]
    for axis, (name, title) in zip(axes, rows):
        axis.plot(minutes, [row.get(name) for row in samples], linewidth=0.9)
        axis.set_ylabel(title)
        axis.grid(alpha=0.3)
        axis.set_ylim(bottom=0)
        for at in restarts:
            axis.axvline(at, color="tab:red", alpha=0.15)
    axes[-1].set_xlabel("minutes (a red line is a start of the daemon)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--seconds", required=True, type=float)
    parser.add_argument("--guest")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=8)
    parser.add_argument("--no-faults", action="store_true")
    options = parser.parse_args()
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
