"""What the official conformance suite wants to find behind the tools: a capability by the bare contract."""

import json
import os
import pathlib
import signal
import sys
import time
import uuid

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def resource(uri: str, media_type: str, text: str) -> dict:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": media_type, "text": text}}


REPLIES = {
    "Test.SimpleText": "This is a simple text response for testing.",
    "Test.ImageContent": {"content": [IMAGE]},
    "Test.AudioContent": {"content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}]},
    "Test.EmbeddedResource": {
        "content": [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
    },
    "Test.MultipleContentTypes": {
        "content": [
            {"type": "text", "text": "Multiple content types test:"},
            IMAGE,
            resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
        ]
    },
}


def say(kind: str, type_name: str, data, cause: str) -> None:
    metadata = {"id": str(uuid.uuid4()), "timestamp": int(time.time() * 1000), "causation": cause}
    print(json.dumps({"kind": kind, "type": type_name, "data": data, "metadata": metadata}), flush=True)


def change_tools() -> None:
    """Adds a capability beside this one, or takes it away. The daemon is the parent of this process."""
    path = pathlib.Path("../changing/capability.json")
    if path.exists():
        path.unlink()
    else:
        path.parent.mkdir(exist_ok=True)
        inbound = {"properties": {"kind": {"const": "query"}, "type": {"const": "Changing.Ping"}, "data": {"type": "object"}}}
        program = {"process": ["cat"]}
        path.write_text(json.dumps({"id": "changing", "description": "Comes and goes.", "inbound": inbound, "program": program}))
    os.kill(os.getppid(), signal.SIGHUP)


waiting: set[str] = set()
cancelled = counted = 0
for line in sys.stdin:
    message = json.loads(line)
    name, request = message["type"], message["metadata"]["id"]
    if name == "Sys.RequestCancelled" and (ended := message["metadata"].get("causation")) in waiting:
        waiting.discard(ended)
        cancelled += 1
        say("error", "Test.Wait", {"code": 499, "message": "cancelled"}, ended)
    if message["kind"] not in ("command", "query"):
        continue
    match name:
        case "Test.ErrorHandling":
            words = "This tool intentionally returns an error for testing"
            say("error", name, {"code": 500, "message": words}, request)
            continue
        case "Test.Wait":
            waiting.add(request)
            say("event", name + ".Progress", {"message": "it waits"}, request)
            continue
        case "Test.ToolWithProgress":
            for done in (0, 50, 100):
                say("event", name + ".Progress", {"done": done, "total": 100}, request)
                time.sleep(0.05)
        case "Test.Slow":
            time.sleep(message["data"].get("ms", 100) / 1000)
        case "Test.Tell":
            say("event", "Test.Told", message["data"], request)
        case "Test.Count":
            counted += 1
        case "Test.TriggerToolChange":
            change_tools()
    replies = {
        "Test.Echo": message["data"],
        "Test.Tell": {},
        "Test.Count": {"counted": counted},
        "Test.Status": {"cancelled": cancelled, "waiting": len(waiting)},
        "Test.Context": message["metadata"],
        "Test.Both": {"kind": message["kind"]},
    }
    say("reply", name, replies.get(name, REPLIES.get(name, "done")), request)
