"""A second daemon on the same bus, the NATS between them, and clients of what it shares."""

import asyncio
import random
import shutil
import time

from clients import TIMEOUT_MS, Connection
from configuration import LEDGER, NEIGHBOUR
from daemons import BOOT_SECONDS, Daemon, DoesNotBoot, Program

CLIENTS = 4
# Requests that one client has under way at most.
AT_ONCE = 8
WITHOUT = "without the feature `uplink`"


class Uplink:
    """A nats-server, and a neighbour that shares a capability: the soaked daemon imports it."""

    def __init__(self, soak):
        self.soak, self.url = soak, f"nats://127.0.0.1:{soak.free_port()}"
        folder = soak.folder / "neighbour"
        folder.mkdir()
        self.neighbour = Daemon("neighbour", soak.options.program, folder, soak.account)
        words = [soak.options.nats, "-a", "127.0.0.1", "-p", self.url.rpartition(":")[2]]
        self.nats = Program("nats-server", words, soak.folder, soak.account)

    def start(self):
        """Whether both run. If not, why is said in one line, and the soak goes on without."""
        shutil.copy(LEDGER, self.neighbour.folder)
        text = NEIGHBOUR.format(nats=self.url)
        (self.neighbour.folder / "mainspring.toml").write_text(text)
        try:
            self.nats.start()
        except OSError as error:
            return self.give_up(f"nats-server cannot be started: {error}")
        self.neighbour.start()
        deadline = time.monotonic() + BOOT_SECONDS
        while not (self.neighbour.folder / "bus.sock").exists():
            if not self.nats.is_running():
                return self.give_up("nats-server has ended; see nats-server.log")
            if not self.neighbour.is_running() and self.neighbour.log_has(WITHOUT):
                return self.give_up("the program was built without it")
            if not self.neighbour.is_running() or time.monotonic() > deadline:
                raise DoesNotBoot(self.neighbour)
            time.sleep(0.05)
        return True

    def give_up(self, why):
        print(f"missing: the uplink ({why}); the soak goes on without it", flush=True)
        self.neighbour.kill()
        self.nats.kill()
        return False


class FarClient:
    """A client of the first daemon that asks for what the neighbour does."""

    def __init__(self, number, soak):
        self.soak, self.book, self.account = soak, soak.far, soak.account
        self.random = random.Random(soak.seed * 1000 + 500 + number)
        # Durable commands of which nothing was heard: sent again under the same id.
        self.unheard = []

    async def run(self):
        while not self.soak.over:
            connection = Connection(self.soak.daemon.socket, self.account)
            try:
                await connection.open()
            except OSError:
                await asyncio.sleep(0.05)
                continue
            while not self.soak.over and connection.is_open():
                again, self.unheard = self.unheard, []
                batch = [self.ask(connection, *request) for request in again]
                batch += [self.new(connection) for _ in range(self.random.randrange(1, AT_ONCE))]
                refused = any(await asyncio.gather(*batch))
                # Who is refused at once does not ask again at once.
                await asyncio.sleep(0.02 if refused else 0)
                if self.random.random() < 0.01:
                    break
            await connection.close()

    def new(self, connection):
        pick = self.random.random()
        kind = "query" if pick < 0.3 else "command"
        durable = None if kind == "query" else pick < 0.7
        data = {"ms": self.random.choice([0, 0, 0, 1, 5, 30])}
        data["text"] = "x" * self.random.choice([0, 10, 100, 2000])
        timeout = self.random.choice([20, 1000] + [TIMEOUT_MS] * 10 + [3 * TIMEOUT_MS] * 4)
        return self.ask(connection, self.book.new(kind), kind, data, durable, timeout)

    async def ask(self, connection, identity, kind, data, durable, timeout):
        """Sends a request; whether it was refused."""
        name = "Far.Ask" if kind == "query" else "Far.Add"
        outcome = await connection.request(kind, name, data, identity, timeout, durable)
        if outcome is None:
            if durable:
                self.unheard.append((identity, kind, data, durable, timeout))
            return False
        self.book.told(identity, outcome)
        if outcome["kind"] == "reply" and outcome["data"] != {"of": identity}:
            self.account.violation(f"{identity} has the answer of another: {outcome['data']}")
        return outcome["kind"] == "error" and outcome["data"].get("started") == "no"
