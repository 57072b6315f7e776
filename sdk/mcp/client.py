"""A second opinion: the Python client of the protocol on the bridge's standard streams, in both of its eras.

python client.py MAINSPRING FOLDER: FOLDER holds the daemon's socket, app.sock.
"""

import asyncio
import json
import sys

import mcp
from mcp import StdioServerParameters

MAINSPRING, FOLDER = sys.argv[1:3]
BRIDGE = StdioServerParameters(command=MAINSPRING, args=["mcp", "--socket", f"{FOLDER}/app.sock"])
passed = failed = 0


def check(words: str, holds: bool, found: object = None) -> None:
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'ok  ' if holds else 'FAIL'} python client: {words}" + ("" if holds else f": {found!r}"), flush=True)


async def tools(client: mcp.Client) -> None:
    listed = (await client.list_tools()).tools
    names = [tool.name for tool in listed]
    check("every command and query is a tool", {"Memory_Set", "Memory_Get", "Test_Echo"} <= set(names), names)
    check("in a stable order", names == [tool.name for tool in (await client.list_tools()).tools], names)
    echo = next(tool for tool in listed if tool.name == "Test_Echo")
    check("with the schema of its data", echo.input_schema["required"] == ["text"], echo)
    check("and that of its reply", echo.output_schema is not None, echo)
    check("a query is read-only", echo.annotations.read_only_hint is True, echo.annotations)


async def calls(client: mcp.Client) -> None:
    result = await client.call_tool("Test_Echo", {"text": "äöü 日本", "number": 7})
    check("a reply is structured", result.structured_content == {"text": "äöü 日本", "number": 7}, result)
    check("and the same as text", json.loads(result.content[0].text) == result.structured_content, result)
    result = await client.call_tool("Test_Echo", {"number": 7})
    check("data that does not fit is told to the model", result.is_error and "text" in result.content[0].text, result)
    result = await client.call_tool("Memory_Get", {"key": "no such key"})
    check("so is an error of a capability", result.is_error and "no such key" in result.content[0].text, result)
    steps = []

    async def progress(done: float, total: float | None, _: str | None) -> None:
        steps.append((done, total))

    await client.call_tool("Test_ToolWithProgress", {}, progress_callback=progress)
    check("progress comes", steps == [(0, 100), (50, 100), (100, 100)], steps)
    try:
        await client.call_tool("No_Such_Tool", {})
        check("a tool that is none is an error of the protocol", False)
    except mcp.MCPError as error:
        check("a tool that is none is an error of the protocol", "No_Such_Tool" in str(error), error)


async def events(client: mcp.Client) -> None:
    waiting = asyncio.create_task(client.call_tool("wait_for_event", {"types": ["Test.*"], "timeout_ms": 20_000}))
    told = None
    for _ in range(50):
        await client.call_tool("Test_Tell", {"text": "hello"})
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        if done:
            told = waiting.result().structured_content["events"][0]
            break
    check("events are waited for", told is not None and told["type"] == "Test.Told", told)
    await client.read_resource("mainspring://events/Test.*")
    await client.call_tool("Test_Tell", {"text": "again"})
    latest = {}
    for _ in range(50):
        latest = json.loads((await client.read_resource("mainspring://events/Test.*")).contents[0].text)
        if latest["events"]:
            break
        await asyncio.sleep(0.1)
    check("the latest can be read", latest["events"] and latest["events"][-1]["data"] == {"text": "again"}, latest)
    protocol = (await client.read_resource("mainspring://docs/protocol")).contents[0].text
    check("so can the protocol", "Syscall.Describe" in protocol)


async def main() -> None:
    for mode in ("auto", "legacy"):
        async with mcp.Client(BRIDGE, mode=mode) as client:
            print(f"python client: {mode}")
            await tools(client)
            await calls(client)
            await events(client)


asyncio.run(main())
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
