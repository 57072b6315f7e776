"""What the official conformance suite wants to find behind the tools: a capability by the bare contract."""

import json
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
    "Test.ToolWithProgress": "done",
    "Test.Slow": "done",
    "Test.LoggingTool": "done",
    "Test.StreamingElicitation": "done",
}


def say(kind: str, type_name: str, data, cause: str) -> None:
    metadata = {"id": str(uuid.uuid4()), "timestamp": int(time.time() * 1000), "causation": cause}
    print(json.dumps({"kind": kind, "type": type_name, "data": data, "metadata": metadata}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    name, request = message["type"], message["metadata"]["id"]
    if message["kind"] not in ("command", "query"):
        continue
    if name == "Test.ErrorHandling":
        say("error", name, {"code": 500, "message": "This tool intentionally returns an error for testing"}, request)
        continue
    if name == "Test.ToolWithProgress":
        for done in (0, 50, 100):
            say("event", name + ".Progress", {"done": done, "total": 100}, request)
            time.sleep(0.05)
    if name == "Test.Slow":
        time.sleep(message["data"].get("ms", 100) / 1000)
    if name == "Test.Echo":
        say("reply", name, message["data"], request)
        continue
    if name == "Test.Tell":
        say("event", "Test.Told", message["data"], request)
        say("reply", name, {}, request)
        continue
    say("reply", name, REPLIES[name], request)
