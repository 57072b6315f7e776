"""CPU of a capability written with the SDK against the same program by hand, through the real daemon.

    python3 sdk/python/bench/bench.py target/release/mainspring [requests] [in flight]

Prints, for each program, the CPU time of its process per request and the ratio to the program by hand; the last two
lines are the client's. Rounds alternate, so that whatever else the machine does is shared by all; the median counts.
"""

import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = {"hand": "Hand", "sdk": "Sdk", "hand_async": "HandAsync", "sdk_async": "SdkAsync"}
ROUNDS = 7
#: More than this is a failure.
RATIO_MAX = 1.15


def manifest(program: str, name: str) -> str:
    inbound = {"properties": {"kind": {"const": "query"}, "type": {"enum": [f"{name}.Greet", f"{name}.Cpu"]}}}
    return json.dumps(
        {
            "id": program,
            "description": "Greets people by name.",
            "inbound": inbound,
            "limits": {"concurrency": 64 if "async" in program else 1},
            "program": {"process": [sys.executable, str(HERE / f"{program}.py")]},
        }
    )


class ByHand:
    """A client by hand: a socket and a file."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lines = self.socket.makefile("rb")
        self.number = 0

    def send(self, type_name: str, data: object) -> None:
        self.number += 1
        metadata = {"id": f"{os.getpid()}-{self.number}", "timestamp": int(time.time() * 1000)}
        message = {"kind": "query", "type": type_name, "data": data, "metadata": metadata}
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict:
        message = json.loads(self.lines.readline())
        assert message["kind"] == "reply", message
        return message["data"]

    def query(self, type_name: str, data: object) -> dict:
        self.send(type_name, data)
        return self.receive()


def round_of(client: ByHand, name: str, requests: int, in_flight: int) -> float:
    """Microseconds of CPU that the capability uses for a request."""
    before = client.query(f"{name}.Cpu", {})["seconds"]
    for _ in range(in_flight):
        client.send(f"{name}.Greet", {"name": "Ada"})
    for _ in range(requests - in_flight):
        client.receive()
        client.send(f"{name}.Greet", {"name": "Ada"})
    for _ in range(in_flight):
        client.receive()
    return (client.query(f"{name}.Cpu", {})["seconds"] - before) / requests * 1e6


def client_round(query, requests: int) -> float:
    before = time.process_time()
    for _ in range(requests):
        query("Syscall.Ping", {"name": "Ada"})
    return (time.process_time() - before) / requests * 1e6


def main() -> int:
    daemon, requests, in_flight = sys.argv[1], int((sys.argv[2:] or ["3000"])[0]), int((sys.argv[3:] or ["1"])[0])
    with tempfile.TemporaryDirectory() as folder:
        for program, name in PROGRAMS.items():
            pathlib.Path(folder, f"{program}.json").write_text(manifest(program, name))
        config = pathlib.Path(folder, "mainspring.toml")
        config.write_text('manifests = ["*.json"]\n[[listen]]\nunix = "s"\n[log]\nlevel = "error"\n')
        running = subprocess.Popen([daemon, "up"], cwd=folder, stdout=subprocess.DEVNULL)
        try:
            return measure(f"{folder}/s", requests, in_flight)
        finally:
            running.terminate()
            running.wait()


def measure(path: str, requests: int, in_flight: int) -> int:
    import mainspring

    with mainspring.sync.connect(path, wait=20) as ms:
        client = ByHand(path)
        figures: dict[str, list[float]] = {name: [] for name in [*PROGRAMS, "client by hand", "client"]}
        for _ in range(ROUNDS):
            for program, name in PROGRAMS.items():
                figures[program].append(round_of(client, name, requests, in_flight))
            figures["client by hand"].append(client_round(client.query, requests))
            figures["client"].append(client_round(ms.query, requests))
    median = {name: statistics.median(values) for name, values in figures.items()}
    worst = 0.0
    for ours, theirs in (("sdk", "hand"), ("sdk_async", "hand_async"), ("client", "client by hand")):
        ratio = statistics.median(one / other for one, other in zip(figures[ours], figures[theirs], strict=True))
        worst = max(worst, ratio)
        print(f"{theirs:15} {median[theirs]:7.2f} us CPU/request")
        print(f"{ours:15} {median[ours]:7.2f} us CPU/request   ratio {ratio:.2f}")
    # A short run shows figures that mean little.
    return int(worst > RATIO_MAX and not os.environ.get("BENCH_UNJUDGED"))


if __name__ == "__main__":
    sys.exit(main())
