"""Exit code of a command that a launcher ran.

horovodrun and torchrun exit with 1, whatever the command's exit code was. They print that code at the end of their
output.
"""

from __future__ import annotations

import re

from schedulearn.scheduler.core.command import SETUP_FAILED
from schedulearn.worker.supervisor import ALONE

FAILED = 1
"""Exit code of a launcher when a worker fails."""
_LONGEST = 300
TAIL_BYTES = 8192
"""Bytes read from the end of the output; enough for a launcher's final message."""

_OTHERS = rb"\s*(?:Process \d+ exit with status code -?\d+\.\s*)*"
"""Lines that other threads of horovodrun print in between, about workers that it terminates."""
_HOROVODRUN = re.compile(
    rb"RuntimeError: Horovod detected that one or more processes exited with non-zero status[^\n]*\n"
    + _OTHERS + rb"Process name: [^\n]*\n" + _OTHERS + rb"Exit code: (-?\d+)" + _OTHERS + rb"\Z"
)  # fmt: skip
_TORCHRUN = re.compile(rb"Root Cause \(first observed failure\):\r?\n[^=]*?exitcode  : (-?\d+) [^=]*=+\s*\Z")
_GPU_MEMORY = re.compile(rb"schedulearn: (out of memory on the GPU[^\n]*)")
"""Message of the SDK (worker_images/sdk/torch/memory.py)."""
_FRAMEWORK_MEMORY = re.compile(rb"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|OOM when allocating tensor")
_SETUP = re.compile(rb"(?:^|\n)" + SETUP_FAILED.encode() + rb" \d+\s*\Z")

TRAINED_ALONE = (
    "Warning: its workers never joined a process group, so each one did all the work separately. Call hvd.init() "
    "with horovod, torch.distributed.init_process_group() with torchrun, or use schedulearn.worker: see "
    "docs/adapt-your-script.md. If the script shares its work by rank on its own, this is fine."
)


def why_failed(tail: bytes) -> str:
    """Return the cause of a failure from the end of the program's output. Empty if unknown."""
    if _SETUP.search(tail):
        return "the setup command failed, so the command did not run"
    if said := _GPU_MEMORY.findall(tail):
        return str(said[-1].decode(errors="replace"))[:_LONGEST].strip()
    if _FRAMEWORK_MEMORY.search(tail):
        return "out of memory on the GPU: a smaller batch may fit"
    return ""


def why_alone(tail: bytes) -> str:
    """Return a warning if the workers of a completed program report that they never joined. Else empty."""
    return TRAINED_ALONE if tail.rstrip().endswith(ALONE) else ""


def command_exit_code(code: int, tail: bytes) -> int:
    """Return the exit code of the first failed worker, if a launcher reports it.

    `tail` is the end of the program's output. Otherwise returns `code`, the program's own exit code."""
    if code != FAILED:
        return code
    found = _HOROVODRUN.search(tail) or _TORCHRUN.search(tail)
    worker = int(found[1]) if found else code
    return worker if 0 < worker <= 255 else 128 - worker if -128 < worker < 0 else code  # negative: killed by a signal
