"""An MCP server without any package: one tool, on standard streams. Any other would do in its place."""

import json
import sys

TOOL = {
    "name": "count_words",
    "title": "Count words",
    "description": "Counts the words and characters of a text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "outputSchema": {
        "type": "object",
        "properties": {"words": {"type": "integer"}, "characters": {"type": "integer"}},
        "required": ["words", "characters"],
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


def call(parameters: dict) -> dict:
    text = parameters.get("arguments", {}).get("text")
    if not isinstance(text, str):
        return {"content": [{"type": "text", "text": "the argument text is missing"}], "isError": True}
    found = {"words": len(text.split()), "characters": len(text)}
    return {"content": [{"type": "text", "text": json.dumps(found)}], "structuredContent": found}


def result(request: dict) -> dict | None:
    parameters = request.get("params") or {}
    match request["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "words", "version": "1.0.0"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call" if parameters.get("name") == TOOL["name"]:
            return call(parameters)
        case "ping":
            return {}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    found = result(request)
    if found is None:
        answer["error"] = {"code": -32601, "message": f"there is no method {request['method']}"}
    else:
        answer["result"] = found
    print(json.dumps(answer), flush=True)
