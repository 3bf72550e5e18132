"""GPUs of one engine, as a probe tells of them: they break, hang, vanish and come back."""

from __future__ import annotations

from collections.abc import Iterator

from schedulearn.metrics.probe.readings import GpuHealth, GpuInfo, GpuReading, Inventory, Reading, Sample, Xid
from schedulearn.scheduler.core.outcomes.xids import XidVerdict, meaning_of
from virtual.time import VirtualTime

_INVENTORY_S = 5.0


class VirtualGpus:
    """Keeps to `Probe`. `readings` tells what there is now, and ends: the run asks again."""

    def __init__(self, host_id: str, count: int, time: VirtualTime) -> None:
        self.infos = [GpuInfo(f"{host_id}-{i}", i, "A100", 1 << 34, compute="8.0") for i in range(count)]
        self.hung = False
        """NVML comes back from no question."""
        self.mute = False
        """The probe says nothing."""
        self.missing: set[str] = set()
        self.stuck: set[str] = set()
        self.broken: dict[str, int] = {}
        """GPU -> the Xid that takes it out of service."""
        self._time = time
        self._xids: dict[str, dict[int, Xid]] = {}
        self._listed_at = float("-inf")

    @property
    def uuids(self) -> list[str]:
        return [info.uuid for info in self.infos]

    @property
    def well(self) -> list[str]:
        """Those that nothing is wrong with."""
        wrong = self.missing | self.stuck | self.broken.keys()
        return [uuid for uuid in self.uuids if uuid not in wrong]

    def raise_xids(self, uuid: str, *codes: int) -> None:
        """Together, as the driver does."""
        told = self._xids.setdefault(uuid, {})
        for code in codes:
            before = told.pop(code, None)
            told[code] = Xid(code, 1 if before is None else before.times + 1, self._time.clock())
            if meaning_of(code).verdict >= XidVerdict.RESET:
                self.broken[uuid] = code

    def mend(self, uuid: str) -> None:
        self.broken.pop(uuid, None)
        self.missing.discard(uuid)
        self.stuck.discard(uuid)

    def mend_all(self) -> None:
        self.hung = self.mute = False
        for uuid in self.uuids:
            self.mend(uuid)

    def listen(self) -> None:
        """Somebody else follows it: it tells what there is first."""
        self._listed_at = float("-inf")

    # What the service asks.

    def readings(self) -> Iterator[Reading]:
        if self.mute:
            return
        if self._time.elapsed - self._listed_at >= _INVENTORY_S:
            self._listed_at = self._time.elapsed
            there = [] if self.hung else [info for info in self.infos if info.uuid not in self.missing]
            problem = "NVML does not respond: see dmesg" if self.hung else ""
            yield Inventory("virtual", "" if self.hung else "580.65.06", tuple(there), problem=problem)
        yield Sample(self._time.clock(), () if self.hung else tuple(map(self._reading, self.uuids)))

    def _reading(self, uuid: str) -> GpuReading:
        xids = tuple(self._xids.get(uuid, {}).values())
        if uuid in self.stuck:
            return GpuReading(uuid, xids=xids, stuck=True)
        if uuid in self.missing or self.broken.get(uuid) == 79:
            return GpuReading(uuid, xids=xids, lost=uuid not in self.missing)
        health = GpuHealth("GPU reset" if uuid in self.broken else "none")
        return GpuReading(uuid, memory_bytes=1e9, ecc_errors=0, xids=xids, processes=(), health=health)

    def interrupt(self, *, renew: bool = False) -> None:
        if renew:
            self.listen()

    def reset(self, uuid: str) -> None:
        self.mend(uuid)

    def close(self, *, remove: bool = False) -> None:
        """The service ends; the driver goes on."""
