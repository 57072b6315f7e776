"""Keeps standard input and output for messages alone.

While a capability is served, descriptor 1 is standard error and descriptor 0 is empty, for Python, for libraries in C
and for child processes: what a handler prints goes to the log and never between the messages.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any

#: Room for one read.
READ_BYTES = 1 << 16


class Streams:
    """The two descriptors that messages come in and go out on."""

    def __init__(self, input: int, output: int) -> None:
        self.input = input
        self.output = output

    @classmethod
    @contextlib.contextmanager
    def reserve(cls) -> Generator[Streams, None, None]:
        """Takes standard input and output away from everybody else until the end."""
        # What was printed before now goes to standard error as well, unless it was flushed by hand.
        before = os.dup(1)
        streams = cls(os.dup(0), before)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        with contextlib.suppress(Exception):
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
            sys.stdout.flush()
        try:
            yield streams
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            os.close(streams.input)
            os.close(streams.output)

    def write(self, data: bytes) -> None:
        """Writes all of it, and waits while nobody reads."""
        written = os.write(self.output, data)
        while written < len(data):
            data = data[written:]
            written = os.write(self.output, data)

    def end_input(self) -> None:
        """From now on the input has ended, also for a read that waits (a signal has interrupted it by then)."""
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, self.input, inheritable=False)
        os.close(nothing)


@contextlib.contextmanager
def signals(on_terminate: Callable[[], Any]) -> Generator[None, None, None]:
    """SIGTERM is like the end of the input. SIGINT is left to the daemon: a terminal sends it to everybody."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: object) -> None:
        on_terminate()

    def ignore(number: int, frame: object) -> None:
        pass

    before: dict[int, Any] = {signal.SIGTERM: signal.signal(signal.SIGTERM, terminate)}
    if not os.isatty(2) or not os.isatty(0):
        # Not SIG_IGN, which child processes would inherit.
        before[signal.SIGINT] = signal.signal(signal.SIGINT, ignore)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
