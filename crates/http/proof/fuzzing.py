"""What the document says, tried by schemathesis: fixed seed, at most two minutes in all."""

import subprocess
import sys
from pathlib import Path

from daemon import APP

# Streams have no end, NDJSON is not one document, and what always fails is no proof of anything.
LEFT_OUT = ["--exclude-path", "/v1/messages", "--exclude-operation-id", "watch", "--exclude-path", "/v1/commands/Shop.Fail"]
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "unsupported_method,allow_header_conformance,ignored_auth"
)


def run(daemon, target, examples, checks, more):
    program = Path(sys.executable).parent / "schemathesis"
    command = [
        program, "run", f"{daemon.url}/openapi.json", "--no-color", "--header", f"Authorization: Bearer {APP}",
        "--seed", "7", "--max-examples", str(examples), "--phases", "examples,coverage,fuzzing", "--workers", "1",
        "--max-failures", "5", "--request-timeout", "20", "--generation-database", "none", "--warnings", "off",
        "--checks", checks, *LEFT_OUT, *more,
    ]
    told = subprocess.run(command, cwd=target, capture_output=True, text=True, timeout=60)
    print("\n".join(line for line in told.stdout.splitlines() if "generated" in line))
    assert told.returncode == 0, told.stdout[-6000:] + told.stderr[-2000:]


def application(daemon, target):
    """Types of capabilities: valid data is taken, and everything else is refused."""
    types = ["--include-path-regex", r"^/v1/(commands|queries)/(Shop|Memory)\."]
    run(daemon, target, 40, CHECKS + ",negative_data_rejection,positive_data_acceptance", types)


def everything(daemon, target):
    """All that the token may see. What the daemon serves itself has rules beyond its schemas, and an event may be anything."""
    run(daemon, target, 15, CHECKS, [])
