"""Recent GPU readings by second, and their averages by minute.

Thread-safe. All times are times of arrival here, in seconds since the epoch, because clocks of hosts may be off.
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
"""Length of the history at one reading per second."""
STALE_S = 10.0
"""Older readings don't count as current."""
_GAP_S = 5.0  # maximum time for which a power reading is assumed to last

METRICS = ("utilization", "memory_bytes", "temperature", "power_w")
"""Names of the stored values, as in `GpuReading` and `MinuteAverages`, in the order of the latter."""


@dataclass(frozen=True)
class TelemetryPoint:
    """One reading. `values` are in the order of METRICS, None if the GPU does not report one."""

    at: float
    values: tuple[float | None, ...]


class Telemetry:
    """Recent readings of all GPUs. `take` adds readings, from one thread per host."""

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
        """Return the latest reading; None if there is none, or only a stale one."""
        ring = self._rings.get(uuid)
        return ring.latest if ring is not None and now - ring.at <= STALE_S else None

    def points(self, uuid: str, since: float, until: float) -> list[TelemetryPoint]:
        """Return the readings in memory from this time span, oldest first."""
        with self._lock:
            ring = self._rings.get(uuid)
            rows = ring.rows(since, until) if ring is not None else []
        return [TelemetryPoint(row[0], tuple(shown(value) for value in row[1:-1])) for row in rows]

    def minute(self, minute: int) -> list[MinuteAverages]:
        """Return the averages of each GPU in this minute, counted since the epoch."""
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
        """Return the energy a GPU drew from `since` to `until`, in joules.

        It covers only readings that are still in memory. The power is assumed to be constant between two readings. The
        energy of a longer gap is assigned to its last _GAP_S seconds."""
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
        """Return the time up to which all hosts that are not stale have sent readings."""
        return min([now, *(at for at in self._heard.values() if now - at <= STALE_S)])


class _Ring:
    """Readings of one GPU. A row has METRICS, then the joules drawn since the previous reading."""

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
            return max(0.0, reading.energy_j - before.energy_j)  # the counter falls when the driver is reloaded
        return (reading.power_w or 0.0) * min(_GAP_S, max(0.0, now - self.at))

    def rows(self, since: float, until: float) -> list[tuple[float, ...]]:
        """Return the rows in [since, until), oldest first."""
        return self._ring.rows(since, until)


def _means(rows: Sequence[tuple[float, ...]]) -> list[float | None]:
    means = [mean(column) for column in list(zip(*rows, strict=True))[1:-1]]
    # Whole numbers, which SQLite stores in one or two bytes instead of eight.
    return [None if value is None else float(round(value)) for value in means]
