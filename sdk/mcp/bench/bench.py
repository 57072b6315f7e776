"""What a call of a tool costs through `mainspring mcp`, against a server of the same library with nothing behind it.

    python3 sdk/mcp/bench/bench.py target/release/mainspring target/release/examples/bare_server [calls] [in flight]

Prints the CPU time of each server's process per call, and the ratio. The bridge has one thing more to do, to ask the
daemon and wait; so many calls are under way at a time, as with several agents. Rounds alternate; the median counts.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 7
#: More than this is a failure.
RATIO_MAX = 1.5
HERE = pathlib.Path(__file__).resolve().parent


class Server:
    """A server on its standard streams."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.request("initialize", client)
        self.receive()
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, message: dict) -> None:
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, parameters: dict) -> None:
        self.number += 1
        self.write({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})

    def receive(self) -> dict:
        message = json.loads(self.process.stdout.readline())
        assert "result" in message and not message["result"].get("isError"), message
        return message

    def cpu(self) -> float:
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def round_of(self, tool: str, calls: int, in_flight: int) -> float:
        """Microseconds of CPU for a call."""
        parameters = {"name": tool, "arguments": {"key": "bench"}}
        before = self.cpu()
        for _ in range(in_flight):
            self.request("tools/call", parameters)
        for _ in range(calls - in_flight):
            self.receive()
            self.request("tools/call", parameters)
        for _ in range(in_flight):
            self.receive()
        return (self.cpu() - before) / calls * 1e6


def main() -> int:
    mainspring, bare = sys.argv[1:3]
    calls, in_flight = int((sys.argv[3:] or ["5000"])[0]), int((sys.argv[4:] or ["16"])[0])
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "mainspring.toml").write_text('[[listen]]\nunix = "s"\n[log]\nlevel = "error"\n')
        daemon = subprocess.Popen([mainspring, "up"], cwd=folder, stdout=subprocess.DEVNULL)
        while not pathlib.Path(folder, "s").exists():
            time.sleep(0.05)
        servers = [Server([bare]), Server([mainspring, "mcp", "--socket", f"{folder}/s"])]
        servers[1].request("tools/call", {"name": "Memory_Set", "arguments": {"key": "bench", "value": [1, "two", 3.5]}})
        servers[1].receive()
        try:
            return measure(servers, calls, in_flight)
        finally:
            for server in servers:
                server.process.terminate()
            daemon.terminate()
            daemon.wait()


def measure(servers: list[Server], calls: int, in_flight: int) -> int:
    bare, bridge = servers
    figures: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        # A capability inside of the daemon: what is left is the bridge's own.
        figures.append((bare.round_of("Bench_Echo", calls, in_flight), bridge.round_of("Memory_Get", calls, in_flight)))
    ratio = statistics.median(one / other for other, one in figures)
    print(f"bare rmcp server {statistics.median(other for other, _ in figures):7.2f} us CPU/call")
    print(f"mainspring mcp   {statistics.median(one for _, one in figures):7.2f} us CPU/call   ratio {ratio:.2f}")
    # A short run shows figures that mean little.
    return int(ratio > RATIO_MAX and not os.environ.get("BENCH_UNJUDGED"))


if __name__ == "__main__":
    sys.exit(main())
