"""The conformance capability (see sdk/conformance/README.md), written with plain functions, which run in threads."""

import os
import threading
from typing import Any, Literal, TypedDict

from mainspring import Cancelled, Capability, CapabilityError, ConnectionFailed, RequestError, SyncContext

cap = Capability("conformance", "Does what the conformance suite asks.", concurrency=16, says_anything=True)
noted: list[Any] = []
cancelled = 0
counting = threading.Lock()


class Sum(TypedDict):
    sum: int


@cap.query("Conf.Echo")
def echo(data: Any) -> Any:
    """Replies with the data."""
    return data


@cap.command("Conf.Add")
def add(a: int, b: int) -> Sum:
    """Adds two integers."""
    return {"sum": a + b}


@cap.query("Conf.Fail")
def fail(code: int, message: str) -> None:
    """Ends with an error."""
    raise CapabilityError(code, message)


@cap.query("Conf.Throw")
def throw() -> None:
    """Fails with an exception that nobody handles."""
    raise RuntimeError("the secret of Conf.Throw")


@cap.command("Conf.Slow")
def slow(ctx: SyncContext, ms: float) -> dict[str, float]:
    """Waits, then replies."""
    global cancelled
    try:
        ctx.sleep(ms / 1000)
    except Cancelled:
        with counting:
            cancelled += 1
        raise
    return {"waited": ms}


@cap.command("Conf.Ask")
def ask(
    ctx: SyncContext, kind: Literal["command", "query"], type: str, data: Any, timeout: float | None = None
) -> dict[str, Any]:
    """Asks another capability."""
    try:
        seconds = None if timeout is None else timeout / 1000
        return {"ok": ctx.ask(type, data, kind=kind, timeout=seconds)}
    except RequestError as error:
        return {"error": {"code": error.code, "type": error.type, "message": error.message, "started": error.started}}
    except ConnectionFailed as error:
        return {"error": {"code": None, "type": None, "message": str(error), "started": error.started}}


@cap.command("Conf.Emit")
def emit(ctx: SyncContext, count: int, data: Any) -> dict[str, int]:
    """Emits events."""
    for number in range(1, count + 1):
        ctx.emit("Conf.Happened", {"number": number, "data": data})
    return {"emitted": count}


@cap.command("Conf.Work")
def work(ctx: SyncContext, steps: int) -> dict[str, int]:
    """Works in steps, and tells each."""
    for step in range(1, steps + 1):
        ctx.emit("Conf.Work.Progress", {"step": step, "of": steps})
    return {"steps": steps}


@cap.command("Conf.Crash")
def crash() -> None:
    """Ends the process."""
    os._exit(3)


@cap.command("Conf.Print")
def print_text(text: str) -> dict[str, Any]:
    """Prints a text."""
    print(text)
    return {}


@cap.query("Conf.Blob")
def blob(bytes: int) -> dict[str, str]:
    """Replies with a long text."""
    return {"blob": "x" * bytes}


@cap.query("Conf.Unfit")
def unfit() -> Any:
    """Returns what JSON cannot express."""
    itself: dict[str, Any] = {}
    itself["itself"] = itself
    return itself


@cap.query("Conf.Context")
def context(ctx: SyncContext, data: Any) -> dict[str, Any]:
    """Tells what the handler is told."""
    return {
        "id": ctx.id,
        "kind": ctx.message.kind,
        "type": ctx.type,
        "correlation": ctx.correlation,
        "leftMs": None if ctx.left is None else round(ctx.left * 1000),
    }


@cap.query("Conf.Status")
def status() -> dict[str, Any]:
    """Tells how it is."""
    return {"pid": os.getpid(), "noted": noted, "cancelled": cancelled}


@cap.on("Conf.Noted")
def note(data: Any) -> None:
    """Remembers the data."""
    noted.append(data)
    del noted[:-100]


if __name__ == "__main__":
    cap.run()
