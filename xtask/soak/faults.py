"""What is done to the daemons while they work, one thing at a time."""

import asyncio
import os
import resource
import shutil
import signal

# After this part of the soak no daemon is ended any more, so that what grows in it can be seen.
ENDING_PART = 0.6


class Faults:
    def __init__(self, soak):
        self.soak, self.daemon, self.random = soak, soak.daemon, soak.random
        self.disk, self.uplink = soak.disk, soak.uplink

    def kinds(self):
        """Faults that end a daemon, and the others."""
        ending = [self.kill_daemon, self.end_daemon]
        others = [
            self.kill_child,
            self.stop_child,
            self.stop_daemon,
            self.hang_up,
            self.no_descriptors,
        ]
        if self.disk:
            others.append(self.full_disk)
        if shutil.which("strace"):
            others.append(self.slow_disk)
        if self.uplink:
            ending += [self.kill_neighbour, self.end_neighbour]
            others += [
                self.kill_nats,
                self.stop_nats,
                self.stop_neighbour,
                self.kill_neighbour_child,
            ]
        return ending, others

    async def run(self):
        ending, others = self.kinds()
        while True:
            await self.soak.pause(self.random.uniform(1, 2 * self.soak.options.pause))
            if self.soak.over:
                return
            is_late = self.soak.seconds() > ENDING_PART * self.soak.options.seconds
            fault = self.random.choice(others if is_late else ending + others)
            self.soak.account.faults[fault.__name__] += 1
            try:
                await fault()
            # What it was meant for has ended meanwhile.
            except (OSError, ValueError):
                pass

    async def stop(self, pid, seconds_max):
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(self.random.uniform(0.2, seconds_max))
        finally:
            os.kill(pid, signal.SIGCONT)

    async def kill_child(self):
        for pid in self.daemon.children()[:1]:
            os.kill(pid, signal.SIGKILL)

    async def stop_child(self):
        for pid in self.daemon.children()[:1]:
            await self.stop(pid, 3)

    async def stop_daemon(self):
        await self.stop(self.daemon.process.pid, 2)

    async def hang_up(self):
        self.daemon.send(signal.SIGHUP)

    async def kill_daemon(self):
        self.daemon.send(signal.SIGKILL)

    async def end_daemon(self):
        self.daemon.send(signal.SIGTERM)

    async def no_descriptors(self):
        pid = self.daemon.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 1, before[1]))
        await asyncio.sleep(2)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

    async def full_disk(self):
        ballast = self.disk / "ballast"
        # A daemon that starts now finds no room for its journal.
        self.daemon.is_excused = True
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
        await asyncio.sleep(2)
        self.daemon.is_excused = False

    async def slow_disk(self):
        """Each flush takes a fifth of a second longer, for some seconds."""
        flushes = "fsync,fdatasync,sync_file_range"
        words = ["strace", "--quiet=all", "--follow-forks", "--output=/dev/null"]
        words += [f"--trace={flushes}", f"--inject={flushes}:delay_exit=200000"]
        words.append(f"--attach={self.daemon.process.pid}")
        tracer = await asyncio.create_subprocess_exec(
            *words, stderr=asyncio.subprocess.DEVNULL, start_new_session=True
        )
        try:
            await asyncio.sleep(4)
        finally:
            if tracer.returncode is None:
                tracer.send_signal(signal.SIGINT)
        await tracer.wait()

    async def kill_neighbour(self):
        """Killed, and away for some seconds or none."""
        await self.away(self.uplink.neighbour, self.random.choice([0, 1, 6]))

    async def end_neighbour(self):
        self.uplink.neighbour.send(signal.SIGTERM)

    async def stop_neighbour(self):
        """For less or more than the three seconds after which it counts as silent."""
        await self.stop(self.uplink.neighbour.process.pid, 8)

    async def kill_neighbour_child(self):
        for pid in self.uplink.neighbour.children()[:1]:
            os.kill(pid, signal.SIGKILL)

    async def kill_nats(self):
        await self.away(self.uplink.nats, self.random.choice([0, 1, 6]))

    async def stop_nats(self):
        await self.stop(self.uplink.nats.process.pid, 6)

    async def away(self, program, seconds):
        program.is_away = True
        try:
            program.send(signal.SIGKILL)
            await asyncio.sleep(self.random.uniform(0, seconds))
        finally:
            program.is_away = False
