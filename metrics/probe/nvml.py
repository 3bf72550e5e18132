"""Reader of this machine's GPUs by NVML, through nvidia-ml-py.

Without a driver there are no GPUs. Each value is queried by itself: a symbol that the driver's library lacks, or a card
that does not measure it, leaves only that value unknown. A failed query is no answer: the list of GPUs is then unknown,
and the inventory says so.
"""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Mapping

import pynvml

from schedulearn.metrics.probe import topology, watchdog
from schedulearn.metrics.probe.gpu_processes import describe
from schedulearn.metrics.probe.nvml_health import RESET, read_health
from schedulearn.metrics.probe.readings import (
    MAX_GPUS,
    MAX_PROCESSES,
    GpuHealth,
    GpuInfo,
    GpuProcess,
    GpuReading,
    Inventory,
    Sample,
    Xid,
)
from schedulearn.metrics.probe.watchdog import NVML

Asking = Callable[..., None]
"""Callback with the number of a GPU in NVML's list, or NVML for none, and its UUID if that is known."""

LIBRARY = "libnvidia-ml.so.1"
KERNEL_MODULE = "/proc/driver/nvidia/version"
RETRY_S = 10.0  # between tries to reach a driver that is not there: it may be loaded later
XIDS_S = 86_400.0  # time for which an Xid is reported
HEALTH_S = 10.0  # between reads of values that seldom change
_EVENTS = 1000  # maximum of a sample: the rest come with the next one
_XID_UNKNOWN = 999  # NVML's code for an unknown Xid
_ANSWERS = frozenset({
    pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_INSUFFICIENT_POWER, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_GPU_IS_LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED,
})  # fmt: skip
"""Errors that say something about a device: it does not exist, or lacks this. All others leave a query unanswered."""

_ADVICE = {
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: " (the driver's library and its kernel module differ, as after an "
    "update: reboot, or reload the module)",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: " (modprobe nvidia loads it; see dmesg)",
}

_SLOWDOWN = 1
"""NVML_TEMPERATURE_THRESHOLD_SLOWDOWN."""
_REASONS = {  # NVML's bits; an idle card and clocks set by a user are no problem
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
    number: int = 0
    """Its GPU's place in NVML's list."""


class NvmlReader:
    """Reader of NVML for one thread.

    Errors show only in values that are left out. Call `close`, or NVML can't be initialised anew.
    """

    def __init__(
        self,
        version: str = "",
        left_out: Mapping[int, int] | None = None,
        asking: Asking = lambda number, uuid="": None,
    ) -> None:
        """`left_out`: number in NVML's list of a GPU that is not queried -> number of its places in an inventory.
        `asking`: called before each query, with the GPU that it is about."""
        self._left_out = left_out or {}
        self._asking = asking
        self._version = version
        self._ready = False
        self._retry_at = 0.0
        self._problem = ""
        """Why the last initialisation of NVML failed."""
        self._devices: list[_Device] = []
        self._events: object = None
        self._watched: list[str] = []
        self._xids: dict[str, dict[int, Xid]] = {}  # uuid of a whole GPU -> by code
        self._health_at = -HEALTH_S

    def inventory(self) -> Inventory:
        """Return the current GPUs, or why some or all are unknown. If all are, NVML is initialised anew next time."""
        self._asking(NVML)
        problem = self._init()
        if not problem:
            found, problem = _devices(self._left_out, self._asking)
        if problem and (not self._ready or not found):
            self.close()
            return Inventory(self._version, problem=problem)
        before = {device.info.uuid: device for device in self._devices}
        self._devices = found[:MAX_GPUS]
        whole = [d for d in self._devices if not d.info.parent]
        links = topology.links([topology.GpuPlace(d.info.index, d.handle, d.info.pci) for d in whole], self._ask_named)
        islands = topology.islands(1 + max((d.info.index for d in self._devices), default=-1), links)
        self._devices = [
            replace(device, info=replace(device.info, island=islands.get(device.info.index)))
            for device in self._devices
        ]
        self._asking(NVML)
        self._watch()
        # A GPU that the driver does not list any more may still be queried, and will report that it is lost.
        shown = {device.info.uuid for device in self._devices}
        gone = [device for uuid, device in before.items() if uuid not in shown and not device.info.parent]
        inventory = Inventory(
            self._version,
            _text(_ask("nvmlSystemGetDriverVersion") or ""),
            tuple(device.info for device in self._devices),
            tuple(links),
            problem,
            topology.numa_nodes(),
        )
        self._devices += gone
        return inventory

    def close(self) -> None:
        """Release NVML, which counts its users and ends with the last one. `inventory` initialises it anew."""
        if self._ready:
            if self._events is not None:
                _ask("nvmlEventSetFree", self._events)
            _ask("nvmlShutdown")
        self._ready, self._events = False, None
        self._devices, self._watched = [], []

    def sample(self) -> Sample:
        """Read all GPUs of the last `inventory`."""
        if not self._ready:
            return Sample(time.time())
        self._asking(NVML)
        self._take_events()
        healthy = time.monotonic() - self._health_at >= HEALTH_S
        if healthy:
            self._health_at = time.monotonic()
        whole: dict[str, GpuReading] = {}
        readings = []
        for device in self._devices:
            uuid = device.info.parent or device.info.uuid
            if uuid not in whole:
                self._asking(device.number, uuid)
                whole[uuid] = self._read_whole(uuid, device.whole)
                if healthy and whole[uuid].health is None and not whole[uuid].lost:
                    whole[uuid] = whole[uuid]._replace(health=read_health(device.whole, _ask))
            readings.append(_read_part(device, whole[uuid]) if device.info.parent else whole[uuid])
        return Sample(time.time(), tuple(readings))

    def _ask_named(self, name: str, handle: object, *arguments: object) -> Any:
        """Do the same as `_ask` for a device, after reporting which one."""
        found = next((device for device in self._devices if device.handle is handle), None)
        if found is not None:
            self._asking(found.number, found.info.uuid)
        return _ask(name, handle, *arguments)

    def _init(self) -> str:
        if self._ready:
            return ""
        if time.monotonic() < self._retry_at:
            return self._problem
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self._retry_at = time.monotonic() + RETRY_S
            what = str(error).rstrip(".") + _ADVICE.get(error.value, "")
            self._problem = f"NVML can't be used: {what}"
            return self._problem
        self._ready = True
        return ""

    def _watch(self) -> None:
        """Subscribe to Xid errors, where the driver supports that."""
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
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_TIMEOUT:
                    # A lost GPU spoils the set for all others: the next inventory makes a new one, without it.
                    _ask("nvmlEventSetFree", self._events)
                    self._events, self._watched = None, []
                return
            except Exception:  # as in `_ask`
                return
            code = int(event.eventData)
            uuid = _text(_ask("nvmlDeviceGetUUID", event.device) or "")
            if code != _XID_UNKNOWN and uuid:
                seen = self._xids.setdefault(uuid, {})
                before = seen.pop(code, None)  # the last one is at the end
                seen[code] = Xid(code, 1 if before is None else before.times + 1, round(time.time(), 3))

    def _read_whole(self, uuid: str, handle: object) -> GpuReading:
        xids = tuple(xid for xid in self._xids.get(uuid, {}).values() if xid.at > time.time() - XIDS_S)
        try:
            utilization = _ask("nvmlDeviceGetUtilizationRates", handle, lost=True)
            memory = _memory_info(handle, lost=True)
            temperature = _ask("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU, lost=True)
        except _Lost as why:
            if why.needs_reset:
                return GpuReading(uuid, xids=xids, health=GpuHealth(recovery=RESET))
            return GpuReading(uuid, xids=xids, lost=True)
        power, energy = _ask("nvmlDeviceGetPowerUsage", handle), _ask("nvmlDeviceGetTotalEnergyConsumption", handle)
        limit = _ask("nvmlDeviceGetEnforcedPowerLimit", handle)
        reasons = _ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:
            reasons = _ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle) or 0
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
            xids,
            tuple(name for bit, name in _REASONS.items() if reasons & bit),
            _processes(handle),
            power_limit_w=None if limit is None else limit / 1e3,
            slowdown_temperature=_float(_ask("nvmlDeviceGetTemperatureThreshold", handle, _SLOWDOWN)),
        )


def find_gpus() -> Inventory:
    """Return all GPUs and MIG devices of this machine, or why they are unknown. Returns even if NVML hangs."""
    return watchdog.find_once() if has_driver() else NvmlReader().inventory()


def has_driver() -> bool:
    """Return whether any part of NVIDIA's driver is here, however broken: its library or its kernel module."""
    if os.path.exists(KERNEL_MODULE):
        return True
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:  # a library that is damaged, or of another kind of machine, is named by its path
        return f"{LIBRARY}: cannot open shared object file: No such file" not in str(error)
    return True


class _Unanswered(Exception):
    """NVML could not answer. The text says what and why."""


class _Lost(Exception):
    """The driver has lost this GPU, or does not let it be used before a reset."""

    def __init__(self, needs_reset: bool) -> None:
        self.needs_reset = needs_reset


def _ask(name: str, *arguments: object, lost: bool = False) -> Any:
    """Call a function of NVML and return its answer (`pynvml` has no types); None if it can't answer.

    With `lost`, raises _Lost if the GPU is gone. The function is given by name, since an nvidia-ml-py that is older, or
    newer, than the function lacks it.
    """
    function = getattr(pynvml, name, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        if lost and error.value in (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED):
            raise _Lost(error.value == pynvml.NVML_ERROR_RESET_REQUIRED) from error
        return None
    except Exception:  # nvidia-ml-py has other kinds too, for libraries older than itself
        return None


def _learn(name: str, *arguments: object) -> Any:
    """Do the same as `_ask`, but raise _Unanswered instead of taking an error for an answer.

    It is for queries that decide which GPUs there are.
    """
    function = getattr(pynvml, name, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        if error.value in _ANSWERS:
            return None
        raise _Unanswered(f"{error} ({name})") from error
    except Exception:  # as in `_ask`
        return None


def _devices(left_out: Mapping[int, int], asking: Asking) -> tuple[list[_Device], str]:
    """Return whole GPUs, with MIG devices in place of a split one; and why some, or all, are unknown."""
    try:
        count = pynvml.nvmlDeviceGetCount()
    except Exception as why:  # whatever it is: no answer is not the answer "none"
        return [], f"NVML can't be used: {why} (nvmlDeviceGetCount)"
    found: list[_Device] = []
    problems = []
    index = 0
    for number in range(count):
        if number in left_out:
            index += left_out[number]
            continue
        asking(number)
        try:
            parts = _parts(number, index)
        except _Unanswered as why:
            problems.append(f"GPU {number} can't be queried: {why}")
            index += 1
        else:
            found += parts
            index += len(parts)
    more = f", and {len(problems) - 2} more" if len(problems) > 2 else ""
    return found, ", ".join(problems[:2]) + more


def _parts(number: int, index: int) -> list[_Device]:
    """Return one GPU of NVML's list, or its MIG devices; none if it is lost. `index`: that of the first."""
    handle = _learn("nvmlDeviceGetHandleByIndex", number)
    uuid = _text(_learn("nvmlDeviceGetUUID", handle) or "") if handle is not None else ""
    if not uuid:
        return []
    name = _text(_ask("nvmlDeviceGetName", handle) or "GPU")
    pci, pcie, compute = _pci(handle), _pcie(handle), _compute(handle)
    numa = topology.numa_node(pci)
    mode = _learn("nvmlDeviceGetMigMode", handle)
    if not mode or mode[0] != 1:
        minor = _ask("nvmlDeviceGetMinorNumber", handle)
        info = GpuInfo(uuid, index, name, _memory(handle), numa=numa, pci=pci, pcie=pcie, compute=compute, minor=minor)
        return [_Device(info, handle, handle, number)]
    found: list[_Device] = []
    for part in range(_learn("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        mig = _learn("nvmlDeviceGetMigDeviceHandleByIndex", handle, part)
        own = _text(_learn("nvmlDeviceGetUUID", mig) or "") if mig is not None else ""
        if own:
            at = index + len(found)
            kind, size = _mig_type(mig, name), _memory(mig)
            info = GpuInfo(own, at, kind, size, uuid, numa=numa, pci=pci, pcie=pcie, compute=compute)
            found.append(_Device(info, mig, handle, number))
    return found


def _mig_type(mig: object, whole: str) -> str:
    """Return a type such as `NVIDIA A100-SXM4-40GB MIG 1g.5gb`: each size is a type of its own."""
    name = _text(_ask("nvmlDeviceGetName", mig) or "")
    if " MIG " in name:
        return name
    size = _ask("nvmlDeviceGetAttributes_v2", mig)
    if size is None:
        return f"{whole} MIG"
    return f"{whole} MIG {size.gpuInstanceSliceCount}g.{round(size.memorySizeMB / 1024)}gb"


def _read_part(device: _Device, whole: GpuReading) -> GpuReading:
    """Return the reading of a MIG device. Its memory and processes are its own, its health is the GPU's.

    Utilisation, power and energy are measured for the whole GPU only.
    """
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


def _memory_info(handle: object, *, lost: bool = False) -> Any:
    """Return memory as nvidia-smi shows it: the older function counts memory reserved by the driver as used."""
    found = _ask("nvmlDeviceGetMemoryInfo", handle, getattr(pynvml, "nvmlMemory_v2", None), lost=lost)
    return found if found is not None else _ask("nvmlDeviceGetMemoryInfo", handle, lost=lost)


def _memory(handle: object) -> int:
    memory = _memory_info(handle)
    return 0 if memory is None else int(memory.total)


def _pci(handle: object) -> str:
    found = _ask("nvmlDeviceGetPciInfo", handle)
    return "" if found is None else _text(found.busId)


def _pcie(handle: object) -> str:
    generation = _ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)
    width = _ask("nvmlDeviceGetMaxPcieLinkWidth", handle)
    return f"{generation}x{width}" if generation and width else ""


def _compute(handle: object) -> str:
    found = _ask("nvmlDeviceGetCudaComputeCapability", handle)
    return f"{found[0]}.{found[1]}" if found is not None else ""


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def _text(value: object) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text[:200]
