"""The last minutes of every GPU in memory, second by second, and what the database keeps of them. Thread-safe.

All times are those at which a reading arrived here, in seconds since the epoch: clocks of hosts may be off.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from schedulearn.metrics.probe.readings import GpuReading, Sample
from schedulearn.scheduler.store.gpus import MinuteAverages
from schedulearn.scheduler.telemetry.ring import Ring, mean, shown

SECONDS = 600
"""So much is kept at one reading a second."""
STALE_S = 10.0
"""Older readings say nothing of now."""
_GAP_S = 5.0  # the longest time for which a power is taken to have lasted

METRICS = ("utilization", "memory_bytes", "temperature", "power_w")
"""What is kept, as `GpuReading` and `MinuteAverages` call it, in the order of the latter."""


@dataclass(frozen=True)
class Point:
    """`values` in the order of METRICS, None where the GPU does not tell."""

    at: float
    values: tuple[float | None, ...]


class Telemetry:
    """Readings go in by `take`, from one thread a host."""

    def __init__(self, size: int = SECONDS) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._rings: dict[str, _Ring] = {}
        self._heard: dict[str, float] = {}

    def take(self, host_id: str, sample: Sample, now: float) -> None:
        with self._lock:
            for reading in sample.gpus:
                ring = self._rings.get(reading.uuid)
                if ring is None:
                    ring = self._rings[reading.uuid] = _Ring(self._size)
                ring.push(reading, now)
            self._heard[host_id] = now

    def reading(self, uuid: str, now: float) -> GpuReading | None:
        """The latest; None if there is none, or only a stale one."""
        ring = self._rings.get(uuid)
        return ring.latest if ring is not None and now - ring.at <= STALE_S else None

    def points(self, uuid: str, since: float, until: float) -> list[Point]:
        """What is in memory of this time, oldest first."""
        with self._lock:
            ring = self._rings.get(uuid)
            rows = ring.rows(since, until) if ring is not None else []
        return [Point(row[0], tuple(shown(value) for value in row[1:-1])) for row in rows]

    def minute(self, minute: int) -> list[MinuteAverages]:
        """The averages of each GPU in this minute, counted since the epoch."""
        averages: list[MinuteAverages] = []
        with self._lock:
            rings = list(self._rings.items())
        for uuid, ring in rings:
            with self._lock:
                found = ring.rows(60.0 * minute, 60.0 * (minute + 1))
            if found:
                averages.append(MinuteAverages(uuid, minute, *_means(found)))
        return averages

    def joules(self, uuid: str, since: float, until: float) -> float:
        """Return what a GPU drew from `since` to `until`, as far as it measures that and memory reaches. Its power is
        taken to be even between two readings, and after a gap to have come in the last _GAP_S."""
        with self._lock:
            ring = self._rings.get(uuid)
            rows = ring.rows(-math.inf, math.inf) if ring is not None else []
        drawn = 0.0
        for (before, *_), (at, *_, joules) in itertools.pairwise(rows):
            first = max(before, at - _GAP_S)
            begin, end = max(first, since), min(at, until)
            if begin < end:
                drawn += joules * (end - begin) / (at - first)
        return drawn

    def measured_until(self, now: float) -> float:
        """Return up to when all hosts that were heard lately have sent readings."""
        return min([now, *(at for at in self._heard.values() if now - at <= STALE_S)])

    def forget(self, uuids: Sequence[str]) -> None:
        with self._lock:
            for uuid in uuids:
                self._rings.pop(uuid, None)


class _Ring:
    """A row has METRICS, then the joules drawn since the reading before."""

    def __init__(self, size: int) -> None:
        self.at = 0.0
        self.latest: GpuReading | None = None
        self._ring = Ring(size, len(METRICS) + 1)

    def push(self, reading: GpuReading, now: float) -> None:
        self._ring.push(
            now,
            reading.utilization,
            reading.memory_bytes,
            reading.temperature,
            reading.power_w,
            self._drawn(reading, now),
        )
        self.at, self.latest = now, reading

    def _drawn(self, reading: GpuReading, now: float) -> float:
        before = self.latest
        if before is None:
            return 0.0
        if reading.energy_j is not None and before.energy_j is not None:
            return max(0.0, reading.energy_j - before.energy_j)  # it falls when the driver is loaded anew
        return (reading.power_w or 0.0) * min(_GAP_S, max(0.0, now - self.at))

    def rows(self, since: float, until: float) -> list[tuple[float, ...]]:
        """Those in [since, until), oldest first."""
        return self._ring.rows(since, until)


def _means(rows: Sequence[tuple[float, ...]]) -> list[float | None]:
    means = [mean(column) for column in list(zip(*rows, strict=True))[1:-1]]
    # Whole numbers, which SQLite keeps in a byte or two instead of eight.
    return [None if value is None else float(round(value)) for value in means]
