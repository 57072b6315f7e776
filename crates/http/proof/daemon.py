"""A daemon of its own for the checks, in a folder of its own, and a client of it."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
APP = "app-token-0123456789"
OPERATOR = "operator-token-0123456789"


def eventually(what, check, seconds=30):
    """Waits until `check` gives something; fails with `what` if it does not in time."""
    until = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


class Daemon:
    def __init__(self, collector):
        self.folder = Path(tempfile.mkdtemp(prefix="ms-http-"))
        shutil.copy(HERE / "capability.py", self.folder)
        config = (HERE / "mainspring.toml").read_text().replace("COLLECTOR", collector)
        (self.folder / "mainspring.toml").write_text(config)
        (self.folder / "mainspring.toml").chmod(0o600)
        self.log = open(self.folder / "log", "w+")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}
        self.process = subprocess.Popen(
            [os.environ["MAINSPRING"], "up"], cwd=self.folder, stdout=self.log, stderr=subprocess.STDOUT, env=environment
        )
        self.port = int(eventually("the daemon listens", self._port))

    def _port(self):
        text = (self.folder / "log").read_text()
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon has ended:\n{text}")
        found = re.search(r"http://127\.0\.0\.1:(\d+)", text)
        return found and found[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def connect(self):
        stream = socket.create_connection(("127.0.0.1", self.port), timeout=100)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return stream

    def stats(self):
        return Client(self, OPERATOR).ask("POST", "/v1/queries/Sys.Stats", {})[1]

    def end(self):
        """Ends it in order; what it logged."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        text = (self.folder / "log").read_text()
        shutil.rmtree(self.folder)
        assert code == 0, f"exit code {code}:\n{text}"
        assert "panic" not in text, text
        return text


class Client:
    """One connection, kept alive."""

    def __init__(self, daemon, token=APP):
        self.connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
        self.headers = {"Authorization": f"Bearer {token}"}

    def raw(self, method, path, body=None, headers=None):
        self.connection.request(method, path, body, {**self.headers, **(headers or {})})
        answer = self.connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def ask(self, method, path, data=None, headers=None):
        body = None if data is None else json.dumps(data)
        status, _, text = self.raw(method, path, body, headers)
        return status, json.loads(text) if text else None


def request(method, path, body="", token=APP, more=""):
    """A request as bytes."""
    body = body.encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{more}"
    return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
