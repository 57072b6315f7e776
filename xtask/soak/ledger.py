"""A capability of the soak: writes down the id of each command that it was given, then answers."""

import json
import os
import sys
import time
import uuid

log = os.open("ledger.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

for line in sys.stdin:
    message = json.loads(line)
    if message["kind"] == "event":
        continue
    metadata = message["metadata"]
    os.write(log, (metadata["id"] + "\n").encode())
    time.sleep(message["data"].get("ms", 0) / 1000)
    answer = {
        "kind": "reply",
        "type": message["type"],
        "data": {"pid": os.getpid()},
        "metadata": {"id": uuid.uuid4().hex, "timestamp": int(time.time() * 1000), "causation": metadata["id"]},
    }
    print(json.dumps(answer), flush=True)
