"""The exit code of a command that a launcher ran: horovodrun and torchrun end with 1 whatever the command ended with,
and say the code in their last words."""

from __future__ import annotations

import re

from schedulearn.scheduler.core.command import SETUP_FAILED
from schedulearn.worker.supervisor import ALONE

FAILED = 1
"""With which launchers end when a worker fails."""
_LONGEST = 300
TAIL_BYTES = 8192
"""Of the output: enough for their last words."""

_OTHERS = rb"\s*(?:Process \d+ exit with status code -?\d+\.\s*)*"
"""What horovodrun says meanwhile, by other threads, of workers that it ends."""
_HOROVODRUN = re.compile(
    rb"RuntimeError: Horovod detected that one or more processes exited with non-zero status[^\n]*\n"
    + _OTHERS + rb"Process name: [^\n]*\n" + _OTHERS + rb"Exit code: (-?\d+)" + _OTHERS + rb"\Z"
)  # fmt: skip
_TORCHRUN = re.compile(rb"Root Cause \(first observed failure\):\r?\n[^=]*?exitcode  : (-?\d+) [^=]*=+\s*\Z")
_GPU_MEMORY = re.compile(rb"schedulearn: (out of memory on the GPU[^\n]*)")
"""What the SDK says (worker_images/sdk/torch/memory.py)."""
_FRAMEWORK_MEMORY = re.compile(rb"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|OOM when allocating tensor")
_SETUP = re.compile(rb"(?:^|\n)" + SETUP_FAILED.encode() + rb" \d+\s*\Z")

TRAINED_ALONE = (
    "Warning: its workers never joined a process group, so each one did the whole work for itself. Call hvd.init() "
    "with horovod, torch.distributed.init_process_group() with torchrun, or use schedulearn.worker: see "
    "docs/adapt-your-script.md. If the script shares its work by rank on its own, this is fine."
)


def why_failed(tail: bytes) -> str:
    """What the end of a failed program's output says of the cause; empty: nothing that we know."""
    if _SETUP.search(tail):
        return "the setup command failed, so that the command did not run"
    if said := _GPU_MEMORY.findall(tail):
        return str(said[-1].decode(errors="replace"))[:_LONGEST].strip()
    if _FRAMEWORK_MEMORY.search(tail):
        return "out of memory on the GPU: a smaller batch may fit"
    return ""


def why_alone(tail: bytes) -> str:
    """A warning for a program that completed, if its workers say that they never joined each other; else empty."""
    return TRAINED_ALONE if tail.rstrip().endswith(ALONE) else ""


def command_exit_code(code: int, tail: bytes) -> int:
    """That of the first worker that failed, where `tail`, the end of a program's output, is what a launcher says of
    it; else `code`, the program's own."""
    if code != FAILED:
        return code
    found = _HOROVODRUN.search(tail) or _TORCHRUN.search(tail)
    worker = int(found[1]) if found else code
    return worker if 0 < worker <= 255 else 128 - worker if -128 < worker < 0 else code  # negative: by a signal
