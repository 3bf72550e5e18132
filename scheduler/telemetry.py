"""The last minutes of every GPU in memory, second by second, and what the database keeps of them. Thread-safe.

All times are those at which a reading arrived here, in seconds since the epoch: clocks of hosts may be off.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedulearn.metrics.readings import GpuReading, Sample

SECONDS = 600
"""So much is kept at one reading a second."""
STALE_S = 10.0
"""Older readings say nothing of now."""
_GAP_S = 5.0  # the longest time for which a power is taken to have lasted

METRICS = ("utilization", "memory_bytes", "temperature", "power_w")
"""What is kept, as `GpuReading` and `GpuMinute` call it."""


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

    def heard_at(self, host_id: str) -> float:
        """When the last sample of a host came; 0 if none did."""
        return self._heard.get(host_id, 0.0)

    def reading(self, uuid: str, now: float) -> GpuReading | None:
        """The latest; None if there is none, or only a stale one."""
        ring = self._rings.get(uuid)
        return ring.latest if ring is not None and now - ring.at <= STALE_S else None

    def points(self, uuid: str, since: float, until: float) -> list[Point]:
        """What is in memory of this time, oldest first."""
        with self._lock:
            ring = self._rings.get(uuid)
            return [ring.point(index) for index in ring.indices(since, until)] if ring is not None else []

    def minute(self, minute: int) -> list[Mapping[str, Any]]:
        """The averages of each GPU in this minute (counted since the epoch), as rows of GpuMinute."""
        rows: list[Mapping[str, Any]] = []
        with self._lock:
            rings = list(self._rings.items())
        for uuid, ring in rings:
            with self._lock:
                means = ring.means(60.0 * minute, 60.0 * (minute + 1))
            if means is not None:
                rows.append({"gpu_uuid": uuid, "minute": minute, **dict(zip(METRICS, means, strict=True))})
        return rows

    def joules(self, uuid: str, since: float, until: float) -> float:
        """What a GPU drew from `since` to `until`, as far as it measures that and memory reaches."""
        with self._lock:
            ring = self._rings.get(uuid)
            return sum(ring.joules[index] for index in ring.indices(since, until)) if ring is not None else 0.0

    def forget(self, uuids: Sequence[str]) -> None:
        with self._lock:
            for uuid in uuids:
                self._rings.pop(uuid, None)


class _Ring:
    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 0
        self.at = 0.0
        self.latest: GpuReading | None = None
        self.times = array("d", bytes(8 * size))
        self.columns = [array("f", bytes(4 * size)) for _ in METRICS]
        self.joules = array("f", bytes(4 * size))
        """Drawn since the reading before."""

    def push(self, reading: GpuReading, now: float) -> None:
        index = self.count % self.size
        self.times[index] = now
        utilization, memory, temperature, power = self.columns
        utilization[index] = _nan(reading.utilization)
        memory[index] = _nan(reading.memory_bytes)
        temperature[index] = _nan(reading.temperature)
        power[index] = _nan(reading.power_w)
        self.joules[index] = self._drawn(reading, now)
        self.count += 1
        self.at, self.latest = now, reading

    def _drawn(self, reading: GpuReading, now: float) -> float:
        before = self.latest
        if before is None:
            return 0.0
        if reading.energy_j is not None and before.energy_j is not None:
            return max(0.0, reading.energy_j - before.energy_j)  # it falls when the driver is loaded anew
        return (reading.power_w or 0.0) * min(_GAP_S, max(0.0, now - self.at))

    def indices(self, since: float, until: float) -> Iterator[int]:
        """Of the readings in [since, until), oldest first."""
        for number in range(max(0, self.count - self.size), self.count):
            index = number % self.size
            if since <= self.times[index] < until:
                yield index

    def point(self, index: int) -> Point:
        return Point(self.times[index], tuple(_number(column[index]) for column in self.columns))

    def means(self, since: float, until: float) -> list[float | None] | None:
        """None without any reading."""
        chosen = list(self.indices(since, until))
        if not chosen:
            return None
        return [_mean([column[index] for index in chosen]) for column in self.columns]


def _mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if value == value]  # all but NaN
    # Whole numbers, which SQLite keeps in a byte or two instead of eight.
    return float(round(sum(known) / len(known))) if known else None


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 1)
