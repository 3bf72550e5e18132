"""A probe in memory: tests say what it reads."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from typing import Any

from schedulearn.metrics.probe.machine import MachineCounters
from schedulearn.metrics.probe.readings import GpuInfo, GpuLink, GpuReading, Inventory, NumaNode, Reading, Sample
from schedulearn.scheduler.errors import RuntimeFault


class FakeProbe:
    """Keeps to `Probe`. `set` changes what a GPU reads from now on, `vanish` takes one away; a sample comes every
    `interval_s`. With `problem` it can't tell of GPUs that are not in `gpus`."""

    driver = "580.65.06"

    def __init__(self, count: int = 2, prefix: str = "GPU-real", interval_s: float = 0.02) -> None:
        self.prefix = prefix
        self.gpus = [GpuInfo(f"{prefix}-{index}", index, "A100", 1 << 34) for index in range(count)]
        self.fields: dict[str, dict[str, Any]] = {}
        self.interval_s = interval_s
        self.closed = self.removed = False
        self.fault: str = ""
        self.problem = ""
        self.links: tuple[GpuLink, ...] = ()
        self.nodes: tuple[NumaNode, ...] = ()
        self.still_read: list[str] = []
        """UUIDs of GPUs that are not listed any more, and answer."""
        self.machine: MachineCounters | None = None
        self.renewals = 0
        self.resets: list[str] = []
        self.no_reset = ""
        """Why a GPU can't be reset."""
        self._reading_now = False
        self._poke: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def uuid(self, index: int) -> str:
        return f"{self.prefix}-{index}"

    def set(self, index: int, **fields: Any) -> None:
        self.fields[self.uuid(index)] = fields

    def vanish(self, index: int) -> None:
        self.gpus = [gpu for gpu in self.gpus if gpu.index != index]

    def readings(self) -> Iterator[Reading]:
        self._reading_now = True
        try:
            yield from self._read()
        finally:
            self._reading_now = False

    def _read(self) -> Iterator[Reading]:
        told = None
        listed: set[str] = set()
        while not self.closed:
            if self.fault:
                raise RuntimeFault(self.fault)
            inventory = Inventory("fake", self.driver, tuple(self.gpus), self.links, self.problem, self.nodes)
            uuids = [*(gpu.uuid for gpu in inventory.gpus), *self.still_read]
            if inventory != told or listed - {gpu.uuid for gpu in inventory.gpus}:  # as `sampling.readings`
                told = inventory
                listed.update(gpu.uuid for gpu in inventory.gpus)
                yield inventory
            yield Sample(time.time(), tuple(map(self._reading, uuids)), self.machine)
            try:
                self._poke.get(timeout=self.interval_s)
                return
            except queue.Empty:
                pass

    def _reading(self, uuid: str) -> GpuReading:
        base: dict[str, Any] = {"utilization": 0.0, "memory_bytes": 1e9, "power_w": 100.0, "ecc_errors": 0}
        return GpuReading(uuid, **{**base, "processes": (), **self.fields.get(uuid, {})})

    def reset(self, uuid: str) -> None:
        assert not self._reading_now, "it is reset while it is read"
        if self.no_reset:
            raise RuntimeFault(self.no_reset)
        self.resets.append(uuid)
        self.fields = {name: {} if name == uuid else fields for name, fields in self.fields.items()}

    def interrupt(self, *, renew: bool = False) -> None:
        self.renewals += renew
        self._poke.put(None)

    def close(self, *, remove: bool = False) -> None:
        self.closed, self.removed = True, remove
        self._poke.put(None)


class ToldProbe(FakeProbe):
    """Its readings are those that a test `tell`s, one by one."""

    def tell(self, reading: Reading) -> None:
        self._poke.put(reading)

    def show(self, *indices: int, problem: str = "") -> None:
        """An inventory of these GPUs."""
        self.tell(Inventory("fake", self.driver, tuple(self.gpus[index] for index in indices), problem=problem))

    def readings(self) -> Iterator[Reading]:
        while (reading := self._poke.get()) is not None and not self.closed:
            yield reading
