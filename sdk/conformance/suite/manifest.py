"""The manifest of the conformance capability, as the suite gives it to the daemon."""


def manifest(program: list[str]) -> dict:
    integer = {"type": "integer"}
    add = {"type": "object", "properties": {"a": integer, "b": integer}, "required": ["a", "b"]}
    branches = [branch("command", "Conf.Add", add)]
    branches += [branch("query", f"Conf.{name}") for name in QUERIES]
    branches += [branch("command", f"Conf.{name}") for name in COMMANDS]
    return {
        "id": "conformance",
        "description": "What the conformance suite needs.",
        "inbound": {"anyOf": branches},
        "subscribes": ["Conf.Noted"],
        "limits": {"concurrency": 16},
        "restart": {"backoff_ms": 100, "max_restarts": 20},
        "cancel": True,
        "program": {"process": program},
    }


QUERIES = ["Echo", "Fail", "Throw", "Blob", "Unfit", "Context", "Status"]
COMMANDS = ["Slow", "Ask", "Emit", "Work", "Crash", "Print"]
HANDLES = {("query", f"Conf.{name}") for name in QUERIES} | {("command", f"Conf.{name}") for name in [*COMMANDS, "Add"]}


def branch(kind: str, type_name: str, data: dict | None = None) -> dict:
    properties = {"kind": {"const": kind}, "type": {"const": type_name}}
    if data is not None:
        properties["data"] = data
    return {"properties": properties}
