"""Reading from a socket until a deadline: a timeout of its own bounds each read alone, so that whoever sends a byte now
and then holds the reader for ever."""

from __future__ import annotations

import io
import socket
import time
from typing import Any

__all__ = ["TimedReader"]


class TimedReader(io.RawIOBase):
    """What comes from a socket, until `seconds` after the first byte since `begin`; before that byte, until `seconds`
    after the call. TimeoutError from there on."""

    def __init__(self, connection: socket.socket, seconds: float, *, has_begun: bool = False) -> None:
        """`has_begun`: the time runs from now, whenever the first byte comes."""
        self._connection = connection
        self._raw = connection.makefile("rb", buffering=0)  # which keeps the connection open
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds if has_begun else None

    def begin(self) -> None:
        """What comes next is another message."""
        self._deadline = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._seconds if self._deadline is None else self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time is over")
        self._connection.settimeout(left)
        count: int | None = self._raw.readinto(buffer)
        if self._deadline is None:
            self._deadline = time.monotonic() + self._seconds
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()
