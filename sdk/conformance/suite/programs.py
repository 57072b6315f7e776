"""What the suite starts: the daemon, the two programs of an SDK, and a proxy between client and daemon."""

import json
import os
import queue
import signal
import socket
import subprocess
import threading
import time

from .manifest import manifest

PATIENCE = 180.0
"""How long anything may take before the case fails, in seconds. Generous: machines of CI are slow and loaded."""
TOKEN = "a-token-of-the-suite-0123456789"


class Failed(Exception):
    """A case does not hold."""


def expect(condition, words: str) -> None:
    if not condition:
        raise Failed(words)


def equal(found, wanted, words: str = "") -> None:
    if found != wanted:
        raise Failed(f"{words}: expected {show(wanted)}, found {show(found)}")


def show(value, length: int = 400) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= length else f"{text[:length]}... ({len(text)} characters)"


def wait_until(condition, words: str, patience: float = PATIENCE):
    end = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"not within {patience:.0f} s: {words}")
        time.sleep(0.02)


def memory_peak(pid: int) -> int:
    """The most memory that a process had, in bytes."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


class Program:
    """A child process whose output is read line by line by threads of its own."""

    def __init__(self, command: list[str], folder: str, environment: dict | None = None):
        self.lines: queue.Queue = queue.Queue()
        self.errors: list[str] = []
        # Cleared, no more of its output is read (but for one line that is waited for already).
        self.reading = threading.Event()
        self.reading.set()
        own = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}
        own.pop("XDG_RUNTIME_DIR", None)
        self.process = subprocess.Popen(
            command, cwd=folder, env={**own, **(environment or {})},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        self.threads = [threading.Thread(target=self.read_output, daemon=True), threading.Thread(target=self.read_errors, daemon=True)]
        for thread in self.threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def read_output(self) -> None:
        while True:
            self.reading.wait()
            line = self.process.stdout.readline()
            self.lines.put(line or None)
            if not line:
                return

    def read_errors(self) -> None:
        for line in self.process.stderr:
            self.errors.append(line.decode("utf-8", "replace"))

    def write(self, data: bytes) -> None:
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def next_line(self, patience: float = PATIENCE):
        """The next line, or None at the end of the output."""
        try:
            return self.lines.get(timeout=patience)
        except queue.Empty:
            raise Failed(f"no line within {patience:.0f} s; its errors: {self.last_errors()}") from None

    def end_input(self) -> None:
        self.process.stdin.close()

    def wait(self, patience: float = PATIENCE) -> int:
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise Failed(f"it has not ended within {patience:.0f} s; its errors: {self.last_errors()}") from None

    def last_errors(self) -> str:
        return "".join(self.errors[-20:]) or "none"

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reading.set()
        for thread in self.threads:
            thread.join(5)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except OSError:
                pass


class Bare(Program):
    """A capability on pipes, with the suite in the daemon's place."""

    def __init__(self, command: list[str], folder: str):
        super().__init__(command, folder)
        self.count = 0

    def send(self, kind: str, type_name: str, data, **metadata) -> str:
        self.count += 1
        name = f"q{self.count}"
        message = {"kind": kind, "type": type_name, "data": data, "metadata": {"id": name, "timestamp": int(time.time() * 1000), **metadata}}
        self.write(json.dumps(message).encode() + b"\n")
        return name

    def receive(self, patience: float = PATIENCE) -> dict:
        line = self.next_line(patience)
        expect(line is not None, f"the output ended; its errors: {self.last_errors()}")
        try:
            message = json.loads(line)
        except ValueError:
            raise Failed(f"what it wrote is no message: {line[:200]!r}") from None
        check_message(message)
        return message

    def outcome(self, name: str) -> dict:
        """The outcome of a request; whatever comes before it is left out."""
        while True:
            message = self.receive()
            if message["kind"] in ("reply", "error") and message["metadata"].get("causation") == name:
                return message

    def ask(self, kind: str, type_name: str, data, **metadata) -> dict:
        return self.outcome(self.send(kind, type_name, data, **metadata))


def check_message(message: dict) -> None:
    expect(isinstance(message, dict) and isinstance(message.get("metadata"), dict), f"no message: {show(message)}")
    about = message["metadata"]
    expect(isinstance(about.get("id"), str) and about["id"], f"no id: {show(message)}")
    stamp = about.get("timestamp")
    expect(isinstance(stamp, int) and not isinstance(stamp, bool) and stamp >= 0, f"no timestamp: {show(message)}")
    expect("data" in message, f"no data: {show(message)}")


class Daemon:
    """The real daemon in a folder of its own, with a Unix socket, a TCP socket, and the conformance capability."""

    def __init__(self, program: str, capability: list[str], folder: str, own_manifest: dict | None = None):
        self.program, self.folder = program, folder
        self.socket = os.path.join(folder, "app.sock")
        self.port = 0
        found = own_manifest or manifest(capability)
        with open(os.path.join(folder, "capability.json"), "w", encoding="utf-8") as file:
            json.dump(found, file)
        self.start()

    def start(self) -> None:
        config = (
            'manifests = ["capability.json"]\n\n[[listen]]\nunix = "app.sock"\n\n'
            f'[[listen]]\ntcp = "127.0.0.1:{self.port}"\ntokens = [{{ name = "suite", token = "{TOKEN}" }}]\n'
        )
        path = os.path.join(self.folder, "daemon.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(config)
        os.chmod(path, 0o600)
        self.log = open(os.path.join(self.folder, "daemon.log"), "ab")
        own = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}
        self.process = subprocess.Popen(
            [self.program, "up", "--json", "--config", "daemon.toml"], cwd=self.folder, env=own,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log,
        )
        summary = self.process.stdout.readline()
        boot = json.loads(summary) if summary else {}
        expect(boot.get("type") == "Sys.BootComplete", f"the daemon does not start: {summary[:500]!r}; {self.words()}")
        self.port = next(int(each.rsplit(":", 1)[1]) for each in boot["data"]["adapters"] if each.startswith("tcp:"))

    def words(self) -> str:
        with open(os.path.join(self.folder, "daemon.log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def raw(self) -> "Raw":
        return Raw(self.socket)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        self.process.stdout.close()
        self.log.close()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            # A second signal ends its patience with what is still under way.
            for patience in (1, 10):
                self.process.terminate()
                try:
                    self.process.wait(patience)
                    break
                except subprocess.TimeoutExpired:
                    pass
            else:
                self.process.kill()
                self.process.wait()
        if not self.log.closed:
            self.close()


class Raw:
    """A client of the suite's own, without any SDK."""

    def __init__(self, path: str):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")
        self.count = 0

    def send(self, kind: str, type_name: str, data, **metadata) -> str:
        self.count += 1
        name = metadata.pop("id", f"raw-{os.getpid()}-{id(self)}-{self.count}-{time.monotonic_ns()}")
        message = {"kind": kind, "type": type_name, "data": data, "metadata": {"id": name, "timestamp": 0, **metadata}}
        self.socket.sendall(json.dumps(message).encode() + b"\n")
        return name

    def receive(self, patience: float = PATIENCE):
        """The next message; None if there is none in time, or the connection ended."""
        self.socket.settimeout(patience)
        try:
            line = self.file.readline()
        except TimeoutError:
            return None
        return json.loads(line) if line else None

    def ask(self, kind: str, type_name: str, data, **metadata) -> dict:
        name = self.send(kind, type_name, data, **metadata)
        while True:
            message = self.receive()
            expect(message is not None, f"no answer to {type_name}")
            if message["metadata"].get("causation") == name and message["kind"] in ("reply", "error"):
                return message

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()
        self.socket.close()


class Client(Program):
    """The conformance client of an SDK, driven line by line."""

    def __init__(self, command: list[str], folder: str, environment: dict):
        super().__init__(command, folder, environment)
        self.numbers = 0
        self.results: dict[int, dict] = {}
        self.notes: dict[int, list[dict]] = {}
        self.changed = threading.Condition()
        self.is_over = False
        threading.Thread(target=self.sort_lines, daemon=True).start()

    def sort_lines(self) -> None:
        while (line := self.lines.get()) is not None:
            try:
                found = json.loads(line)
                number = found["n"]
            except (ValueError, KeyError, TypeError):
                self.errors.append(f"NOT AN ANSWER: {line!r}")
                continue
            with self.changed:
                if "ok" in found or "error" in found:
                    self.results.setdefault(number, found)
                    # A watch can still fail after it began.
                    if "error" in found:
                        self.notes.setdefault(number, []).append(found)
                else:
                    self.notes.setdefault(number, []).append(found)
                self.changed.notify_all()
        with self.changed:
            self.is_over = True
            self.changed.notify_all()

    def start(self, operation: str, **members) -> int:
        self.numbers += 1
        line = {"n": self.numbers, "op": operation, **{name: value for name, value in members.items() if value is not None or name == "data"}}
        self.write(json.dumps(line).encode() + b"\n")
        return self.numbers

    def finish(self, number: int, patience: float = PATIENCE) -> dict:
        with self.changed:
            self.changed.wait_for(lambda: number in self.results or self.is_over, patience)
            if number not in self.results:
                raise Failed(f"no answer to operation {number}; the client's errors: {self.last_errors()}")
            return self.results[number]

    def is_finished(self, number: int) -> bool:
        with self.changed:
            return number in self.results

    def call(self, operation: str, **members) -> dict:
        return self.finish(self.start(operation, **members))

    def ok(self, operation: str, **members):
        found = self.call(operation, **members)
        expect("ok" in found, f"{operation} {members.get('type', '')} failed: {show(found)}")
        return found["ok"]

    def error(self, operation: str, **members) -> dict:
        found = self.call(operation, **members)
        expect("error" in found, f"{operation} {members.get('type', '')} should fail: {show(found)}")
        return found["error"]

    def note(self, number: int, is_wanted, patience: float = PATIENCE) -> dict:
        """A line of an operation that is still under way."""
        with self.changed:
            def found():
                return next((each for each in self.notes.get(number, []) if is_wanted(each)), None)
            self.changed.wait_for(lambda: found() is not None or self.is_over, patience)
            note = found()
            expect(note is not None, f"operation {number} has not said it; it said {show(self.notes.get(number, []))}; {self.last_errors()}")
            return note

    def events(self, number: int) -> list[dict]:
        with self.changed:
            return [each["event"] for each in self.notes.get(number, []) if "event" in each]

    def gaps(self, number: int) -> list[dict]:
        with self.changed:
            return [each["gap"] for each in self.notes.get(number, []) if "gap" in each]


class Proxy:
    """A Unix socket before the daemon's, which keeps the lines that pass and can cut the connections."""

    def __init__(self, path: str, target: str):
        self.path, self.target = path, target
        self.upward: list[bytes] = []
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.swallow = None
        """Given each line downward: true cuts the connection instead of delivering it."""
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(path)
        os.chmod(path, 0o600)
        self.server.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            try:
                daemon = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                daemon.connect(self.target)
            except OSError:
                client.close()
                continue
            self.pairs.append((client, daemon))
            for source, sink, keeps in ((client, daemon, True), (daemon, client, False)):
                threading.Thread(target=self.carry, args=(source, sink, keeps), daemon=True).start()

    def carry(self, source: socket.socket, sink: socket.socket, keeps: bool) -> None:
        file = source.makefile("rb")
        try:
            for line in file:
                if keeps:
                    self.upward.append(line)
                elif self.swallow is not None and self.swallow(line):
                    self.swallow = None
                    break
                sink.sendall(line)
        except (OSError, ValueError):
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self) -> None:
        for pair in self.pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self.pairs.clear()

    def stop(self) -> None:
        self.server.close()
        self.cut()
