"""Probes, the sources of GPU readings.

They are NVML in a child process, a container on the host, or a simulation.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple, Protocol

from schedulearn.metrics.probe.readings import GpuReading, Reading, Sample
from schedulearn.metrics.probe.watchdog import Watchdog
from schedulearn.scheduler.telemetry.gpu_reset import reset_here

_IDLE_W, _FULL_W = 55.0, 300.0
_IDLE_C, _FULL_C = 34.0, 71.0
_LIMIT_W, _SLOWDOWN_C = 310.0, 90.0


class Probe(Protocol):
    """Source of readings of one host's GPUs.

    The conformance tests (tests/runtimes/test_probes.py) check every implementation against this interface."""

    def readings(self) -> Iterator[Reading]:
        """Yield an inventory, then about one sample per second.

        An inventory comes again when it changes. It blocks in between. It ends after `close`, or when the probe has
        ended; it can be called again then. Raises RuntimeFault if no readings are possible now. One consumer at a
        time."""
        ...

    def interrupt(self, *, renew: bool = False) -> None:
        """End a running `readings`, even one that hangs, with or without an error. May be called from any thread.

        With `renew` the next `readings` detects the GPUs again."""
        ...

    def reset(self, uuid: str) -> None:
        """Release all GPUs and reset this one, while nobody consumes `readings`.

        Raises RuntimeFault, which says why it can't be reset from here and what to do."""
        ...

    def close(self, *, remove: bool = False) -> None:
        """End `readings` for good. With `remove`, remove the probe from the host, if the host answers."""
        ...


class LocalProbe:
    """Probe that runs NVML in a child process."""

    def __init__(self) -> None:
        self._closed = threading.Event()
        self._watchdog: Watchdog | None = None

    def readings(self) -> Iterator[Reading]:
        if self._closed.is_set():
            return
        watchdog = self._watchdog = Watchdog()
        if self._closed.is_set():  # closed meanwhile
            watchdog.stop()
        yield from watchdog.readings()

    def interrupt(self, *, renew: bool = False) -> None:
        if (watchdog := self._watchdog) is not None:
            watchdog.stop()

    def reset(self, uuid: str) -> None:
        reset_here(uuid)

    def close(self, *, remove: bool = False) -> None:
        self._closed.set()
        self.interrupt()


class SimulatedGpu(NamedTuple):
    uuid: str
    memory_bytes: int


class _State(NamedTuple):
    utilization: float
    temperature: float
    joules: float


class SimulatedProbe:
    """Source of readings for simulated GPUs, which warm up and draw power while a job runs on them."""

    def __init__(self) -> None:
        self._dice = random.Random(0)  # noqa: S311 - nothing is secret
        self._states: dict[str, _State] = {}

    def sample(self, gpus: Sequence[SimulatedGpu], busy: Set[str], now: float) -> Sample:
        """Return a sample of the GPUs. `busy` has the UUIDs of those on which a job runs. Call it once per second."""
        return Sample(now, tuple(self._reading(uuid, memory, uuid in busy) for uuid, memory in gpus))

    def _reading(self, uuid: str, memory: int, busy: bool) -> GpuReading:
        utilization, temperature, joules = self._states.get(uuid, _State(0.0, _IDLE_C, 0.0))
        dice = self._dice.random()
        if busy:
            utilization += 0.5 * (82 + 16 * dice - utilization)
        else:
            utilization = 0.0 if utilization < 1 else 0.3 * utilization
        load = utilization / 100
        temperature += 0.05 * (_IDLE_C + (_FULL_C - _IDLE_C) * load - temperature)
        power = _IDLE_W + (_FULL_W - _IDLE_W) * load + 4 * dice
        joules += power
        self._states[uuid] = _State(utilization, temperature, joules)
        used = memory * (0.55 + 0.02 * dice) if busy else memory * 0.01
        clock = 1410.0 if load > 0.05 else 210.0
        return GpuReading(
            uuid, float(round(utilization)), float(int(used)), float(round(temperature)), round(power, 1),
            round(joules, 1), clock, 1593.0, 0, processes=(), power_limit_w=_LIMIT_W, slowdown_temperature=_SLOWDOWN_C,
        )  # fmt: skip
