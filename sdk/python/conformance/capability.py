"""The conformance capability (see sdk/conformance/README.md), written as people would write theirs."""

import asyncio
import os
from typing import Any, Literal, TypedDict

from mainspring import Capability, CapabilityError, ConnectionFailed, Context, RequestError

cap = Capability("conformance", "Does what the conformance suite asks.", concurrency=16, says_anything=True)
noted: list[Any] = []
cancelled = 0


class Sum(TypedDict):
    sum: int


@cap.query("Conf.Echo")
async def echo(data: Any) -> Any:
    """Replies with the data."""
    return data


@cap.command("Conf.Add")
async def add(a: int, b: int) -> Sum:
    """Adds two integers."""
    return {"sum": a + b}


@cap.query("Conf.Fail")
async def fail(code: int, message: str) -> None:
    """Ends with an error."""
    raise CapabilityError(code, message)


@cap.query("Conf.Throw")
async def throw() -> None:
    """Fails with an exception that nobody handles."""
    raise RuntimeError("the secret of Conf.Throw")


@cap.command("Conf.Slow")
async def slow(ms: float) -> dict[str, float]:
    """Waits, then replies."""
    global cancelled
    try:
        await asyncio.sleep(ms / 1000)
    except asyncio.CancelledError:
        cancelled += 1
        raise
    return {"waited": ms}


@cap.command("Conf.Ask")
async def ask(
    ctx: Context, kind: Literal["command", "query"], type: str, data: Any, timeout: float | None = None
) -> dict[str, Any]:
    """Asks another capability."""
    try:
        seconds = None if timeout is None else timeout / 1000
        return {"ok": await ctx.ask(type, data, kind=kind, timeout=seconds)}
    except RequestError as error:
        return {"error": {"code": error.code, "type": error.type, "message": error.message, "started": error.started}}
    except ConnectionFailed as error:
        return {"error": {"code": None, "type": None, "message": str(error), "started": error.started}}


@cap.command("Conf.Emit")
async def emit(ctx: Context, count: int, data: Any) -> dict[str, int]:
    """Emits events."""
    for number in range(1, count + 1):
        await ctx.emit("Conf.Happened", {"number": number, "data": data})
    return {"emitted": count}


@cap.command("Conf.Work")
async def work(ctx: Context, steps: int) -> dict[str, int]:
    """Works in steps, and tells each."""
    for step in range(1, steps + 1):
        await ctx.emit("Conf.Work.Progress", {"step": step, "of": steps})
    return {"steps": steps}


@cap.command("Conf.Crash")
async def crash() -> None:
    """Ends the process."""
    os._exit(3)


@cap.command("Conf.Print")
async def print_text(text: str) -> dict[str, Any]:
    """Prints a text."""
    print(text)
    return {}


@cap.query("Conf.Blob")
async def blob(bytes: int) -> dict[str, str]:
    """Replies with a long text."""
    return {"blob": "x" * bytes}


@cap.query("Conf.Unfit")
async def unfit() -> Any:
    """Returns what JSON cannot express."""
    itself: dict[str, Any] = {}
    itself["itself"] = itself
    return itself


@cap.query("Conf.Context")
async def context(ctx: Context, data: Any) -> dict[str, Any]:
    """Tells what the handler is told."""
    return {
        "id": ctx.id,
        "kind": ctx.message.kind,
        "type": ctx.type,
        "correlation": ctx.correlation,
        "leftMs": None if ctx.left is None else round(ctx.left * 1000),
    }


@cap.query("Conf.Status")
async def status() -> dict[str, Any]:
    """Tells how it is."""
    return {"pid": os.getpid(), "noted": noted, "cancelled": cancelled}


@cap.on("Conf.Noted")
async def note(data: Any) -> None:
    """Remembers the data."""
    noted.append(data)
    del noted[:-100]


if __name__ == "__main__":
    cap.run()
