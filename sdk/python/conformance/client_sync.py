"""The conformance client (see sdk/conformance/README.md) with the SDK's client for threads."""

import json
import sys
import threading
from collections import Counter
from typing import Any

import mainspring
from mainspring import sync

KINDS = [
    (mainspring.Cancelled, "cancelled"),
    (mainspring.RequestError, "outcome"),
    (mainspring.NoAnswer, "timeout"),
    (mainspring.ClientClosed, "closed"),
    (mainspring.ConnectionLost, "closed"),
    (mainspring.ConnectionFailed, "connect"),
    (mainspring.InvalidMessage, "invalid"),
]
saying = threading.Lock()


def say(n: int, **members: Any) -> None:
    with saying:
        sys.stdout.write(json.dumps({"n": n, **members}) + "\n")
        sys.stdout.flush()


def error_of(error: BaseException) -> dict[str, Any]:
    return {
        "kind": next((kind for base, kind in KINDS if isinstance(error, base)), "invalid"),
        "message": getattr(error, "message", str(error)),
        "code": getattr(error, "code", None),
        "type": getattr(error, "type", None),
        "started": getattr(error, "started", None),
        "originalId": getattr(error, "original_id", None),
    }


class Driver:
    def __init__(self) -> None:
        self.client: sync.Client | None = None
        self.requests: dict[int, sync.Request] = {}
        self.watches: dict[int, sync.Watch] = {}
        self.running: dict[int, threading.Event] = {}
        self.begun: dict[int, threading.Event] = {}

    @property
    def ms(self) -> sync.Client:
        if self.client is None:
            raise mainspring.ClientClosed("there is no client")
        return self.client

    def operate(self, op: dict[str, Any]) -> None:
        n = op["n"]
        try:
            result = getattr(self, op["op"])(op)
        except BaseException as error:
            say(n, error=error_of(error))
        else:
            say(n, ok=result)
            if op["op"] == "watch":
                self.follow(n)
        finally:
            self.begun[n].set()

    def connect(self, op: dict[str, Any]) -> None:
        reconnect = 0.0 if op.get("reconnect") is False else 30.0
        self.client = sync.connect(
            op.get("socket"),
            tcp=op.get("tcp"),
            token=op.get("token"),
            token_file=op.get("tokenFile"),
            reconnect=reconnect,
        )

    def send(self, op: dict[str, Any]) -> Any:
        return self.request("command", op)

    def query(self, op: dict[str, Any]) -> Any:
        return self.request("query", op)

    def request(self, kind: Any, op: dict[str, Any]) -> Any:
        options: dict[str, Any] = {name: op[name] for name in ("id", "correlation") if name in op}
        if op.get("timeout") is not None:
            options["timeout"] = op["timeout"] / 1000
        if op.get("progress"):
            options["on_progress"] = lambda data: say(op["n"], progress=data)
        request = self.requests[op["n"]] = self.ms.start(kind, op["type"], op.get("data"), **options)
        self.begun[op["n"]].set()
        return request.result()

    def emit(self, op: dict[str, Any]) -> None:
        self.ms.emit(op["type"], op.get("data"), correlation=op.get("correlation"))

    def cancel(self, op: dict[str, Any]) -> None:
        self.requests[op["of"]].cancel()

    def watch(self, op: dict[str, Any]) -> list[str]:
        n = op["n"]
        watch = self.ms.watch(
            *op["types"],
            limit=op.get("buffer") or 1024,
            on_gap=lambda gap: say(n, gap={"reason": gap.reason, "count": gap.count}),
        )
        watch.start()
        self.watches[n] = watch
        self.running[n] = threading.Event()
        self.running[n].set()
        return list(watch.types)

    def follow(self, n: int) -> None:
        self.begun[n].set()
        try:
            for event in self.watches[n]:
                # A consumer that is paused has taken one event at most.
                self.running[n].wait()
                say(n, event={"type": event.type, "data": event.data, "id": event.id})
        except mainspring.MainspringError:
            pass
        say(n, end=True)

    def pause(self, op: dict[str, Any]) -> None:
        self.running[op["of"]].clear()

    def resume(self, op: dict[str, Any]) -> None:
        self.running[op["of"]].set()

    def unwatch(self, op: dict[str, Any]) -> None:
        self.watches[op["of"]].close()

    def flood(self, op: dict[str, Any]) -> dict[str, Any]:
        errors: Counter[str] = Counter()
        counts: Counter[str] = Counter(replies=0, wrong=0)
        left = iter(range(op["count"]))
        counting = threading.Lock()
        data = "x" * op["bytes"] if "bytes" in op else op.get("data")
        request = self.ms.send if op["kind"] == "command" else self.ms.query

        def work() -> None:
            while True:
                with counting:
                    if next(left, None) is None:
                        return
                try:
                    reply = request(op["type"], data)
                except mainspring.RequestError as error:
                    with counting:
                        errors[str(error.code)] += 1
                else:
                    with counting:
                        counts["replies"] += 1
                        counts["wrong"] += "bytes" in op and reply != data

        threads = [threading.Thread(target=work) for _ in range(op["inFlight"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {**counts, "errors": errors}

    def close(self, op: dict[str, Any]) -> None:
        self.ms.close()


def main() -> None:
    driver = Driver()
    for line in sys.stdin:
        op = json.loads(line)
        driver.begun[op["n"]] = threading.Event()
        thread = threading.Thread(target=driver.operate, args=(op,), daemon=True)
        thread.start()
        # Operations start in the order in which they come.
        if op["op"] in ("connect", "close"):
            thread.join()
        else:
            driver.begun[op["n"]].wait(0.05)
    if driver.client is not None:
        driver.client.close()


main()
