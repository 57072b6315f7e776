"""An MCP server made with the Python package, to be run as a capability."""

import asyncio
import pathlib

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("words")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def count_words(text: str) -> int:
    """Counts the words of a text."""
    return len(text.split())


@server.tool()
async def shout_it(text: str, context: Context) -> str:
    """Says it loudly."""
    await context.report_progress(1, 2, "half of it")
    if not text:
        raise ToolError("there is nothing to shout")
    return text.upper()


@server.tool()
async def wait_long(mark: str, context: Context) -> str:
    """Waits, and marks in a file that it was cancelled."""
    await context.report_progress(1, 2, "it waits")
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        pathlib.Path(mark).write_text("cancelled")
        raise
    return "waited"


server.run()
