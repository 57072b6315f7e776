"""Clients on the socket: each asks at random, and knows what it was told."""

import asyncio
import json
import random
import time
import uuid

# A request without an outcome for this long is lost: its own deadline is far shorter.
LOST_SECONDS = 60
TIMEOUT_MS = 5000


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
                message = self.parse(line)
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
        except (OSError, EOFError):
            pass
        except ValueError as error:
            self.account.violation(f"a line that cannot be read: {error}")
        for future in self.pending.values():
            if not future.done():
                future.set_result(None)
        self.pending.clear()
        self.writer.close()
        self.writer = None

    @staticmethod
    def parse(line):
        """A message. The end of a connection may cut the last line short."""
        if not line.endswith(b"\n"):
            raise EOFError
        return json.loads(line)

    def is_open(self):
        return self.writer is not None

    async def close(self):
        if self.writer is not None:
            self.writer.close()
        await self.task

    async def request(self, kind, type_name, data, identity=None, timeout=TIMEOUT_MS, durable=None):
        """The outcome; nothing if the connection ended before."""
        identity = identity or uuid.uuid4().hex
        metadata = {"id": identity, "timeout": timeout}
        if durable is not None:
            metadata["durable"] = durable
        future = asyncio.get_running_loop().create_future()
        if self.writer is None:
            return None
        self.pending[identity] = future
        begun = time.monotonic()
        self.account.sent[type_name] += 1
        try:
            write(self.writer, kind, type_name, data, metadata)
            outcome = await asyncio.wait_for(future, LOST_SECONDS)
        # Before `OSError`, which it is one of.
        except TimeoutError:
            self.pending.pop(identity, None)
            self.account.violation(f"no outcome of {type_name} {identity} in {LOST_SECONDS} s")
            outcome = None
        except OSError:
            outcome = None
        if outcome is None:
            self.account.no_outcome(type_name)
            return None
        if outcome["kind"] == "reply":
            self.account.outcome(type_name, "reply")
            self.account.replies[type_name] += 1
            is_far = type_name.startswith("Far.")
            latencies = self.account.far if is_far else self.account.near
            latencies.add(time.monotonic() - begun)
        else:
            error = outcome["data"]
            text = f"{outcome['type']} {error.get('code')} started: {error.get('started')}"
            self.account.outcome(type_name, text)
        return outcome


def write(writer, kind, type_name, data, metadata):
    """Writes a message."""
    metadata = {"timestamp": int(time.time() * 1000), **metadata}
    message = {"kind": kind, "type": type_name, "data": data, "metadata": metadata}
    writer.write(json.dumps(message).encode() + b"\n")


class Client:
    """One client: asks at random, and knows what it was told."""

    def __init__(self, number, soak):
        self.number, self.soak, self.account = number, soak, soak.account
        self.values = {}
        # A command of which nothing was heard.
        self.unheard = None
        self.random = random.Random(soak.seed * 1000 + number)

    async def run(self):
        while not self.soak.over:
            connection = Connection(self.soak.daemon.socket, self.account)
            try:
                await connection.open()
            except OSError:
                await asyncio.sleep(0.05)
                continue
            while not self.soak.over and connection.is_open():
                await self.step(connection)
                if self.random.random() < 0.01:
                    break
            await connection.close()

    async def step(self, connection):
        if self.unheard:
            return await self.add(connection, *self.unheard)
        pick = self.random.random()
        if pick < 0.35:
            await self.remember(connection)
        elif pick < 0.60:
            data = {"ms": self.random.choice([0, 0, 0, 1, 5, 30])}
            timeout = 20 if self.random.random() < 0.05 else TIMEOUT_MS
            await self.add(connection, self.soak.ledger.new("command"), data, timeout)
        elif pick < 0.85 and self.soak.guest:
            data = {"text": "x" * self.random.randrange(2000)}
            outcome = await connection.request("query", "Echo.Say", data)
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
            outcome = await connection.request(
                "command", "Memory.Set", {"key": key, "value": value}
            )
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

    async def add(self, connection, identity, data, timeout):
        """A durable command at a process, sent again under its id if nothing was heard of it."""
        outcome = await connection.request("command", "Ledger.Add", data, identity, timeout)
        self.unheard = None if outcome else (identity, data, timeout)
        if outcome:
            self.soak.ledger.told(identity, outcome)
            if outcome["kind"] == "reply" and outcome["data"] != {"of": identity}:
                self.account.violation(f"{identity} has the answer of another: {outcome['data']}")

    async def nonsense(self, connection):
        """What must be refused."""
        data = self.random.choice([{"ms": -1}, {"ms": "soon"}])
        outcome = await connection.request("command", "Ledger.Add", data)
        if outcome and (
            outcome["kind"] != "error" or outcome["data"].get("code") not in (422, 503)
        ):
            self.account.violation(f"nonsense was not refused: {json.dumps(outcome)[:300]}")
