"""An MCP server as a capability: written by `mainspring new`, run by the daemon, used like any other.

python adapter.py MAINSPRING FOLDER: FOLDER is empty.
"""

import json
import os
import subprocess
import sys
import time

MAINSPRING, FOLDER = sys.argv[1:3]
SERVER = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "server.py")]
passed = failed = 0


def check(words: str, holds: bool, found: object = None) -> None:
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'ok  ' if holds else 'FAIL'} adapter: {words}" + ("" if holds else f": {found!r}"), flush=True)


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([MAINSPRING, *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)


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
finally:
    daemon.terminate()
    check("it ends with the daemon", daemon.wait(30) == 0)
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
