"""What the bridge promises and no suite of others looks for: changes of the list, many tools, rights, cancel, ids, HTTP, restarts.

python bridge.py MAINSPRING FOLDER: FOLDER is empty.
"""

import asyncio
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

import httpx2
import mcp
from mcp.client.streamable_http import streamable_http_client

MAINSPRING, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
HERE = pathlib.Path(__file__).resolve().parent
TOKEN = "a-token-of-the-suite-0123456789"
PATIENCE = 60
CHANGING = "Changing_Ping"
passed = failed = 0


def check(words: str, holds: object, found: object = None) -> None:
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'ok  ' if holds else 'FAIL'} bridge: {words}" + ("" if holds else f": {found!r}"), flush=True)


class Daemon:
    """The daemon with the capability of the suite, and with so many others that a list would be too long."""

    def __init__(self, name: str, types_count: int = 0) -> None:
        self.folder = FOLDER / name
        (self.folder / "test").mkdir(parents=True)
        for file in ("fixture.py", "capability.json"):
            shutil.copy(HERE / file, self.folder / "test")
        manifests = 'manifests = ["*/capability.json"]\n'
        (self.folder / "mainspring.toml").write_text(manifests + '[[listen]]\nunix = "app.sock"\n')
        if types_count:
            (self.folder / "many").mkdir()
            names = [f"Many.Number{number}" for number in range(types_count)]
            data = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
            branches = [
                {"properties": {"kind": {"const": "query"}, "type": {"const": name}, "data": data}, "description": f"Counts to {name[11:]}."}
                for name in names
            ]
            program = {"process": ["python3", "../test/fixture.py"]}
            manifest = {"id": "many", "description": "Many things.", "inbound": {"anyOf": branches}, "program": program}
            (self.folder / "many/capability.json").write_text(json.dumps(manifest))
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([MAINSPRING, "up", "--json"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.process.stdout.readline()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)

    def client(self, *options: str, mode: str = "auto", **more) -> mcp.Client:
        words = ["mcp", "--socket", str(self.folder / "app.sock"), *options]
        return mcp.Client(mcp.StdioServerParameters(command=MAINSPRING, args=words), mode=mode, cache=None, **more)


async def names(client: mcp.Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def until(holds, words: str) -> object:
    """Waits until something holds; what it is then."""
    found = None
    for _ in range(PATIENCE * 10):
        found = await holds()
        if found:
            return found
        await asyncio.sleep(0.1)
    check(f"{words} within {PATIENCE} s", False, found)
    return found


async def changes(daemon: Daemon) -> None:
    async with daemon.client() as client:
        async with client.listen(tools_list_changed=True) as changed:
            before = await names(client)
            await client.call_tool("Test_TriggerToolChange", {})
            event = await asyncio.wait_for(anext(aiter(changed)), PATIENCE)
            check("a client that listens is told that the list has changed", "Tools" in type(event).__name__, event)
        check("a capability that came is in the list", set(await names(client)) - set(before) == {CHANGING})
    told = asyncio.Event()

    async def handler(message: object) -> None:
        if "ToolListChanged" in repr(message):
            told.set()

    async with daemon.client(mode="legacy", message_handler=handler) as client:
        check("it is there for the next client", CHANGING in await names(client))
        await client.call_tool("Test_TriggerToolChange", {})
        await asyncio.wait_for(told.wait(), PATIENCE)
        check("a client of the older era is told without asking", CHANGING not in await names(client))


async def many(daemon: Daemon) -> None:
    async with daemon.client() as client:
        listed = await names(client)
        wanted = {"search_capabilities", "describe_capability", "call_capability", "wait_for_event"}
        check("above 40 tools a model searches, describes and calls", set(listed) == wanted, listed)
        found = (await client.call_tool("search_capabilities", {"text": "counts to 17"})).structured_content
        check("what fits best comes first", found["types"][0]["type"] == "Many.Number17", found)
        described = (await client.call_tool("describe_capability", {"type": "Many.Number17"})).structured_content
        check("a description has the schema", described["handlers"][0]["input"]["required"] == ["text"], described)
        called = await client.call_tool("call_capability", {"type": "Many.Number17", "data": {"text": "a"}})
        check("a call ends in a reply", not called.is_error and called.content[0].text == "done", called)
        refused = await client.call_tool("call_capability", {"type": "Many.Number17", "data": {}})
        check("data that does not fit is told", refused.is_error and "text" in refused.content[0].text, refused)
        refused = await client.call_tool("call_capability", {"type": "Sys.Reload", "data": {}})
        check("what operators do is not to be had so", refused.is_error, refused)
        for kind in ("command", "query"):
            both = await client.call_tool("call_capability", {"type": "Test.Both", "kind": kind})
            check(f"of a type that is both, the {kind} is called", both.structured_content == {"kind": kind}, both)
    async with daemon.client("--all") as client:
        listed = await names(client)
        check("--all lists them", len([name for name in listed if name.startswith("Many_")]) == 45, len(listed))
        check("a type that is both has two tools", {"Test_Both", "Test_Both_change"} <= set(listed), listed)


async def rights(daemon: Daemon) -> None:
    async with daemon.client() as client:
        listed = await names(client)
        check("without --operator there is no operator's tool", not [name for name in listed if name.startswith("Sys_")], listed)
    async with daemon.client("--operator") as client:
        wanted = {"Sys_Actors", "Sys_Stats", "Sys_Trace", "Sys_DeadLetters", "Sys_DeadLetters_change", "Sys_Logs", "Sys_Reload", "Sys_RestartActor"}
        listed = set(await names(client))
        check("--operator adds them", wanted <= listed, wanted - listed)
        actors = (await client.call_tool("Sys_Actors", {})).structured_content
        check("and they work", "test" in [actor["capabilityId"] for actor in actors["actors"]], actors)
    async with daemon.client("--allow", "Test.Echo,Test.Told") as client:
        check("--allow leaves the rest out of the list", await names(client) == ["Test_Echo", "wait_for_event"], await names(client))
        echo = await client.call_tool("Test_Echo", {"text": "a"})
        check("what is allowed works", not echo.is_error, echo)
        with contextlib.suppress(mcp.MCPError):
            refused = await client.call_tool("Memory_Get", {"key": "a"})
            check("what is not allowed is no tool", refused.is_error, refused)
        refused = await client.call_tool("wait_for_event", {"types": ["Memory.*"], "timeout_ms": 2000})
        check("nor are its events to be had", refused.is_error, refused)
        for uri in ("mainspring://events/Memory.*", "mainspring://capabilities/memory"):
            try:
                read = await client.read_resource(uri)
                check(f"nor is {uri}", '"Memory.' not in read.contents[0].text, read)
            except mcp.MCPError as error:
                check(f"nor is {uri}", True, error)
        await restarts(daemon, client)


async def restarts(daemon: Daemon, client: mcp.Client) -> None:
    """A bridge outlives its daemon, and has no more rights at the next one."""
    daemon.stop()
    daemon.start()

    async def works() -> bool:
        return not (await client.call_tool("Test_Echo", {"text": "again"})).is_error

    check("a bridge finds the daemon that was started again", await until(works, "it works again"))
    refused = await client.call_tool("wait_for_event", {"types": ["Memory.*"], "timeout_ms": 2000})
    check("and has given up there what it was not asked for", refused.is_error, refused)


async def identity(daemon: Daemon) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with daemon.client() as client:
        one = (await client.call_tool("Test_Context", {}, meta={"traceparent": trace})).structured_content
        two = (await client.call_tool("Test_Context", {})).structured_content
        check("trace context travels with the message", one.get("traceparent") == trace, one)
        check("all calls of a client are one workflow", one["correlation"] == two["correlation"], (one, two))
        check("whose name says where it comes from", re.match("mcp-[0-9a-f]{16}", one["correlation"]), one)
        own = (await client.call_tool("Test_Context", {}, meta={"mainspring/correlation": "mine"})).structured_content
        check("a client can name another", own["correlation"] == "mine", own)
        counts = [(await client.call_tool("Test_Count", {}, meta={"mainspring/id": "only-once"})).structured_content for _ in range(2)]
        check("a command with the same id is done once", counts[0] == counts[1], counts)
    async with daemon.client() as client:
        other = (await client.call_tool("Test_Context", {})).structured_content
        check("another client is another workflow", other["correlation"] != one["correlation"], other)


async def cancel(client: mcp.Client, words: str) -> None:
    before = (await client.call_tool("Test_Status", {})).structured_content["cancelled"]
    under_way = asyncio.Event()

    async def progress(*_: object) -> None:
        under_way.set()

    task = asyncio.create_task(client.call_tool("Test_Wait", {}, progress_callback=progress))
    await asyncio.wait_for(under_way.wait(), PATIENCE)
    task.cancel()
    await asyncio.wait([task])

    async def stopped() -> bool:
        status = (await client.call_tool("Test_Status", {})).structured_content
        return status["cancelled"] == before + 1 and status["waiting"] == 0

    check(f"{words} that cancels stops the capability", await until(stopped, "it stopped"))


async def resources(daemon: Daemon) -> None:
    document = daemon.folder / "notes.md"
    document.write_text("# Notes")
    async with daemon.client("--document", str(document)) as client:
        listed = {str(resource.uri) for resource in (await client.list_resources()).resources}
        wanted = {"mainspring://events/*", "mainspring://capabilities/test", "mainspring://docs/protocol", "mainspring://docs/notes.md"}
        check("events, capabilities and documents are resources", wanted <= listed, listed)
        templates = {template.uri_template for template in (await client.list_resource_templates()).resource_templates}
        check("with templates", "mainspring://events/{pattern}" in templates, templates)
        read = (await client.read_resource("mainspring://docs/notes.md")).contents[0]
        check("a document of one's own can be read", (read.text, read.mime_type) == ("# Notes", "text/markdown"), read)
        read = json.loads((await client.read_resource("mainspring://capabilities/test")).contents[0].text)
        check("what a capability handles can be read", "Test.Echo" in [one["name"] for one in read["types"]], read)


def answer_to(url: str, headers: dict[str, str], body: bytes = b"{}") -> int:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


async def by_http(daemon: Daemon) -> None:
    environment = {**os.environ, "MAINSPRING_MCP_TOKEN": TOKEN}
    words = [MAINSPRING, "mcp", "--socket", str(daemon.folder / "app.sock"), "--http", "127.0.0.1:0"]
    bridge = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://\S+", bridge.stderr.readline())[0]
        shown = {"Authorization": f"Bearer {TOKEN}"}
        check("without a token nothing is served", answer_to(url, {}) == 401)
        check("nor with a wrong one", answer_to(url, {"Authorization": f"Bearer {TOKEN}x"}) == 401)
        check("nor elsewhere", answer_to(url + "/other", shown) == 404)
        check("nor to a page of somebody else", answer_to(url, {**shown, "Origin": "http://evil.example"}) == 403)
        check("nor under another name", answer_to(url, {**shown, "Host": "evil.example"}) == 403)
        check("nor a body that is too long", answer_to(url, shown, b" " * (3 << 20)) in (400, 413))
        for mode in ("auto", "legacy"):
            async with httpx2.AsyncClient(headers=shown, timeout=PATIENCE) as http:
                async with mcp.Client(streamable_http_client(url, http_client=http), mode=mode, cache=None) as client:
                    echo = await client.call_tool("Test_Echo", {"text": "by HTTP"})
                    check(f"{mode}: a tool is called by HTTP", echo.structured_content == {"text": "by HTTP"}, echo)
                    await cancel(client, f"{mode}: a client by HTTP")
                    if mode == "auto":
                        async with client.listen(tools_list_changed=True) as changed:
                            await client.call_tool("Test_TriggerToolChange", {})
                            event = await asyncio.wait_for(anext(aiter(changed)), PATIENCE)
                            check("a client by HTTP is told that the list has changed", event is not None)
    finally:
        bridge.terminate()
        check("the bridge ends with SIGTERM", bridge.wait(30) == 0)


async def main() -> None:
    daemon = Daemon("one")
    try:
        await changes(daemon)
        await identity(daemon)
        await resources(daemon)
        for mode in ("auto", "legacy"):
            async with daemon.client(mode=mode) as client:
                await cancel(client, f"{mode}: a client")
        await by_http(daemon)
        await rights(daemon)
    finally:
        daemon.stop()
    daemon = Daemon("many", 45)
    try:
        await many(daemon)
    finally:
        daemon.stop()


asyncio.run(main())
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
