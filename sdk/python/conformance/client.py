"""The conformance client (see sdk/conformance/README.md): does what it is told with the SDK's asyncio client."""

import asyncio
import contextlib
import json
import sys
import threading
from collections import Counter
from typing import Any

import mainspring

KINDS = [
    (mainspring.RequestError, "outcome"),
    (mainspring.NoAnswer, "timeout"),
    (mainspring.ClientClosed, "closed"),
    (mainspring.ConnectionLost, "closed"),
    (mainspring.ConnectionFailed, "connect"),
    (mainspring.InvalidMessage, "invalid"),
]


def say(n: int, **members: Any) -> None:
    sys.stdout.write(json.dumps({"n": n, **members}) + "\n")
    sys.stdout.flush()


def error_of(error: BaseException) -> dict[str, Any]:
    if isinstance(error, (asyncio.CancelledError, mainspring.Cancelled)):
        return {"kind": "cancelled", "message": str(error)}
    kind = next((kind for base, kind in KINDS if isinstance(error, base)), "invalid")
    return {
        "kind": kind,
        "message": getattr(error, "message", str(error)),
        "code": getattr(error, "code", None),
        "type": getattr(error, "type", None),
        "started": getattr(error, "started", None),
        "originalId": getattr(error, "original_id", None),
    }


class Driver:
    def __init__(self) -> None:
        self.client: mainspring.Client | None = None
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.watches: dict[int, mainspring.Watch] = {}
        self.running: dict[int, asyncio.Event] = {}

    @property
    def ms(self) -> mainspring.Client:
        if self.client is None:
            raise mainspring.ClientClosed("there is no client")
        return self.client

    async def operate(self, op: dict[str, Any]) -> None:
        n = op["n"]
        try:
            say(n, ok=await getattr(self, op["op"])(op))
        except BaseException as error:
            say(n, error=error_of(error))
        else:
            if op["op"] == "watch":
                await self.follow(n)

    async def connect(self, op: dict[str, Any]) -> None:
        reconnect = 0.0 if op.get("reconnect") is False else 30.0
        self.client = await mainspring.connect(
            op.get("socket"),
            tcp=op.get("tcp"),
            token=op.get("token"),
            token_file=op.get("tokenFile"),
            reconnect=reconnect,
        )

    async def send(self, op: dict[str, Any]) -> Any:
        return await self.ms.send(op["type"], op.get("data"), **self.options(op))

    async def query(self, op: dict[str, Any]) -> Any:
        return await self.ms.query(op["type"], op.get("data"), **self.options(op))

    def options(self, op: dict[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {name: op[name] for name in ("id", "correlation") if name in op}
        if op.get("timeout") is not None:
            options["timeout"] = op["timeout"] / 1000
        if op.get("progress"):
            options["on_progress"] = lambda data: say(op["n"], progress=data)
        return options

    async def emit(self, op: dict[str, Any]) -> None:
        await self.ms.emit(op["type"], op.get("data"), correlation=op.get("correlation"))

    async def cancel(self, op: dict[str, Any]) -> None:
        self.tasks[op["of"]].cancel()

    async def watch(self, op: dict[str, Any]) -> list[str]:
        n = op["n"]
        watch = self.ms.watch(
            *op["types"],
            limit=op.get("buffer") or 1024,
            on_gap=lambda gap: say(n, gap={"reason": gap.reason, "count": gap.count}),
        )
        await watch.start()
        self.watches[n] = watch
        self.running[n] = asyncio.Event()
        self.running[n].set()
        return list(watch.types)

    async def follow(self, n: int) -> None:
        with contextlib.suppress(mainspring.MainspringError):
            await self.running[n].wait()
            async for event in self.watches[n]:
                say(n, event={"type": event.type, "data": event.data, "id": event.id})
                await self.running[n].wait()
        say(n, end=True)

    async def pause(self, op: dict[str, Any]) -> None:
        self.running[op["of"]].clear()

    async def resume(self, op: dict[str, Any]) -> None:
        self.running[op["of"]].set()

    async def unwatch(self, op: dict[str, Any]) -> None:
        await self.watches[op["of"]].close()

    async def flood(self, op: dict[str, Any]) -> dict[str, Any]:
        errors: Counter[str] = Counter()
        counts = {"replies": 0, "wrong": 0}
        left = iter(range(op["count"]))
        data = "x" * op["bytes"] if "bytes" in op else op.get("data")
        request = self.ms.send if op["kind"] == "command" else self.ms.query

        async def work() -> None:
            for _ in left:
                try:
                    reply = await request(op["type"], data)
                except mainspring.RequestError as error:
                    errors[str(error.code)] += 1
                else:
                    counts["replies"] += 1
                    counts["wrong"] += "bytes" in op and reply != data

        await asyncio.gather(*(work() for _ in range(op["inFlight"])))
        return {**counts, "errors": errors}

    async def close(self, op: dict[str, Any]) -> None:
        await self.ms.close()


async def main() -> None:
    driver = Driver()
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str | None] = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while (line := await lines.get()) is not None:
        op = json.loads(line)
        task = loop.create_task(driver.operate(op))
        driver.tasks[op["n"]] = task
        if op["op"] in ("connect", "close"):
            await task
        else:
            await asyncio.sleep(0)
    if driver.client is not None:
        await driver.client.close()
    for task in driver.tasks.values():
        task.cancel()
    await asyncio.gather(*driver.tasks.values(), return_exceptions=True)


asyncio.run(main())
