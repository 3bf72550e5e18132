"""State of a GPU besides its load, by single queries of NVML."""

from __future__ import annotations

import ctypes
from typing import Any, Callable

import pynvml

from schedulearn.metrics.probe.readings import GpuHealth

Ask = Callable[..., Any]
"""The name of a function of NVML, and its arguments -> the answer; None where there is none."""

RESET = "GPU reset"
_RECOVERY_FIELD = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, of drivers from 570 on
_RECOVERY = {
    0: "none",
    1: RESET,
    2: "reboot of the host",
    3: "drain of its peer-to-peer traffic",
    4: "drain and GPU reset",
    5: "recovery of the IMEX domain",
    6: "reset of its bus",
    7: "reboot of the whole system",
}
_COMPUTE_MODES = {0: "default", 1: "exclusive", 2: "prohibited", 3: "exclusive"}
_FABRIC = {1: "not started", 2: "in progress", 3: "completed"}
_DEGRADED = 1  # of the two lowest bits of the fabric's health mask
_MAX_LINKS = 36


def read_health(handle: object, ask: Ask) -> GpuHealth:
    remapped = ask("nvmlDeviceGetRemappedRows", handle)
    fabric, degraded = _fabric(handle, ask)
    default = ask("nvmlDeviceGetPowerManagementDefaultLimit", handle)
    return GpuHealth(
        recovery=_recovery(handle, ask),
        remap_pending=remapped is not None and bool(remapped[2]),
        remap_failed=remapped is not None and bool(remapped[3]),
        retired_pending=ask("nvmlDeviceGetRetiredPagesPendingStatus", handle) == 1,
        nvlinks=_nvlinks(handle, ask),
        pcie_generation=ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        pcie_width=ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
        max_pcie_generation=ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        max_pcie_width=ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
        compute_mode=_COMPUTE_MODES.get(ask("nvmlDeviceGetComputeMode", handle), ""),
        fabric=fabric,
        fabric_degraded=degraded,
        default_limit_w=None if default is None else default / 1e3,
    )


def _recovery(handle: object, ask: Ask) -> str:
    found = ask("nvmlDeviceGetFieldValues", handle, [_RECOVERY_FIELD])
    if found is None or found[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return ""
    action = int(found[0].value.uiVal)
    return _RECOVERY.get(action, f"recovery action {action}")


def _nvlinks(handle: object, ask: Ask) -> int | None:
    """Return the number of active NVLinks; None for a GPU that has none."""
    states = []
    for link in range(_MAX_LINKS):
        state = ask("nvmlDeviceGetNvLinkState", handle, link)
        if state is None:  # no such link, or no links at all
            break
        states.append(bool(state))
    return sum(states) if states else None


def _fabric(handle: object, ask: Ask) -> tuple[str, bool]:
    """Return how far the GPU has joined the NVSwitches, if there are any, and whether bandwidth is lost."""
    info = getattr(pynvml, "c_nvmlGpuFabricInfo_v2_t", None)
    if info is None:
        return "", False
    found = info()
    if ask("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(found)) is None:
        return "", False
    state = _FABRIC.get(int(found.state), "")
    if state == "completed" and found.status != pynvml.NVML_SUCCESS:
        state = f"error {int(found.status)}"
    return state, state == "completed" and int(found.healthMask) & 3 == _DEGRADED
