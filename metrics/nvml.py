"""What NVML says of the GPUs of this machine, through nvidia-ml-py. Without a driver there are none."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pynvml


@dataclass(frozen=True)
class GpuInfo:
    """A GPU as the driver names it. `uuid` is what NVIDIA_VISIBLE_DEVICES takes."""

    uuid: str
    index: int
    type: str
    memory_bytes: int


_lock = threading.Lock()
_ready = False


def _init() -> bool:
    global _ready
    with _lock:
        if not _ready:
            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError:
                return False
            _ready = True
    return True


def list_gpus() -> Sequence[GpuInfo]:
    """All GPUs by index; empty where there is no NVIDIA driver."""
    if not _init():
        return []
    gpus = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        gpus.append(
            GpuInfo(
                uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
                index=index,
                type=_text(pynvml.nvmlDeviceGetName(handle)),
                memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
            )
        )
    return gpus


def utilization(uuid: str) -> float | None:
    """Share of the last sample period in which a kernel ran, in per cent; None if it can't be told."""
    if not _init():
        return None
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except pynvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
