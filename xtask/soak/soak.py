"""Daemons under mixed load and random faults, with an account of every request.

`cargo xtask soak` runs it. What must hold:

- a request has one outcome, or its connection ended;
- `started: no` is never wrong, and no command is done twice (the ledgers' files say who was
  started), here and at a neighbour on the same bus; a durable one is sent again under its id if
  nothing was heard of it;
- what `Memory` was told is there afterwards, also after the daemon was killed, whether a client on
  the socket told it or a model by the bridge;
- each question of a page has an answer, or its connection ended;
- no daemon ends unasked, and when the faults are over everything works again;
- memory, descriptors and the journals do not grow.
"""

import argparse
import asyncio
import csv
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
import uuid

import report
from account import Account, Book
from clients import LOST_SECONDS, Client, Connection, write
from configuration import DAEMON, GUEST, IMPORT, LEDGER
from daemons import BOOT_SECONDS, Daemon, DoesNotBoot
from faults import Faults
from model import Model
from page import Page
from plot import plot
from uplink import CLIENTS as FAR_CLIENTS
from uplink import FarClient, Uplink

CLIENTS = 8
# Samples in all, so that a soak of days fits into memory and its picture can be read.
SAMPLES_MAX = 7200
# How long it may take until everything works again after the last fault.
RECOVERY_SECONDS = 60


class Soak:
    def __init__(self, options, folder):
        self.options, self.folder, self.account = options, folder, Account()
        self.seed = options.seed
        self.random = random.Random(options.seed)
        self.guest = options.guest is not None
        # When it was interrupted.
        self.ending, self.main, self.interrupted = asyncio.Event(), None, None
        self.begun, self.cpu_begun = time.monotonic(), report.cpu_seconds()
        self.samples = []
        self.token = uuid.uuid4().hex
        self.port = self.free_port()
        self.daemon = Daemon("daemon", options.program, folder, self.account)
        self.ledger = Book("ledger", folder / "ledger.txt", self.account)
        self.uplink = Uplink(self) if options.nats else None
        self.far = Book("far", folder / "neighbour/ledger.txt", self.account)
        self.disk = None
        self.model_log = open(folder / "model.log", "ab")

    @property
    def over(self):
        return self.ending.is_set()

    def seconds(self):
        return time.monotonic() - self.begun

    async def pause(self, seconds):
        """Waits so long, or until it is over."""
        try:
            await asyncio.wait_for(self.ending.wait(), seconds)
        except TimeoutError:
            pass

    def free_port(self):
        """A port that no client's end of a connection is ever given: it can be used again."""
        lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        while True:
            port = random.randrange(lowest // 2, lowest)
            with socket.socket() as free:
                try:
                    free.bind(("127.0.0.1", port))
                    return port
                except OSError:
                    pass

    def prepare(self):
        disk = self.folder / "disk"
        disk.mkdir()
        # A disk of its own that can be filled; without the right to mount one there is no such
        # fault.
        mount = ["mount", "-t", "tmpfs", "-o", "size=512m,mode=0700", "tmpfs", str(disk)]
        if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode == 0:
            self.disk, self.daemon.journal = disk, disk / "journal"
        if not self.uplink:
            print("missing: the uplink (there is no nats-server); the soak goes on without it")
        elif not self.uplink.start():
            self.uplink = None
        text = DAEMON.format(port=self.port, token=self.token, journal=self.daemon.journal)
        text += GUEST.format(path=self.options.guest) if self.guest else ""
        text += IMPORT.format(nats=self.uplink.url) if self.uplink else ""
        (self.folder / "mainspring.toml").write_text(text)
        shutil.copy(LEDGER, self.folder)

    def programs(self):
        return [self.daemon] + ([self.uplink.neighbour, self.uplink.nats] if self.uplink else [])

    def daemons(self):
        return [self.daemon] + ([self.uplink.neighbour] if self.uplink else [])

    async def run(self):
        self.main, loop = asyncio.current_task(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.interrupt)
        self.prepare()
        self.daemon.start()
        await self.booted()
        self.begun = time.monotonic()
        page = Page(self)
        jobs = [Client(number, self).run for number in range(CLIENTS)]
        jobs += [page.stream, page.ask, self.idle_reader, self.sample, self.progress, self.keep_up]
        if self.uplink:
            jobs += [FarClient(number, self).run for number in range(FAR_CLIENTS)]
        if self.options.bridge:
            jobs.append(Model(self).run)
        if not self.options.no_faults:
            jobs.append(Faults(self).run)
        tasks = [asyncio.create_task(self.guarded(job)) for job in jobs]
        await self.pause(self.options.seconds)
        self.ending.set()
        _, late = await asyncio.wait(tasks, timeout=LOST_SECONDS + 10)
        if late:
            self.account.violation(f"{len(late)} tasks do not end")
        await self.recovered()
        self.settle()

    async def guarded(self, job):
        """A soak that is at fault itself ends at once."""
        try:
            await job()
        except Exception as error:
            traceback.print_exc()
            self.account.violation(f"the soak itself failed: {error!r}")
            self.ending.set()

    def interrupt(self):
        """The first time everything is ended in order, the second time at once."""
        if self.interrupted is None:
            print("interrupted: the account is closed, which takes some seconds", flush=True)
            self.interrupted = time.monotonic()
            self.ending.set()
        # Ctrl-C and the end of the parent come together.
        elif time.monotonic() - self.interrupted > 1:
            print("interrupted again: everything is killed", flush=True)
            self.main.cancel()

    async def booted(self):
        """A daemon that cannot boot at all is not tried for hours."""
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            try:
                _, writer = await asyncio.open_unix_connection(self.daemon.socket)
                return writer.close()
            except OSError:
                if not self.daemon.is_running() or time.monotonic() > deadline:
                    raise DoesNotBoot(self.daemon) from None
                await asyncio.sleep(0.05)

    async def keep_up(self):
        while not self.over:
            for program in self.programs():
                program.ensure()
            if self.options.parent not in (None, os.getppid()):
                self.interrupt()
            await asyncio.sleep(0.05)

    async def idle_reader(self):
        """A subscriber that does not read, and one event after another."""
        while not self.over:
            try:
                _, writer = await asyncio.open_unix_connection(self.daemon.socket)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            try:
                write(
                    writer, "command", "Sys.Subscribe", {"types": ["*"]}, {"id": uuid.uuid4().hex}
                )
                for _ in range(200):
                    metadata = {"id": uuid.uuid4().hex}
                    write(writer, "event", "Soak.Happened", {"text": "x" * 500}, metadata)
                    await writer.drain()
                    await asyncio.sleep(0.02)
            except OSError:
                pass
            writer.close()

    async def sample(self):
        every = max(1, self.options.seconds / SAMPLES_MAX)
        with open(self.options.folder / "samples.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, report.columns(self.daemons()), restval="")
            writer.writeheader()
            while not self.over:
                await self.pause(every)
                self.ledger.read()
                self.far.read()
                row = {"seconds": round(self.seconds(), 1)}
                for name, latencies in (("", self.account.near), ("far.", self.account.far)):
                    keys = [name + key for key in ("replies", "p50_ms", "p99_ms")]
                    row.update(zip(keys, latencies.look()))
                for daemon in self.daemons():
                    row.update(daemon.figures())
                self.samples.append(row)
                writer.writerow({key: report.short(value) for key, value in row.items()})
                file.flush()

    async def progress(self):
        """A line a minute."""
        while True:
            await self.pause(60)
            if self.over:
                return
            print(report.line(self), flush=True)

    async def recovered(self):
        """The faults are over: everything is answered again, by itself."""
        for program in self.programs():
            program.ensure()
        requests = [("command", "Memory.Set", {"key": "last", "value": 1}, None, None)]
        requests.append(("command", "Ledger.Add", {}, self.ledger, True))
        if self.guest:
            requests.append(("query", "Echo.Say", {"text": "last"}, None, None))
        if self.uplink:
            requests.append(("command", "Far.Add", {}, self.far, True))
            requests.append(("command", "Far.Add", {}, self.far, False))
            requests.append(("query", "Far.Ask", {}, self.far, None))
        for request in requests:
            await self.answered(*request)

    async def answered(self, kind, name, data, book, durable):
        deadline, outcome = time.monotonic() + RECOVERY_SECONDS, None
        while time.monotonic() < deadline:
            for program in self.programs():
                program.ensure()
            connection = Connection(self.daemon.socket, self.account)
            try:
                await connection.open()
            except OSError:
                await asyncio.sleep(0.1)
                continue
            identity = book.new(kind) if book else None
            outcome = await connection.request(kind, name, data, identity, durable=durable)
            await connection.close()
            if outcome and book:
                book.told(identity, outcome)
            if outcome and outcome["kind"] == "reply":
                return
            await asyncio.sleep(0.2)
        self.account.violation(f"{name} is not answered after the faults: {outcome}")

    def settle(self):
        """The account after everything has ended."""
        for program in self.programs():
            program.end()
        for name in ["Memory.Set", "Memory.Get", "Ledger.Add"] + ["Echo.Say"] * self.guest:
            if not self.account.replies[name]:
                self.account.violation(f"no {name} was answered at all")
        for name in ["page: 200"] + ["model: result"] * self.options.bridge:
            if not self.account.outcomes[name]:
                self.account.violation(f"there was no outcome `{name}` at all")
        for part in (self.account, self.ledger, self.far):
            part.close()
        for daemon in self.daemons():
            if panic := daemon.log_has("panicked"):
                self.account.violation(f"{daemon.name} panicked: {panic}")
        for growth in report.growths(self):
            if growth.is_too_much():
                self.account.violation(f"{growth}: that grows")

    def clean(self):
        """Leaves nothing behind, however this ended."""
        for program in self.programs():
            program.kill()
        if self.disk:
            subprocess.run(["umount", str(self.disk)], check=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--seconds", required=True, type=float)
    parser.add_argument("--guest", help="the WebAssembly module of the guest")
    parser.add_argument("--nats", help="the nats-server: there is a second daemon on the same bus")
    parser.add_argument("--bridge", action="store_true", help="`mainspring mcp` is there: a model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=8, help="between two faults, in seconds")
    parser.add_argument("--no-faults", action="store_true")
    parser.add_argument("--parent", type=int, help="ends when this parent has ended")
    options = parser.parse_args()
    if sys.version_info < (3, 11):
        sys.exit("Python 3.11 or newer is needed")
    options.folder = options.folder.resolve()
    work = options.folder / "work"
    work.mkdir(parents=True)
    # Whoever builds meanwhile does not change what is soaked.
    options.program = shutil.copy(options.program, work / "mainspring")
    # It is started in another folder.
    if options.nats:
        options.nats = os.path.abspath(shutil.which(options.nats) or options.nats)
    if options.guest:
        options.guest = shutil.copy(options.guest, work)
    if bridge := os.environ.get("MAINSPRING_MCP"):
        os.environ["MAINSPRING_MCP"] = str(shutil.copy(bridge, work))
    soak = Soak(options, work)
    try:
        asyncio.run(soak.run())
    except asyncio.CancelledError:
        return 130
    except DoesNotBoot as error:
        soak.account.violation(str(error))
    finally:
        soak.clean()
    text = report.write(soak, options.folder)
    daemons, title = [daemon.name for daemon in soak.daemons()], text.partition("\n")[0]
    plot(soak.samples, daemons, title, options.folder / "soak.png")
    print(text)
    if soak.account.violations:
        return 1
    return 0 if soak.interrupted is None else 130


if __name__ == "__main__":
    sys.exit(main())
