"""Two capabilities for the checks: a shop that asks a bank. Neither knows anything of traces."""

import json
import sys
import threading
import time

serial = 0
lock = threading.Lock()


def say(kind, name, data, cause):
    global serial
    with lock:
        serial += 1
        metadata = {"id": f"{sys.argv[1]}-{serial}", "timestamp": int(time.time() * 1000), "causation": cause}
        print(json.dumps({"kind": kind, "type": name, "data": data, "metadata": metadata}), flush=True)
        return metadata["id"]


def later(seconds, *what):
    timer = threading.Timer(seconds, say, what)
    timer.daemon = True
    timer.start()


waiting = {}
for line in sys.stdin:
    message = json.loads(line)
    kind, name, data = message["kind"], message["type"], message["data"]
    cause = message["metadata"]["id"]
    if kind in ("reply", "error"):
        request, data = waiting.pop(message["metadata"]["causation"])
        say("event", "Shop.Sold", {"item": data["item"]}, request)
        say("reply", "Shop.Buy", {"item": data["item"], "paid": kind == "reply"}, request)
    elif name == "Shop.Buy":
        waiting[say("command", "Bank.Pay", {"amount": data["count"]}, cause)] = (cause, data)
    elif name == "Bank.Pay":
        say("reply", name, {"paid": data["amount"]}, cause)
    elif name == "Shop.Tell":
        say("event", "Shop.Told", {"text": "x" * int(data["bytes"])}, cause)
        say("reply", name, {}, cause)
    elif name == "Shop.Stock":
        say("reply", name, {"item": data["item"], "left": 7}, cause)
    elif name == "Shop.Fail":
        say("error", name, {"code": 418, "message": "no tea here"}, cause)
    elif name == "Shop.Wait":
        later(data["seconds"], "reply", name, {}, cause)
