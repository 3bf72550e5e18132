"""Contract of the check whether CUDA works on the idle GPUs of a host, and its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

LIMIT_S = 60.0
"""For all of it: a container's start and the first context of CUDA take most of that."""
TASK = "schedulearn-cuda-check"
"""As which its processes are known on GPUs."""


@dataclass(frozen=True)
class Checked:
    """Either it was `skipped`, for this reason, or `errors` says what is wrong; neither: all is well."""

    skipped: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    """GPU -> what is wrong; "": of the host."""


class CudaCheck(Protocol):
    """Of one host. A question that fails is no answer: it raises RuntimeFault, or says `skipped`."""

    def run(self, gpu_uuids: Sequence[str]) -> Checked: ...


def read_answer(output: bytes, gpu_uuids: Sequence[str]) -> Checked:
    """What worker_images/cuda_check.py has printed; its GPUs are in the order of `gpu_uuids`."""
    for line in reversed(output.splitlines()):
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and isinstance(told.get("errors"), dict):
            return Checked(errors={_uuid(str(key), gpu_uuids): str(why) for key, why in told["errors"].items()})
        if isinstance(told, dict) and "skipped" in told:
            return Checked(skipped=str(told["skipped"]))
    return Checked(skipped="the check gave no answer")


def _uuid(index: str, gpu_uuids: Sequence[str]) -> str:
    if index in gpu_uuids:
        return index
    return gpu_uuids[int(index)] if index.isdigit() and int(index) < len(gpu_uuids) else ""
