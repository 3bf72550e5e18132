"""Ring buffer for recent readings."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence


class Ring:
    """Buffer of the last `size` rows of `width` numbers, each with its time of arrival. Not thread-safe."""

    def __init__(self, size: int, width: int) -> None:
        self._size = size
        self._count = 0
        self._row = struct.Struct(f"=d{width}f")
        self._rows = bytearray(
            self._row.size * size
        )  # the values of a reading are adjacent, so that `push` touches one cache line

    def push(self, at: float, *values: float | None) -> None:
        """Add a row; None stands for an unknown value."""
        place = self._count % self._size * self._row.size
        self._row.pack_into(self._rows, place, at, *[math.nan if value is None else value for value in values])
        self._count += 1

    def rows(self, since: float, until: float) -> list[tuple[float, ...]]:
        """Return the rows (time, values) in [since, until), oldest first; NaN for unknown values."""
        known = min(self._count, self._size) * self._row.size
        first = self._count % self._size * self._row.size if self._count > self._size else 0
        ordered = self._rows[first:known] + self._rows[:first]
        return [row for row in self._row.iter_unpack(ordered) if since <= row[0] < until]


def mean(values: Sequence[float]) -> float | None:
    """Return the mean of the known values; None if there are none."""
    known = [value for value in values if value == value]  # all except NaN
    return sum(known) / len(known) if known else None


def shown(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 1)
