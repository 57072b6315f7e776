"""What is done to the daemon while it works, one thing at a time."""

import asyncio
import os
import resource
import shutil
import signal


class Faults:
    def __init__(self, soak):
        self.soak, self.daemon, self.random, self.disk = soak, soak.daemon, soak.random, soak.disk

    async def run(self):
        kinds = [self.kill_child, self.stop_child, self.stop_daemon, self.hang_up, self.kill_daemon, self.end_daemon]
        kinds.append(self.no_descriptors)
        if self.disk:
            kinds.append(self.full_disk)
        if shutil.which("strace"):
            kinds.append(self.slow_disk)
        while not self.soak.over:
            await asyncio.sleep(self.random.uniform(1, 2 * self.soak.options.pause))
            fault = self.random.choice(kinds)
            if self.daemon.process.poll() is None and not self.soak.over:
                self.soak.account.faults[fault.__name__] += 1
                try:
                    await fault()
                except (OSError, ProcessLookupError, ValueError):
                    pass

    async def kill_child(self):
        for pid in self.daemon.children()[:1]:
            os.kill(pid, signal.SIGKILL)

    async def stop_child(self):
        for pid in self.daemon.children()[:1]:
            await self.stop(pid, 3)

    async def stop_daemon(self):
        await self.stop(self.daemon.process.pid, 2)

    async def stop(self, pid, seconds_max):
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(self.random.uniform(0.2, seconds_max))
        os.kill(pid, signal.SIGCONT)

    async def hang_up(self):
        self.daemon.process.send_signal(signal.SIGHUP)

    async def kill_daemon(self):
        self.daemon.process.kill()

    async def end_daemon(self):
        self.daemon.process.terminate()

    async def no_descriptors(self):
        pid = self.daemon.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 1, before[1]))
        await asyncio.sleep(2)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

    async def full_disk(self):
        ballast = self.disk / "ballast"
        try:
            with open(ballast, "wb", buffering=0) as file:
                try:
                    while file.write(b"\0" * (1 << 20)):
                        pass
                except OSError:
                    pass
                await asyncio.sleep(3)
        finally:
            ballast.unlink()

    async def slow_disk(self):
        """Each flush takes a fifth of a second longer, for some seconds."""
        flushes = "fsync,fdatasync,sync_file_range"
        words = ["strace", "--quiet=all", "--follow-forks", "--output=/dev/null", f"--trace={flushes}"]
        words += [f"--inject={flushes}:delay_exit=200000", f"--attach={self.daemon.process.pid}"]
        tracer = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL)
        await asyncio.sleep(4)
        try:
            tracer.send_signal(signal.SIGINT)
        except ProcessLookupError:
            pass
        await tracer.wait()
