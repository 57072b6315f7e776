"""Lines out of bytes, whatever pieces they come in."""

from __future__ import annotations

#: The longest line that is taken. No daemon writes one that long.
LINE_BYTES_MAX = 64 << 20


class LineTooLong(ValueError):
    """The other side writes without ever ending a line."""


class Lines:
    """Cuts lines out of a stream of bytes."""

    __slots__ = ("_limit", "_parts", "_size")

    def __init__(self, limit: int = LINE_BYTES_MAX) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are whole now, without their ends.

        Raises:
            LineTooLong: One is longer than the limit.
        """
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if self._parts and lines:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > self._limit:
                raise LineTooLong(f"a line is longer than {self._limit} bytes")
        return lines

    def rest(self) -> bytes:
        """What is left when the stream has ended: a line without an end, or nothing."""
        rest = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return rest
