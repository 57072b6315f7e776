"""A capability of the soak: writes down the id of each request that it is given, then answers."""

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
    identity = message["metadata"]["id"]
    os.write(log, (identity + "\n").encode())
    time.sleep(message["data"].get("ms", 0) / 1000)
    metadata = {"id": uuid.uuid4().hex, "timestamp": int(time.time() * 1000), "causation": identity}
    answer = {
        "kind": "reply",
        "type": message["type"],
        "data": {"of": identity},
        "metadata": metadata,
    }
    print(json.dumps(answer), flush=True)
