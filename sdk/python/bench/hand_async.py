"""The same by hand with asyncio, as its documentation has it: a reader, and a task for each request."""

import asyncio
import json
import sys
import time
import uuid


async def greet(query):
    return {"text": "Hello, %s!" % query["data"]["name"]}


async def cpu(query):
    return {"seconds": time.process_time()}


HANDLERS = {"HandAsync.Greet": greet, "HandAsync.Cpu": cpu}


async def answer(message, writer):
    try:
        kind, data = "reply", await HANDLERS[message["type"]](message)
    except Exception as error:
        kind, data = "error", {"code": 500, "message": str(error)}
    metadata = {"id": uuid.uuid4().hex, "timestamp": int(time.time() * 1000), "causation": message["metadata"]["id"]}
    writer.write(json.dumps({"kind": kind, "type": message["type"], "data": data, "metadata": metadata}).encode() + b"\n")
    await writer.drain()


async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    tasks = set()
    while line := await reader.readline():
        task = asyncio.create_task(answer(json.loads(line), writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


asyncio.run(main())
