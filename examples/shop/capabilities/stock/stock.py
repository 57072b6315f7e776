"""The stock of the shop: a capability in plain Python, and a TCP server.

Messages come in on standard input, one JSON object a line, and go out on standard output. The TCP server answers
`TAKE quantity item` with `OK price`, `LEFT number` or `UNKNOWN`.
"""

import json
import os
import socketserver
import sys
import threading
import time
import uuid

ITEMS = {
    "tea": {"priceCents": 450, "left": 100},
    "coffee": {"priceCents": 700, "left": 100},
    "sugar": {"priceCents": 120, "left": 3},
}
LOCK = threading.Lock()


class Question(socketserver.StreamRequestHandler):
    """One question on one connection."""

    timeout = 5

    def handle(self):
        words = self.rfile.readline(256).decode("utf-8", "replace").rstrip("\n").split(" ", 2)
        self.wfile.write((answer(words) + "\n").encode())


def answer(words):
    if len(words) != 3 or words[0] != "TAKE" or not words[1].isdigit():
        return "WHAT"
    quantity, item = int(words[1]), words[2]
    with LOCK:
        found = ITEMS.get(item)
        if found is None:
            return "UNKNOWN"
        if found["left"] < quantity:
            return "LEFT %d" % found["left"]
        found["left"] -= quantity
        return "OK %d" % found["priceCents"]


def say(kind, type_name, data, cause):
    """Says a message that another one caused."""
    metadata = {"id": uuid.uuid4().hex, "timestamp": int(time.time() * 1000), "causation": cause["metadata"]["id"]}
    message = {"kind": kind, "type": type_name, "data": data, "metadata": metadata}
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def take_back(event):
    """Nobody paid: what was ordered can be sold again."""
    item = event["data"]["item"]
    with LOCK:
        ITEMS[item]["left"] += event["data"]["quantity"]
        left = ITEMS[item]["left"]
    say("event", "Stock.Returned", {"item": item, "left": left}, event)


def main():
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    socketserver.ThreadingTCPServer.daemon_threads = True
    server = socketserver.ThreadingTCPServer(("127.0.0.1", int(os.environ["STOCK_PORT"])), Question)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "Stock.List":
            with LOCK:
                items = {name: dict(item) for name, item in ITEMS.items()}
            say("reply", "Stock.List", {"items": items}, message)
        elif message["type"] == "Order.Expired":
            take_back(message)


main()
