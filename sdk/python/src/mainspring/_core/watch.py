"""What was subscribed to, and the events that wait to be read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from ..errors import InvalidMessage
from . import wire
from .wire import Message

#: Events that wait to be read from a watch, unless it says otherwise. Beyond: the oldest are dropped, and told.
WATCH_EVENTS_MAX = 1024


@dataclass(frozen=True)
class Gap:
    """Events are missing here.

    Attributes:
        reason: `reconnected` (the connection was lost for a while), `daemon` (the daemon dropped them, because they were
            not read), or `buffer` (this client did, at the bound of the watch).
        count: How many; `None` if nobody knows.
    """

    reason: Literal["reconnected", "daemon", "buffer"]
    count: int | None


class WatchState:
    """What was subscribed to, and what came and was not read yet."""

    def __init__(self, types: Iterable[str], limit: int) -> None:
        self.types = tuple(dict.fromkeys(check_pattern(pattern) for pattern in types))
        if not self.types:
            raise InvalidMessage("say which events to watch: a type, everything below a name (Order.*), or *")
        if limit < 1:
            raise InvalidMessage("a watch must have room for at least 1 event")
        self._exact = frozenset(pattern for pattern in self.types if not pattern.endswith("*"))
        self._below = tuple(pattern[:-1] for pattern in self.types if pattern.endswith("*"))
        self._limit = limit
        self._queue: deque[Message | Gap] = deque()
        self._dropped = 0
        self.is_live = False
        self.is_over = False
        self.error: Exception | None = None
        self.on_ready: Callable[[], object] | None = None

    def wants(self, type_name: str) -> bool:
        """Whether events of this type belong here. `Order.` is the beginning of what `Order.*` means, and "" of all."""
        return type_name in self._exact or type_name.startswith(self._below)

    def put(self, item: Message | Gap) -> None:
        """Adds an event, or tells that some are missing. At the bound the oldest goes."""
        self._queue.append(item)
        if len(self._queue) > self._limit:
            oldest = self._queue.popleft()
            self._dropped += (oldest.count or 0) if isinstance(oldest, Gap) else 1
        if self.on_ready is not None:
            self.on_ready()

    @property
    def has_items(self) -> bool:
        """Whether `take` has something to give."""
        return bool(self._queue) or self._dropped > 0

    def take(self) -> Message | Gap | None:
        """The next event or gap, if one is there."""
        if self._dropped:
            gap, self._dropped = Gap("buffer", self._dropped), 0
            return gap
        return self._queue.popleft() if self._queue else None

    def end(self, error: Exception | None) -> None:
        """No more will come."""
        if not self.is_over:
            self.is_over, self.is_live, self.error = True, False, error
            if self.on_ready is not None:
                self.on_ready()


def check_pattern(pattern: str) -> str:
    """A pattern of types, if it is one."""
    if pattern == "*":
        return pattern
    # Below a single name there are types, though it is none itself.
    name = pattern[:-2] + ".X" if pattern.endswith(".*") else pattern
    try:
        wire.check_type(name)
    except InvalidMessage:
        raise InvalidMessage(f"{pattern!r} is not a type, nor everything below a name (Order.*), nor *") from None
    return pattern
