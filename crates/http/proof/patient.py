"""Every limit of time, as it is shipped: clients that wait to see what becomes of them, all at once and from the start."""

import contextlib
import select
import threading
import time

from daemon import Client, request


class Patient(threading.Thread):
    """Waits for the server to close, and says how long that took and what was said."""

    def __init__(self, name, daemon, start, least, most, says=b""):
        super().__init__(daemon=True)
        self.name_of_it, self.daemon_of_it, self.start_with = name, daemon, start
        self.least, self.most, self.says = least, most, says
        self.took, self.got = None, b""
        self.start()

    def run(self):
        with self.daemon_of_it.connect() as stream:
            stream.settimeout(150)
            self.start_with(stream)
            began = time.monotonic()
            with contextlib.suppress(ConnectionError):
                while piece := stream.recv(65536):
                    self.got += piece
            self.took = time.monotonic() - began

    def check(self):
        self.join(timeout=150)
        assert self.took is not None, f"{self.name_of_it}: never closed"
        print(f"  {self.name_of_it:<28} closed after {self.took:.1f} s")
        # A timer is never early; how late it may be depends on the machine.
        assert self.least - 0.5 <= self.took <= self.most, f"{self.name_of_it}: closed after {self.took:.1f} s"
        assert self.says in self.got, f"{self.name_of_it}: {self.got[:300]!r}"


def begin(daemon):
    head = request("POST", "/v1/commands/Memory.Set").split(b"Content-Length")[0]

    def used(stream):
        # It has shown its token: whoever has not makes room for others.
        stream.sendall(request("POST", "/v1/queries/Syscall.Ping", "1"))
        assert b"200" in stream.recv(4096)

    return [
        Patient("a connection that says nothing", daemon, lambda stream: None, 10, 40),
        Patient("a head that does not end", daemon, lambda stream: stream.sendall(b"GET /livez HTTP/1.1\r\nHo"), 10, 40),
        Patient("a body that does not come", daemon, lambda stream: stream.sendall(head + b"Content-Length: 9\r\n\r\n12"), 30, 60, b" 408 "),
        Patient("an idle connection", daemon, used, 75, 120),
        Deaf(daemon),
    ]


class Deaf(threading.Thread):
    """A reader of events that reads nothing: it is closed when it has taken no byte for 30 s."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.of, self.took = daemon, None
        self.start()

    def run(self):
        with self.of.connect() as stream:
            stream.sendall(request("GET", "/v1/events?types=Shop.Told"))
            teller = Client(self.of)
            # More than the buffers of both ends hold.
            for _ in range(200):
                teller.ask("POST", "/v1/commands/Shop.Tell", {"bytes": 100000})
            began = time.monotonic()
            while time.monotonic() < began + 120:
                time.sleep(0.5)
                poll = select.poll()
                poll.register(stream, select.POLLRDHUP)
                if poll.poll(0):
                    self.took = time.monotonic() - began
                    return

    def check(self):
        self.join(timeout=150)
        assert self.took is not None, "a reader that reads nothing was never closed"
        print(f"  {'a stream that is not read':<28} closed after {self.took:.1f} s")
        assert self.took > 20, self.took
