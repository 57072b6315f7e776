"""The program that the SDK is measured against: the same capability by hand, as `mainspring new` writes it."""

import json
import sys
import time
import uuid


def say(kind, type_name, data, cause):
    metadata = {"id": uuid.uuid4().hex, "timestamp": int(time.time() * 1000), "causation": cause["metadata"]["id"]}
    print(json.dumps({"kind": kind, "type": type_name, "data": data, "metadata": metadata}), flush=True)


def greet(query):
    return {"text": "Hello, %s!" % query["data"]["name"]}


def cpu(query):
    return {"seconds": time.process_time()}


HANDLERS = {"Hand.Greet": greet, "Hand.Cpu": cpu}

for line in sys.stdin:
    message = json.loads(line)
    if message["kind"] not in ("command", "query"):
        continue
    try:
        say("reply", message["type"], HANDLERS[message["type"]](message), message)
    except Exception as error:
        print("cannot answer %s: %r" % (message["type"], error), file=sys.stderr)
        say("error", message["type"], {"code": 500, "message": str(error)}, message)
