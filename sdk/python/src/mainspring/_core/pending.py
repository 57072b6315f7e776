"""A request until its outcome is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ConnectionFailed


class Pending:
    """A request (or an event that is to be confirmed) until its outcome is there."""

    __slots__ = (
        "id", "kind", "type", "line", "deadline", "repeat", "outcome", "hook", "on_done", "on_progress", "is_written", "was_written",
    )  # fmt: skip

    def __init__(self, id: str, kind: str, type_name: str, line: bytes, repeat: bool) -> None:
        self.id = id
        self.kind = kind
        self.type = type_name
        self.line = line
        self.repeat = repeat
        self.deadline: float | None = None
        #: The data of the reply in a tuple of one, or the error.
        self.outcome: tuple[Any] | Exception | None = None
        #: What the core itself does at the end, before anybody else.
        self.hook: Callable[[tuple[Any] | Exception], object] | None = None
        self.on_done: Callable[[], object] | None = None
        self.on_progress: Callable[[Any], object] | None = None
        #: Whether it was written to the connection that there is, and to any connection.
        self.is_written = False
        self.was_written = False

    def settle(self, outcome: tuple[Any] | Exception) -> None:
        """Ends it, once."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        if isinstance(outcome, ConnectionFailed) and not self.was_written:
            outcome.started = "no"
        if self.hook is not None:
            self.hook(outcome)
        if self.on_done is not None:
            self.on_done()

    def result(self) -> Any:
        """The data of the reply; raises the error."""
        outcome = self.outcome
        if isinstance(outcome, tuple):
            return outcome[0]
        assert outcome is not None
        raise outcome


def same_again(error: ConnectionFailed) -> ConnectionFailed:
    """A copy: each request has its own, because whether it was started is its own matter."""
    copy = error.__class__.__new__(error.__class__)
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy
