"""{{name}}: a capability of Mainspring. Messages come in on standard input and go out on standard output, one JSON object a line."""

import json
import sys
import time
import uuid

met = []


class Refused(Exception):
    """A request that cannot be done: a code from 400 to 599, and why."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def say(kind, type_name, data, cause):
    """Says a message that `cause` caused."""
    metadata = {"id": uuid.uuid4().hex, "timestamp": int(time.time() * 1000), "causation": cause["metadata"]["id"]}
    print(json.dumps({"kind": kind, "type": type_name, "data": data, "metadata": metadata}), flush=True)


def greet(query):
    return {"text": "Hello, %s!" % query["data"]["name"]}


def meet(command):
    met.append(command["data"]["name"])
    say("event", "{{Type}}.Met", {"name": met[-1], "met": len(met)}, command)
    return {"met": len(met)}


HANDLERS = {"{{Type}}.Greet": greet, "{{Type}}.Meet": meet}


def answer(message):
    handler = HANDLERS.get(message["type"])
    if handler is None:
        raise Refused(404, "%s is not known here" % message["type"])
    return handler(message)


def main():
    # The loop ends when the input does: then the daemon is shutting down, or loads this program
    # again.
    for line in sys.stdin:
        message = json.loads(line)
        if message["kind"] not in ("command", "query"):
            continue
        try:
            say("reply", message["type"], answer(message), message)
        except Exception as error:
            # Standard output is for messages; standard error goes to the daemon's log.
            print("cannot answer %s: %r" % (message["type"], error), file=sys.stderr)
            say("error", message["type"], {"code": getattr(error, "code", 500), "message": str(error)}, message)


if __name__ == "__main__":
    main()
