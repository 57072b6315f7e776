"""An MCP server as a capability: written by `mainspring new`, run by the daemon, used like any other.

python adapter.py MAINSPRING FOLDER: FOLDER is empty.
"""

import asyncio
import json
import os
import subprocess
import sys
import time

MAINSPRING, FOLDER = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../python/src"))
import mainspring  # noqa: E402

SERVER = [sys.executable, os.path.join(HERE, "server.py")]
passed = failed = 0


def check(words: str, holds: bool, found: object = None) -> None:
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'ok  ' if holds else 'FAIL'} adapter: {words}" + ("" if holds else f": {found!r}"), flush=True)


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([MAINSPRING, *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)


async def control() -> None:
    """Progress and cancel pass through the daemon to the server, as with any other capability."""
    mark = os.path.join(FOLDER, "mark")
    told: list = []
    async with mainspring.connect(socket=os.path.join(FOLDER, "app.sock")) as client:
        shouting = client.send("Words.ShoutIt", {"text": "a"}, on_progress=told.append, timeout=60)
        await shouting
        check("progress of a tool is progress of its request", told and told[0] == {"done": 1, "total": 2, "message": "half of it"}, told)
        under_way = asyncio.Event()
        waiting = asyncio.create_task(client.send("Words.WaitLong", {"mark": mark}, on_progress=lambda _: under_way.set(), timeout=60))
        await asyncio.wait_for(under_way.wait(), 60)
        waiting.cancel()
        await asyncio.wait([waiting])
        for _ in range(300):
            if os.path.exists(mark):
                break
            await asyncio.sleep(0.1)
    check("a request that is cancelled is cancelled at the server", os.path.exists(mark))


def traced() -> None:
    """A call is one of the messages of its workflow, with the time that it took."""
    run("query", "Words.CountWords", "text=one", "--correlation", "a workflow", "--timeout", "60s")
    trace = run("trace", "a workflow").stdout
    check("a call is traced", "Words.CountWords" in trace and "words" in trace, trace)


def fails() -> None:
    """A server that does not start again leaves its commands among the dead letters."""
    path = os.path.join(FOLDER, "capabilities/words/capability.json")
    with open(path, encoding="utf-8") as file:
        manifest = json.load(file)
    manifest["program"]["mcp"] = [sys.executable, "-c", "print('no server')"]
    manifest["restart"] = {"max_restarts": 1, "backoff_ms": 10}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    run("reload")
    lost = None
    for _ in range(100):
        lost = run("send", "Words.ShoutIt", "text=lost", "--timeout", "60s")
        if lost.returncode != 0 and "words" in run("dead-letters").stdout:
            break
        time.sleep(0.1)
    letters = run("dead-letters")
    check("what cannot be delivered is a dead letter", "Words.ShoutIt" in letters.stdout, (lost, letters))


made = run("new", "capability", "words", "--mcp", *SERVER)
check("`new capability --mcp` asks the server and writes the manifest", made.returncode == 0, made)
checked = run("check")
check("the configuration is sound", checked.returncode == 0, checked)
daemon = subprocess.Popen([MAINSPRING, "up", "--socket", "app.sock"], cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
try:
    os.environ["MAINSPRING_SOCKET"] = os.path.join(FOLDER, "app.sock")
    counted = run("query", "Words.CountWords", "text=one two three", "--wait", "60s", "--timeout", "60s")
    check("a tool that reads is a query", json.loads(counted.stdout or "null") == {"result": 3}, counted)
    shouted = run("send", "Words.ShoutIt", "text=hello", "--timeout", "60s")
    check("any other is a command", "HELLO" in shouted.stdout, shouted)
    refused = run("send", "Words.ShoutIt", "text=", "--timeout", "60s")
    check("a tool's error is an error", refused.returncode == 1 and "nothing to shout" in refused.stderr, refused)
    refused = run("query", "Words.CountWords", "texd=hello", "--timeout", "60s")
    check("data is checked before the server sees it", "422" in refused.stderr, refused)
    before = run("query", "Sys.Actors", "--timeout", "60s").stdout
    pid = next(actor["pid"] for actor in json.loads(before)["actors"] if actor["capabilityId"] == "words")
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    os.kill(int(children[0]), 9)
    again = None
    for _ in range(100):
        again = run("query", "Words.CountWords", "text=one two", "--timeout", "60s")
        if again.returncode == 0:
            break
        time.sleep(0.1)
    check("a server that dies is started again", again is not None and json.loads(again.stdout or "null") == {"result": 2}, again)
    asyncio.run(control())
    traced()
    fails()
finally:
    daemon.terminate()
    check("it ends with the daemon", daemon.wait(30) == 0)
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
