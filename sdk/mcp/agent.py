"""A model that follows a script, with the capabilities of examples/agent through `mainspring mcp`.

python agent.py MAINSPRING FOLDER GUEST: the daemon of the example runs in FOLDER; GUEST is its sandboxed guest.
"""

import asyncio
import json
import pathlib
import subprocess
import sys

import mcp

MAINSPRING, FOLDER, GUEST = sys.argv[1:4]
BRIDGE = mcp.StdioServerParameters(command=MAINSPRING, args=["mcp", "--socket", f"{FOLDER}/agent.sock", "--allow", "Notes.*,Calendar.*,Pages.*,Words.*"])
passed = failed = 0


def check(words: str, holds: bool, found: object = None) -> None:
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'ok  ' if holds else 'FAIL'} agent: {words}" + ("" if holds else f": {found!r}"), flush=True)


async def choose(client: mcp.Client, *words: str) -> str:
    """The one tool whose description has all of these words: what a model goes by."""
    tools = (await client.list_tools()).tools
    fitting = [tool.name for tool in tools if all(word in (tool.description or "").lower() for word in words)]
    check(f"one tool fits {' '.join(words)!r}", len(fitting) == 1, fitting)
    return fitting[0] if fitting else ""


def manifest_of_the_guest() -> None:
    """The guest says by itself what it handles, as programs with an SDK do."""
    printed = subprocess.run([MAINSPRING, "run", GUEST, "--", "--manifest"], capture_output=True, text=True, timeout=120, check=False)
    found = json.loads(printed.stdout or "null")
    wanted = json.loads(pathlib.Path(FOLDER, "capabilities/pages/capability.json").read_text())
    for name in ("types", "program"):
        wanted.pop(name, None)
    check("the guest prints its manifest", found is not None and {**found, "types": None} == {**wanted, "types": None}, printed)


async def main() -> None:
    manifest_of_the_guest()
    async with mcp.Client(BRIDGE) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        wanted = {"Notes_Add", "Notes_Find", "Notes_Drop", "Calendar_Book", "Calendar_Day", "Pages_Fetch", "Words_CountWords", "wait_for_event"}
        check("it sees what it may use, and nothing else", names == wanted, names)

        note = await client.call_tool(await choose(client, "keeps", "note"), {"text": "Buy milk for the meeting"})
        check("a note is kept", note.structured_content == {"number": 1, "text": "Buy milk for the meeting"}, note)
        found = await client.call_tool(await choose(client, "finds", "notes"), {"words": "MILK"})
        check("and found again", len(found.structured_content["notes"]) == 1, found)

        book = await choose(client, "books", "appointment")
        meeting = {"title": "Meeting", "start": "2026-11-17T10:00", "minutes": 60}
        wrong = await client.call_tool(book, {**meeting, "start": "tomorrow at ten"})
        check("a wrong time is told, with its place", wrong.is_error and "data/start" in wrong.content[0].text, wrong)
        waiting = asyncio.create_task(client.call_tool("wait_for_event", {"types": ["Calendar.Booked"], "timeout_ms": 30_000}))
        await asyncio.sleep(1)
        right = await client.call_tool(book, meeting)
        check("the model corrects itself", right.structured_content == meeting, right)
        told = (await waiting).structured_content["events"]
        check("what it waited for has happened", bool(told) and told[0]["data"] == meeting, told)
        taken = await client.call_tool(book, {**meeting, "title": "Other", "start": "2026-11-17T10:30"})
        check("a time that is taken is refused in words", taken.is_error and "Meeting is at" in taken.content[0].text, taken)

        page = await client.call_tool("Pages_Fetch", {"path": "/readyz"})
        check("the sandboxed guest reaches its one host", (page.structured_content or {}).get("status") == 200, page)
        counted = await client.call_tool("Words_CountWords", {"text": "one two three"})
        check("the MCP server behind the daemon answers", counted.structured_content == {"words": 3, "characters": 13}, counted)


asyncio.run(main())
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
