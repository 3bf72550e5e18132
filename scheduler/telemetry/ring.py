"""The last readings of one thing in memory, in fixed room."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence


class Ring:
    """Keeps the last `size` rows of `width` numbers, each with the time at which it came. Not thread-safe."""

    def __init__(self, size: int, width: int) -> None:
        self._size = size
        self._count = 0
        self._row = struct.Struct(f"=d{width}f")
        self._rows = bytearray(
            self._row.size * size
        )  # a reading side by side: pushing it touches one line of the cache

    def push(self, at: float, *values: float | None) -> None:
        """None: not known."""
        place = self._count % self._size * self._row.size
        self._row.pack_into(self._rows, place, at, *[math.nan if value is None else value for value in values])
        self._count += 1

    def rows(self, since: float, until: float) -> list[tuple[float, ...]]:
        """Those in [since, until), oldest first; NaN for what is not known."""
        known = min(self._count, self._size) * self._row.size
        first = self._count % self._size * self._row.size if self._count > self._size else 0
        ordered = self._rows[first:known] + self._rows[:first]
        return [row for row in self._row.iter_unpack(ordered) if since <= row[0] < until]


def mean(values: Sequence[float]) -> float | None:
    """Of those that are known."""
    known = [value for value in values if value == value]  # all but NaN
    return sum(known) / len(known) if known else None


def shown(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 1)
