"""Interface and result of the CUDA check on a host's idle GPUs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

LIMIT_S = 60.0
"""For the whole check. The start of a container and the first CUDA context take most of it."""
TASK = "schedulearn-cuda-check"
"""Task name under which the check's processes on GPUs are known."""


@dataclass(frozen=True)
class Checked:
    """Result of a check: the reason why it was `skipped`, or `errors`. Without both, CUDA works."""

    skipped: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    """GPU -> error; the key "" stands for the host."""


class CudaCheck(Protocol):
    """CUDA check of one host.

    A check that can't be carried out gives no verdict: it raises RuntimeFault, or returns `skipped`."""

    def run(self, gpu_uuids: Sequence[str]) -> Checked: ...


def read_answer(output: bytes, gpu_uuids: Sequence[str]) -> Checked:
    """Parse the output of worker_images/cuda_check.py, whose GPUs are in the order of `gpu_uuids`."""
    for line in reversed(output.splitlines()):
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and isinstance(told.get("errors"), dict):
            return Checked(errors={_uuid(str(key), gpu_uuids): str(why) for key, why in told["errors"].items()})
        if isinstance(told, dict) and "skipped" in told:
            return Checked(skipped=str(told["skipped"]))
    return Checked(skipped="the check returned no result")


def _uuid(index: str, gpu_uuids: Sequence[str]) -> str:
    if index in gpu_uuids:
        return index
    return gpu_uuids[int(index)] if index.isdigit() and int(index) < len(gpu_uuids) else ""
