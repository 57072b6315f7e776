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
