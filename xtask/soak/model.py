"""A client as a language model's program is: `mainspring mcp`, its tools, and their results."""

import asyncio
import json
import os
import random
import uuid

LOST_SECONDS = 60


class Model:
    """Starts the bridge, calls tools, and checks that `Memory` has what it was told."""

    def __init__(self, soak):
        self.soak, self.account = soak, soak.account
        self.random = random.Random(soak.seed * 1000 + 999)
        # For each key, the values that may be there.
        self.values = {}
        self.process, self.number = None, 0

    async def run(self):
        try:
            await self.work()
        finally:
            # However this ends.
            if self.process and self.process.returncode is None:
                self.process.kill()

    async def work(self):
        while not self.soak.over:
            try:
                await self.start()
                calls = self.random.randrange(50, 400)
                while calls and not self.soak.over:
                    calls -= 1
                    await self.step()
                    await asyncio.sleep(0.02)
            except (OSError, ValueError, EOFError):
                await asyncio.sleep(0.2)
            await self.end()

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(
            self.soak.options.program,
            "mcp",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self.soak.model_log,
            limit=4 << 20,
            start_new_session=True,
            env={**os.environ, "MAINSPRING_SOCKET": self.soak.daemon.socket},
        )
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        hello["clientInfo"] = {"name": "soak", "version": "1"}
        await self.request("initialize", hello)
        await self.write({"method": "notifications/initialized"})

    async def end(self):
        """The end of its input ends the bridge."""
        process, self.process = self.process, None
        if process is None:
            return
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 30)
        except TimeoutError:
            self.account.violation("the bridge does not end with its input")
            process.kill()

    async def write(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await self.process.stdin.drain()

    async def request(self, method, params):
        """The result: one for each request, as long as the bridge runs."""
        self.number += 1
        name = "model: " + method
        self.account.sent[name] += 1
        try:
            await self.write({"id": self.number, "method": method, "params": params})
            answer = await self.answer(method)
        except (OSError, ValueError, EOFError):
            self.account.no_outcome(name)
            raise
        result = answer.get("result") or {"isError": True}
        self.account.outcome(name, "model: error" if result.get("isError") else "model: result")
        return result

    async def answer(self, method):
        """What comes with the number of the last request."""
        while True:
            try:
                line = await asyncio.wait_for(self.process.stdout.readline(), LOST_SECONDS)
            except TimeoutError:
                self.account.violation(f"no answer of the bridge to {method} in {LOST_SECONDS} s")
                raise EOFError from None
            if not line:
                raise EOFError
            message = json.loads(line)
            if message.get("id") == self.number:
                return message
            if "id" in message and "method" not in message:
                self.account.violation(f"an answer that nobody waits for: {line[:300]}")

    async def call(self, tool, arguments):
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    async def step(self):
        key = f"model-{self.random.randrange(20)}"
        allowed = self.values.setdefault(key, {None})
        if self.random.random() < 0.5:
            value = uuid.uuid4().hex
            # Whatever goes wrong before the answer, it may have been done.
            allowed.add(value)
            result = await self.call("Memory_Set", {"key": key, "value": value})
            if not result.get("isError"):
                self.values[key] = {value}
            return
        result = await self.call("Memory_Get", {"key": key})
        if result.get("isError"):
            return
        value = (result.get("structuredContent") or {}).get("value")
        if value not in allowed:
            self.account.violation(f"Memory has {value} for {key}, and not one of {allowed}")
        else:
            self.values[key] = {value}
