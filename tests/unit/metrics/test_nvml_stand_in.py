"""The stand-in for NVML against NVIDIA's manual: which calls there are, and what they answer on which card, on x86.

A test that passes by an answer that no hardware gives proves nothing. Each row is from the NVML API Reference: what it
says of supported products, and the errors that it lists.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_probes.nvml_library import build_library

from schedulearn.metrics.probe import nvml

UNSUPPORTED, LOST, INVALID = "NVML_ERROR_NOT_SUPPORTED", "NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_INVALID_ARGUMENT"
UNINITIALIZED, TIMEOUT = "NVML_ERROR_UNINITIALIZED", "NVML_ERROR_TIMEOUT"
CALLS = """
import json, sys
import pynvml
names = {getattr(pynvml, name): name for name in dir(pynvml) if name.startswith("NVML_ERROR_")}
def answer(function, *arguments):
    try:
        found = function(*arguments)
    except pynvml.NVMLError as error:
        return names[error.value]
    return found if isinstance(found, (int, str, list, tuple)) else "an answer"
def field(handle):
    [value] = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    return names.get(value.nvmlReturn, value.value.uiVal)
def fabric(handle):
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(handle, pynvml.byref(info))
    return info.state
before = answer(pynvml.nvmlDeviceGetCount)
pynvml.nvmlInit()
whole = pynvml.nvmlDeviceGetHandleByIndex(0)
mig = sys.argv[1] == "mig"
handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(whole, 0) if mig else whole
calls = {
    "count before init": before, "handle 99": answer(pynvml.nvmlDeviceGetHandleByIndex, 99),
    "link 99": answer(pynvml.nvmlDeviceGetNvLinkState, whole, 99),
    "recovery": answer(field, whole), "fabric": answer(fabric, whole),
    "utilization": answer(pynvml.nvmlDeviceGetUtilizationRates, handle),
    "power": answer(pynvml.nvmlDeviceGetPowerUsage, handle), "memory": answer(pynvml.nvmlDeviceGetMemoryInfo, handle),
    "ecc": answer(pynvml.nvmlDeviceGetTotalEccErrors, whole, 1, 0),
    "numa": answer(pynvml.nvmlDeviceGetNumaNodeId, whole), "mig": answer(pynvml.nvmlDeviceGetMigMode, whole),
    "rows": answer(pynvml.nvmlDeviceGetRemappedRows, whole),
    "pages": answer(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, whole),
    "links": answer(pynvml.nvmlDeviceGetNvLinkState, whole, 0), "mode": answer(pynvml.nvmlDeviceGetComputeMode, whole),
}
events = pynvml.nvmlEventSetCreate()
pynvml.nvmlDeviceRegisterEvents(whole, pynvml.nvmlEventTypeXidCriticalError, events)
calls["no event"] = answer(pynvml.nvmlEventSetWait_v2, events, 0)
open(sys.argv[2], "w").write("lost 0")
calls["lost"] = answer(pynvml.nvmlDeviceGetTemperature, whole, 0)
calls["lost event"] = answer(pynvml.nvmlEventSetWait_v2, events, 0)
print(json.dumps(calls))
"""
MANUAL: dict[str, Any] = {
    "count before init": UNINITIALIZED,
    "handle 99": INVALID,
    "link 99": INVALID,
    "recovery": 0,
    "fabric": 0,  # without NVSwitches
    "utilization": "an answer",
    "power": 100500,
    "memory": "an answer",
    "ecc": 0,
    "numa": UNSUPPORTED,  # for coherent platforms (Grace)
    "mig": [0, 0],
    "rows": [0, 0, 0, 0],
    "pages": UNSUPPORTED,  # Ampere and newer replace rows instead
    "links": 1,
    "mode": 0,
    "no event": TIMEOUT,
    "lost": LOST,
    "lost event": LOST,
}
CARDS: dict[str, dict[str, Any]] = {
    "datacenter": {},
    "mig": {"mig": [1, 1], "utilization": UNSUPPORTED, "power": UNSUPPORTED},  # of whole GPUs only
    "old": {"recovery": UNSUPPORTED, "fabric": UNSUPPORTED, "mig": UNSUPPORTED, "rows": UNSUPPORTED, "pages": 0},
    "geforce": {
        "recovery": UNSUPPORTED, "fabric": UNSUPPORTED, "mig": UNSUPPORTED, "rows": UNSUPPORTED, "ecc": UNSUPPORTED,
        "links": UNSUPPORTED, "link 99": UNSUPPORTED,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


def test_each_call_answers_as_the_manual_says(library: Path, tmp_path: Path) -> None:
    found = {}
    for card in CARDS:
        env = {**os.environ, "LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(tmp_path / card)}
        env |= {"FAKE_NVML_MIG": "0"} if card == "mig" else {"FAKE_NVML_CARD": card}
        words = [sys.executable, "-c", CALLS, card, str(tmp_path / card)]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        found[card] = json.loads(done.stdout)
    assert found == {card: {**MANUAL, **differs} for card, differs in CARDS.items()}


NOT_MODELLED = {
    "nvmlDeviceGetCurrentClocksThrottleReasons": "older name of nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetP2PStatus": "asked where links have no states",
}


def test_each_call_that_the_probe_makes_is_modelled(library: Path) -> None:
    """By name: nvidia-ml-py calls the function of the same name, or its newest version."""
    symbols = subprocess.run(["nm", "-D", str(library / nvml.LIBRARY)], capture_output=True, text=True, check=True)
    there = {re.sub(r"_v\d$", "", name) for name in re.findall(r" T (nvml\w+)", symbols.stdout)}
    sources = Path(nvml.__file__).parent.glob("*.py")
    asked = {name for source in sources for name in re.findall(r"\bnvml[A-Z]\w+[a-z]\w*", source.read_text())}
    called = {name for name in asked if name not in ("nvmlReturn", "nvmlEventTypeXidCriticalError", "nvmlMemory_v2")}
    missing = {name for name in called if re.sub(r"_v\d$", "", name) not in there}
    assert {name for name in missing if not name.endswith("_")} == NOT_MODELLED.keys()
