"""The programs that are soaked: daemons, each in a folder of its own, and the NATS between them."""

import os
import pathlib
import signal
import subprocess
import time

# A daemon that has not booted by then does not.
BOOT_SECONDS = 60
# One that does not end by then hangs.
END_SECONDS = 60


class DoesNotBoot(Exception):
    def __init__(self, daemon):
        super().__init__(f"the {daemon.name} does not boot; see {daemon.log}")


class Program:
    """A program, started again whenever it ended. One that ends unasked is told of."""

    def __init__(self, name, words, folder, account):
        self.name, self.words, self.folder, self.account = name, words, folder, account
        self.process, self.starts, self.begun = None, 0, 0.0
        # What it was sent of what ends it.
        self.asked = set()
        # Whether it stays ended for now, and whether it has a reason to end by itself.
        self.is_away = self.is_excused = False

    @property
    def log(self):
        return self.folder / f"{self.name}.log"

    def start(self):
        with open(self.log, "ab") as log:
            # In a session of its own: Ctrl-C is for the soak, which ends it in order.
            self.process = subprocess.Popen(
                self.words,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.starts += 1
        self.asked, self.begun = set(), time.monotonic()

    def send(self, number):
        """A signal, if it runs."""
        if number in (signal.SIGKILL, signal.SIGTERM):
            self.asked.add(number)
        self.process.send_signal(number)

    def ensure(self):
        if self.is_away or self.process.poll() is None:
            return
        # One that cannot start is not started twenty times a second.
        if not self.asked and time.monotonic() - self.begun < 1:
            return
        self.judge_end()
        self.start()

    def judge_end(self):
        status = self.process.returncode
        if signal.SIGKILL in self.asked or self.is_excused:
            return
        if not self.asked:
            self.account.violation(f"{self.name} ended by itself with {status}; see {self.log}")
        elif status not in (0, -signal.SIGTERM):
            self.account.violation(f"{self.name} ended with {status}; see {self.log}")

    def end(self):
        """Ends it in order, for good."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.send(signal.SIGTERM)
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.account.violation(f"{self.name} does not end")
                self.kill()
                return
        self.judge_end()

    def kill(self):
        """Ends it, however it is."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def log_has(self, text):
        """The rest of the log from there, or nothing."""
        with open(self.log, errors="replace") as log:
            for line in log:
                if text in line:
                    return (line[line.index(text) :] + log.readline())[:300]
        return None


class Daemon(Program):
    """A daemon with its journal."""

    def __init__(self, name, program, folder, account):
        super().__init__(name, [program, "up", "--config", "mainspring.toml"], folder, account)
        self.socket, self.journal = str(folder / "bus.sock"), folder / "journal"

    def children(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        try:
            return [int(word) for word in pathlib.Path(path).read_text().split()]
        except OSError:
            return []

    def figures(self):
        """What it uses now; nothing if it does not run."""
        pid = self.process.pid
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            rss_mb = int(status.split("VmRSS:")[1].split()[0]) / 1024
            descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        except (OSError, IndexError):
            return {}
        figures = {"start": self.starts, "rss_mb": rss_mb, "descriptors": descriptors}
        figures["journal_mb"] = folder_bytes(self.journal) / (1 << 20)
        return {f"{self.name}.{key}": value for key, value in figures.items()}


def folder_bytes(folder):
    """What its files take of the disk. One may vanish meanwhile."""
    total = 0
    try:
        for entry in os.scandir(folder):
            try:
                total += entry.stat().st_blocks * 512
            except FileNotFoundError:
                pass
    except OSError:
        pass
    return total
