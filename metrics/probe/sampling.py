"""Schedule by which a machine's GPUs are read and reported."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Callable, Iterator, Protocol

from schedulearn.metrics.probe.machine import MachineCounters
from schedulearn.metrics.probe.readings import GpuReading, Inventory, Reading, Sample

INTERVAL_S = 1.0
INVENTORY_S = 60.0
MACHINE_S = 10.0
BLIND = 5  # samples in a row without any answer
VERSION_VARIABLE = "SCHEDULEARN_PROBE_VERSION"


class Reader(Protocol):
    """Protocol of `nvml.NvmlReader`."""

    def inventory(self) -> Inventory: ...

    def sample(self) -> Sample: ...


def readings(
    reader: Reader,
    wait: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    machine: Callable[[], MachineCounters | None] = lambda: None,
) -> Iterator[Reading]:
    """Yield inventories and samples.

    An inventory comes first, when it changed, and once a minute. While a GPU is lost, does not answer or is not listed
    any more, it comes every five seconds. A sample comes every second. `wait` takes seconds. A sample that took longer
    than a second is followed by the next at once, and missed samples are not made up for. One sample in ten has the
    `machine` itself.

    The readings end when no GPU answers any more although some did. This is what a container sees whose access to the
    devices was taken away (a reload of systemd does it). A new container has access again.
    """
    told: Inventory | None = None
    told_at = looked_at = 0.0
    machine_at = -MACHINE_S
    seen: set[str] = set()
    """GPUs that have answered."""
    listed: set[str] = set()
    """GPUs that an inventory has had."""
    blind = 0
    while blind < BLIND:
        began = clock()
        sample = None if told is None else reader.sample()
        odd = sample is not None and any(gpu.lost or (gpu.uuid in seen and not _sees(gpu)) for gpu in sample.gpus)
        soon = odd or told is None or not told.gpus or bool(told.problem) or bool(listed - _listed(told))
        if told is None or began - looked_at >= (INTERVAL_S * 5 if soon else INVENTORY_S):
            found, looked_at = reader.inventory(), began
            if soon or found != told or began - told_at >= INVENTORY_S:
                told, told_at = found, began
                listed |= _listed(found)
                yield found
        sample = reader.sample() if sample is None else sample
        sees = {gpu.uuid for gpu in sample.gpus if _sees(gpu)}
        seen |= sees
        blind = blind + 1 if seen and not sees else 0
        if began - machine_at >= MACHINE_S:
            machine_at, sample = began, replace(sample, machine=machine())
        yield sample
        wait(max(0.0, INTERVAL_S - (clock() - began)))


def _listed(inventory: Inventory) -> set[str]:
    return {gpu.uuid for gpu in inventory.gpus}


def _sees(gpu: GpuReading) -> bool:
    return gpu.memory_bytes is not None or gpu.lost or gpu.health is not None
