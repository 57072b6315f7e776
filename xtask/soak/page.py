"""A client as the console in a browser is: a stream of messages that stays open, and questions."""

import asyncio
import json
import urllib.parse

LOST_SECONDS = 60
# What the console asks in each round.
QUESTIONS = ["Sys.Stats", "Sys.Actors", "Sys.DeadLetters"]


class Page:
    def __init__(self, soak):
        self.soak, self.account = soak, soak.account
        self.head = f"Host: localhost\r\nAuthorization: Bearer {soak.token}\r\n"

    async def stream(self):
        """The messages that pass, for as long as the connection lasts."""
        tap = urllib.parse.quote(json.dumps({"perSecond": 250}))
        while not self.soak.over:
            writer = None
            try:
                reader, writer = await self.connect()
                writer.write(f"GET /v1/events?tap={tap} HTTP/1.1\r\n{self.head}\r\n".encode())
                status = await asyncio.wait_for(reader.readline(), 10)
                self.account.outcomes[f"page: stream {code(status)}"] += 1
                while not self.soak.over:
                    if not await asyncio.wait_for(reader.read(1 << 16), LOST_SECONDS):
                        break
            except TimeoutError:
                # The daemon is stopped or busy; a page would try again as well.
                self.account.outcomes["page: stream is silent"] += 1
            except OSError:
                pass
            if writer:
                writer.close()
            await asyncio.sleep(0.2)

    async def ask(self):
        """A round of questions a second, and a command: what a page does that is looked at."""
        number = 0
        while not self.soak.over:
            number += 1
            for question in QUESTIONS:
                await self.post(f"/v1/queries/{question}", {})
            await self.post("/v1/commands/Memory.Set", {"key": "page", "value": number})
            await asyncio.sleep(1)

    async def post(self, path, data):
        body = json.dumps(data)
        head = f"POST {path} HTTP/1.1\r\n{self.head}Content-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.account.sent["page"] += 1
        writer = None
        try:
            reader, writer = await self.connect()
            writer.write((head + body).encode())
            answer = await asyncio.wait_for(reader.read(), LOST_SECONDS)
            self.account.outcome("page", f"page: {code(answer)}")
        except TimeoutError:
            self.account.violation(f"no answer to {path} in {LOST_SECONDS} s")
            self.account.no_outcome("page")
        except OSError:
            self.account.no_outcome("page")
        if writer:
            writer.close()

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.soak.port)


def code(answer):
    """The status of a response, if there is one."""
    words = answer.split(b" ", 2)
    return words[1].decode() if len(words) > 2 else "closed"
