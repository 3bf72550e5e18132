"""What NVML says of the GPUs of this machine, through nvidia-ml-py. Without a driver there are none.

Each value is asked for by itself: a symbol that the driver's library lacks, or a card that does not measure it, leaves
that one unknown.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Iterator, Mapping, Sequence

import pynvml

from schedulearn.metrics.probe.gpu_processes import describe
from schedulearn.metrics.probe.readings import (
    MAX_GPUS,
    MAX_PROCESSES,
    GpuInfo,
    GpuLink,
    GpuProcess,
    GpuReading,
    Inventory,
    Sample,
)

RETRY_S = 10.0  # between tries to reach a driver that is not there: it may be loaded later
_EVENTS = 64  # of a sample, at most
_XID_UNKNOWN = 999  # what NVML says where it does not know which

_SLOWDOWN = 1
"""NVML_TEMPERATURE_THRESHOLD_SLOWDOWN."""
_LEVELS = {0: "internal", 10: "single", 20: "multiple", 30: "hostbridge", 40: "node", 50: "system"}
_REASONS = {  # NVML's bits; an idle card and clocks that somebody chose are no trouble
    0x04: "power_cap",
    0x08: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "power_brake",
}


@dataclass(frozen=True)
class _Device:
    info: GpuInfo
    handle: object
    whole: object
    """The handle of the GPU that it is a part of; of itself, if it is whole."""


class NvmlReader:
    """NVML for one thread. Makes no error known but by what it leaves out."""

    def __init__(self, version: str = "") -> None:
        self._version = version
        self._ready = False
        self._retry_at = 0.0
        self._devices: list[_Device] = []
        self._events: object = None
        self._watched: list[str] = []
        self._xids: dict[str, tuple[int, float]] = {}  # uuid of a whole GPU -> the last Xid, and when

    def inventory(self) -> Inventory:
        """What there is now. Without a driver: no GPUs, and why."""
        problem = self._init()
        if problem:
            return Inventory(self._version, problem=problem)
        before = {device.info.uuid: device for device in self._devices}
        self._devices = list(_devices())[:MAX_GPUS]
        links = _links(self._devices)
        islands = _islands(len(self._devices), links)
        self._devices = [
            replace(device, info=replace(device.info, island=islands.get(device.info.index)))
            for device in self._devices
        ]
        self._watch()
        # One that the driver does not list any more may still be asked, and will say that it is lost.
        found = {device.info.uuid for device in self._devices}
        gone = [device for uuid, device in before.items() if uuid not in found and not device.info.parent]
        inventory = Inventory(
            self._version,
            _text(_ask("nvmlSystemGetDriverVersion") or ""),
            tuple(device.info for device in self._devices),
            tuple(links),
        )
        self._devices += gone
        return inventory

    def sample(self) -> Sample:
        """All GPUs of the last `inventory`, as they are now."""
        if not self._ready:
            return Sample(time.time())
        self._take_events()
        whole: dict[str, GpuReading] = {}
        readings = []
        for device in self._devices:
            uuid = device.info.parent or device.info.uuid
            if uuid not in whole:
                whole[uuid] = self._read_whole(uuid, device.whole)
            readings.append(_read_part(device, whole[uuid]) if device.info.parent else whole[uuid])
        return Sample(time.time(), tuple(readings))

    def _init(self) -> str:
        if self._ready:
            return ""
        if time.monotonic() < self._retry_at:
            return "there is no NVIDIA driver"
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self._retry_at = time.monotonic() + RETRY_S
            return f"NVML can't be used: {error}"
        self._ready = True
        return ""

    def _watch(self) -> None:
        """Asks to be told of Xid errors, where the driver does that."""
        uuids = sorted({device.info.parent or device.info.uuid for device in self._devices})
        if uuids == self._watched:
            return
        self._watched = uuids
        if self._events is None:
            self._events = _ask("nvmlEventSetCreate")
        for device in self._devices if self._events is not None else ():
            _ask("nvmlDeviceRegisterEvents", device.whole, pynvml.nvmlEventTypeXidCriticalError, self._events)

    def _take_events(self) -> None:
        for _ in range(_EVENTS if self._events is not None else 0):
            event = _ask("nvmlEventSetWait_v2", self._events, 0)
            if event is None:  # none left
                return
            xid = int(event.eventData)
            uuid = _text(_ask("nvmlDeviceGetUUID", event.device) or "")
            if xid != _XID_UNKNOWN and uuid:
                self._xids[uuid] = (xid, time.time())

    def _read_whole(self, uuid: str, handle: object) -> GpuReading:
        try:
            utilization = _ask("nvmlDeviceGetUtilizationRates", handle, lost=True)
            memory = _memory_info(handle, lost=True)
            temperature = _ask("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU, lost=True)
        except _Lost:
            xid, at = self._xids.get(uuid, (None, None))
            return GpuReading(uuid, xid=xid, xid_at=at, lost=True)
        power, energy = _ask("nvmlDeviceGetPowerUsage", handle), _ask("nvmlDeviceGetTotalEnergyConsumption", handle)
        limit = _ask("nvmlDeviceGetEnforcedPowerLimit", handle)
        reasons = _ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:
            reasons = _ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle) or 0
        xid, at = self._xids.get(uuid, (None, None))
        return GpuReading(
            uuid,
            None if utilization is None else float(utilization.gpu),
            None if memory is None else float(memory.used),
            _float(temperature),
            None if power is None else power / 1e3,
            None if energy is None else energy / 1e3,
            _float(_ask("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM)),
            _float(_ask("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_MEM)),
            _ask(
                "nvmlDeviceGetTotalEccErrors",
                handle,
                pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                pynvml.NVML_VOLATILE_ECC,
            ),
            xid,
            at,
            tuple(name for bit, name in _REASONS.items() if reasons & bit),
            _processes(handle),
            power_limit_w=None if limit is None else limit / 1e3,
            slowdown_temperature=_float(_ask("nvmlDeviceGetTemperatureThreshold", handle, _SLOWDOWN)),
        )


def list_gpus() -> Sequence[GpuInfo]:
    """All GPUs and MIG devices by index; empty where there is no NVIDIA driver."""
    return NvmlReader().inventory().gpus


class _Lost(Exception):
    """The driver has lost this GPU."""


def _ask(name: str, *arguments: object, lost: bool = False) -> Any:
    """What one function of NVML answers (`pynvml` has no types); None if it can't. Raises _Lost, with `lost`, if the
    GPU is gone. By name, since an nvidia-ml-py that is older, or newer, than a function lacks it."""
    function = getattr(pynvml, name, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        if lost and error.value in (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED):
            raise _Lost from error
        return None
    except Exception:  # nvidia-ml-py has other kinds too, for libraries older than itself
        return None


def _devices() -> Iterator[_Device]:
    """Whole GPUs, and in place of one that is split its MIG devices."""
    index = 0
    for number in range(_ask("nvmlDeviceGetCount") or 0):
        handle = _ask("nvmlDeviceGetHandleByIndex", number)
        uuid = _text(_ask("nvmlDeviceGetUUID", handle) or "") if handle is not None else ""
        if not uuid:
            continue
        name = _text(_ask("nvmlDeviceGetName", handle) or "GPU")
        numa, pci, pcie = _numa(handle), _pci(handle), _pcie(handle)
        mode = _ask("nvmlDeviceGetMigMode", handle)
        if not mode or mode[0] != 1:
            yield _Device(GpuInfo(uuid, index, name, _memory(handle), numa=numa, pci=pci, pcie=pcie), handle, handle)
            index += 1
            continue
        for part in range(_ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            mig = _ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, part)
            own = _text(_ask("nvmlDeviceGetUUID", mig) or "") if mig is not None else ""
            if own:
                info = GpuInfo(own, index, _mig_type(mig, name), _memory(mig), uuid, numa=numa, pci=pci, pcie=pcie)
                yield _Device(info, mig, handle)
                index += 1


def _mig_type(mig: object, whole: str) -> str:
    """As in `NVIDIA A100-SXM4-40GB MIG 1g.5gb`: each size is a type of its own."""
    name = _text(_ask("nvmlDeviceGetName", mig) or "")
    if " MIG " in name:
        return name
    size = _ask("nvmlDeviceGetAttributes_v2", mig)
    if size is None:
        return f"{whole} MIG"
    return f"{whole} MIG {size.gpuInstanceSliceCount}g.{round(size.memorySizeMB / 1024)}gb"


def _read_part(device: _Device, whole: GpuReading) -> GpuReading:
    """A MIG device: its memory and processes are its own, its health is the GPU's. Utilisation, power and energy are
    measured for the whole GPU only."""
    memory = _memory_info(device.handle)
    return whole._replace(
        uuid=device.info.uuid,
        utilization=None,
        memory_bytes=None if memory is None else float(memory.used),
        power_w=None,
        power_limit_w=None,
        energy_j=None,
        processes=None if whole.lost else _processes(device.handle),
    )


def _processes(handle: object) -> tuple[GpuProcess, ...] | None:
    for version in ("v3", "v2"):
        found = _ask(f"nvmlDeviceGetComputeRunningProcesses_{version}", handle)
        if found is not None:
            return tuple(describe(int(each.pid), each.usedGpuMemory) for each in found[:MAX_PROCESSES])
    return None


def _links(devices: Sequence[_Device]) -> list[GpuLink]:
    """Between whole GPUs."""
    links = []
    gpus = [device for device in devices if not device.info.parent]
    for number, first in enumerate(gpus):
        for second in gpus[number + 1 :]:
            nvlink = _ask("nvmlDeviceGetP2PStatus", first.handle, second.handle, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
            level = _ask("nvmlDeviceGetTopologyCommonAncestor", first.handle, second.handle)
            kind = "nvlink" if nvlink == pynvml.NVML_P2P_STATUS_OK else _LEVELS.get(level, "")
            if kind:
                links.append(GpuLink(first.info.index, second.info.index, kind))
    return links


def _islands(count: int, links: Sequence[GpuLink]) -> Mapping[int, int]:
    """index -> the lowest index that it reaches by NVLink, over others too; without those that reach none."""
    island = list(range(count))
    for link in links:
        if link.kind == "nvlink":
            low, high = sorted((island[link.a], island[link.b]))
            island = [low if number == high else number for number in island]
    return {index: number for index, number in enumerate(island) if island.count(number) > 1}


def _memory_info(handle: object, *, lost: bool = False) -> Any:
    """As nvidia-smi shows it: the older function counts what the driver reserves for itself as used."""
    found = _ask("nvmlDeviceGetMemoryInfo", handle, getattr(pynvml, "nvmlMemory_v2", None), lost=lost)
    return found if found is not None else _ask("nvmlDeviceGetMemoryInfo", handle, lost=lost)


def _memory(handle: object) -> int:
    memory = _memory_info(handle)
    return 0 if memory is None else int(memory.total)


def _numa(handle: object) -> int | None:
    node = _ask("nvmlDeviceGetNumaNodeId", handle)
    return int(node) if node is not None and node >= 0 else None


def _pci(handle: object) -> str:
    found = _ask("nvmlDeviceGetPciInfo", handle)
    return "" if found is None else _text(found.busId)


def _pcie(handle: object) -> str:
    generation = _ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)
    width = _ask("nvmlDeviceGetMaxPcieLinkWidth", handle)
    return f"{generation}x{width}" if generation and width else ""


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def _text(value: object) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text[:200]
