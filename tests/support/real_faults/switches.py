"""What a run tells the service that it tries, and what that one tells it: a few bytes that both have in memory."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

_FORMAT = struct.Struct("<QQd")  # side effects so far, the one to die at, seconds that the clock is off


class Switches:
    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(_FORMAT.pack(0, 0, 0.0))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _FORMAT.size)

    def _get(self, index: int) -> float:
        return float(_FORMAT.unpack_from(self._shared)[index])

    @property
    def count(self) -> int:
        """Side effects of the service since its last start."""
        return int(self._get(0))

    @count.setter
    def count(self, value: int) -> None:
        struct.pack_into("<Q", self._shared, 0, value)

    @property
    def kill_at(self) -> int:
        """The side effect before which the service dies; 0: none. After one is before the next: nothing that lasts
        happens between the two."""
        return int(self._get(1))

    @kill_at.setter
    def kill_at(self, value: int) -> None:
        struct.pack_into("<Q", self._shared, 8, value)

    @property
    def clock_offset(self) -> float:
        return self._get(2)

    @clock_offset.setter
    def clock_offset(self, value: float) -> None:
        struct.pack_into("<d", self._shared, 16, value)
