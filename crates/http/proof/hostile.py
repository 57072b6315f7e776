"""What a stranger can do to the listener, and what its neighbours feel of it.

Each attack goes on for a while, while a neighbour with a token asks one thing after the other. All of its requests must be
answered, none may take long, and its latency is told.
"""

import contextlib
import os
import random
import socket
import threading
import time

from daemon import Client, eventually, request

SECONDS = 1.5
# One side only, and far above what is measured: the machine may be busy with other things.
NEIGHBOUR_MAX = 2.0
# As it is shipped.
STRANGERS_MAX = 128


class Neighbour(threading.Thread):
    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.client, self.times, self.wrong, self.stop = Client(daemon), [], [], threading.Event()

    def run(self):
        while not self.stop.is_set():
            began = time.monotonic()
            try:
                status, _ = self.client.ask("POST", "/v1/commands/Memory.Set", {"key": "n", "value": len(self.times)})
            except Exception as error:
                status = repr(error)
            self.times.append(time.monotonic() - began)
            if status != 200:
                self.wrong.append(status)
                return


def attacked(daemon, name, attack):
    """Runs an attack again and again; fails if a neighbour suffers."""
    neighbour = Neighbour(daemon)
    neighbour.start()
    # It is known before the attack begins: whoever has shown no token makes room for others.
    eventually("the neighbour is there", lambda: neighbour.times)
    until = time.monotonic() + SECONDS
    rounds = 0
    try:
        while time.monotonic() < until or rounds == 0:
            attack(until)
            rounds += 1
    finally:
        neighbour.stop.set()
        neighbour.join()
    times = sorted(neighbour.times)
    at = lambda share: times[min(len(times) - 1, int(share * len(times)))] * 1000
    print(f"  {name:<28} {rounds:>5} rounds; neighbour: {len(times):>5} requests, p50 {at(0.5):.1f} p99 {at(0.99):.1f} max {times[-1] * 1000:.1f} ms")
    assert not neighbour.wrong, f"{name}: the neighbour got {neighbour.wrong}"
    assert times[-1] < NEIGHBOUR_MAX, f"{name}: the neighbour waited {times[-1]:.1f} s"


def answers(stream):
    """Everything that comes until the server closes."""
    stream.settimeout(30)
    with contextlib.suppress(OSError):
        stream.shutdown(socket.SHUT_WR)
    got = b""
    with contextlib.suppress(ConnectionError):
        while piece := stream.recv(65536):
            got += piece
    return got


def push(stream, piece, count):
    """Writes for as long as the server lets it."""
    with contextlib.suppress(ConnectionError, TimeoutError):
        for _ in range(count):
            stream.sendall(piece)


def endless_heads(daemon):
    def attack(_):
        with daemon.connect() as stream:
            stream.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n")
            push(stream, b"X-%d: " % random.randrange(10**6) + b"x" * 1000 + b"\r\n", 200)
            got = answers(stream)
            assert got == b"" or b" 431 " in got.split(b"\r\n")[0], got[:200]
    return attack


def endless_bodies(daemon):
    token = request("POST", "/v1/commands/Memory.Set").split(b"Content-Length")[0]

    def attack(_):
        with daemon.connect() as stream:
            stream.sendall(token + b"Content-Length: 99999999999\r\n\r\n")
            assert b" 413 " in stream.recv(4096).split(b"\r\n")[0], "before a byte of it was sent"
        with daemon.connect() as stream:
            stream.sendall(token + b"Transfer-Encoding: chunked\r\n\r\n")
            push(stream, b"10000\r\n" + b"x" * 65536 + b"\r\n", 40)
            got = answers(stream)
            assert got == b"" or b" 413 " in got.split(b"\r\n")[0], got[:200]
    return attack


def dribble(daemon, head, count=100):
    """Many connections that send a byte now and then."""
    def attack(until):
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(daemon.connect()) for _ in range(count)]
            for stream in streams:
                stream.sendall(head)
            while time.monotonic() < until:
                for stream in streams:
                    push(stream, b"x", 1)
                time.sleep(0.02)
    return attack


def slow_heads(daemon):
    return dribble(daemon, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ")


def slow_bodies(daemon):
    head = request("POST", "/v1/commands/Memory.Set").split(b"Content-Length")[0]
    return dribble(daemon, head + b"Content-Length: 100000\r\n\r\n")


def idle_connections(daemon):
    def attack(until):
        with contextlib.ExitStack() as stack:
            for _ in range(200):
                stream = stack.enter_context(daemon.connect())
                stream.sendall(request("POST", "/v1/queries/Shop.Stock", '{"item":"a"}'))
            time.sleep(max(0, until - time.monotonic()))
    return attack


def pipelining(daemon):
    many = request("POST", "/v1/commands/Memory.Set", '{"key":"p","value":1}') * 200

    def attack(until):
        with daemon.connect() as stream:
            stream.settimeout(0.2)
            # Nothing is ever read: the server must stop reading, not keep answers.
            sent = 0
            with contextlib.suppress(TimeoutError, ConnectionError):
                while time.monotonic() < until and sent < 64 << 20:
                    stream.sendall(many)
                    sent += len(many)
            assert sent < 32 << 20, "requests are taken though no answer is read"
    return attack


def strangers(daemon):
    def attack(_):
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(daemon.connect()) for _ in range(3 * STRANGERS_MAX)]
            streams[-1].sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in streams[-1].recv(4096).split(b"\r\n")[0], "the newest are served"
            for stream in streams[: 2 * STRANGERS_MAX - 8]:
                stream.settimeout(20)
                with contextlib.suppress(ConnectionError):
                    assert stream.recv(1) == b"", "the oldest goes first"
    return attack


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
LENGTHS = [
    b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    b"Content-Length: 4\r\nContent-Length: 5\r\n", b"Content-Length: +4\r\n", b"Content-Length: 0x4\r\n",
    b"Content-Length: 4, 5\r\n", b"Content-Length : 4\r\n", b"Content-Length: 4\x0b\r\n", b"Content-Length: -1\r\n",
    b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding: chunked, identity\r\n", b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"Transfer-Encoding:\x0bchunked\r\n",
    b" Transfer-Encoding: chunked\r\n", b"Content-Length: 18446744073709551617\r\n",
]


def smuggling(daemon):
    head = request("POST", "/v1/commands/Memory.Set").split(b"Content-Length")[0]

    def attack(_):
        for lengths in LENGTHS:
            with daemon.connect() as stream:
                stream.sendall(head + lengths + b"\r\n1\r\n1\r\n0\r\n\r\n" + SMUGGLED)
                got = answers(stream)
                assert b"/smuggled" not in got, f"{lengths!r}: what followed was served: {got!r}"
    return attack


def garbage(daemon):
    chance = random.Random(7)
    beginnings = [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET ", b"POST /v1/"]

    def attack(_):
        with daemon.connect() as stream:
            push(stream, chance.choice(beginnings) + chance.randbytes(chance.randrange(1, 4096)), 1)
            answers(stream)
    return attack


def resets(daemon):
    def attack(_):
        stream = daemon.connect()
        push(stream, request("POST", "/v1/commands/Shop.Wait", '{"seconds":0.05}'), 1)
        # Closed with an unread answer and no farewell.
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        stream.close()
    return attack


def deaf_streams(daemon):
    """Readers of events that read nothing, while events come."""
    def attack(until):
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                stream = stack.enter_context(daemon.connect())
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                stream.sendall(request("GET", "/v1/events?types=Shop.Told"))
            teller = Client(daemon)
            while time.monotonic() < until:
                assert teller.ask("POST", "/v1/commands/Shop.Tell", {"bytes": 100000})[0] == 200
    return attack


def junk_lines(daemon):
    head = request("POST", "/v1/messages").split(b"Content-Length")[0]

    def attack(_):
        with daemon.connect() as stream:
            stream.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
            push(stream, b"5\r\n{}{}\n\r\n", 2000)
            push(stream, b"0\r\n\r\n", 1)
            answers(stream)
    return attack


ATTACKS = [
    endless_heads, endless_bodies, slow_heads, slow_bodies, idle_connections, pipelining, strangers, smuggling, garbage,
    resets, deaf_streams, junk_lines,
]


def descriptors(daemon):
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


def afterwards(daemon, before):
    """Nothing of the attacks is left."""
    eventually("descriptors are given back", lambda: descriptors(daemon) <= before + 4, 60)
    connections = lambda: daemon.stats()["gauges"]["connections"]
    eventually("connections on the bus are given back", lambda: connections() <= 8, 60)
