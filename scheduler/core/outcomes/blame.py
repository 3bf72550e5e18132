"""Table of start errors and output lines: responsible party and advice. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Blame(StrEnum):
    """Party responsible for a failure."""

    HOST = "host"
    GPU = "gpu"
    IMAGE = "image"
    """The image can't run on this host, but may run on others."""
    USER = "user"


@dataclass(frozen=True)
class Cause:
    """One row of the table: the cause of failures with these words."""

    code: str
    words: re.Pattern[str]
    blame: Blame
    what: str
    """Text after "On HOST"; `{0}` is the text that the pattern captured."""
    advice: str

    def sentence(self, host_id: str, found: re.Match[str]) -> str:
        """Return a sentence without its final period: what is wrong, where, and what to do."""
        captured = [(group or "").strip() for group in found.groups()]
        what = self.what.format(*captured).replace(" ()", "")
        return f"on {host_id} {what}: {self.advice}"


@dataclass(frozen=True)
class Explained:
    """The cause of one failure."""

    cause: Cause
    sentence: str


def _cause(code: str, words: str, blame: Blame, what: str, advice: str) -> Cause:
    return Cause(code, re.compile(words, re.I), blame, what, advice)


_TOOLKIT = (
    "install the NVIDIA container toolkit there, run `nvidia-ctk runtime configure --runtime=docker`, and restart "
    "Docker"
)

START_ERRORS: Sequence[Cause] = (
    _cause(
        "driver_mismatch", r"driver/library version mismatch", Blame.HOST,
        "the NVIDIA driver's library and its kernel module differ, as after an update", "reboot the host",
    ),
    _cause(
        "driver_silent", r"driver rpc error", Blame.HOST,
        "the NVIDIA driver does not answer the container toolkit", "look for Xid errors in dmesg there, and reboot it",
    ),
    _cause(
        "driver_not_loaded", r"driver (?:is )?not loaded", Blame.HOST,
        "the NVIDIA driver is not loaded", "run `modprobe nvidia` there, and see dmesg",
    ),
    _cause(
        "driver_too_old", r"unsatisfied condition: ([^,\n(]*[^,\n( ])", Blame.IMAGE,
        "the image can't start: it asks for {0}", "install a newer NVIDIA driver there, or choose another image",
    ),
    _cause(
        "gpu_unknown", r"(?:(\S+): )?unknown device", Blame.GPU,
        "the driver does not know a GPU of the job any more ({0})", "compare `nvidia-smi -L` there, and reboot it",
    ),
    _cause(
        "cdi_stale", r"unresolvable CDI", Blame.HOST,
        "the CDI description of the GPUs is missing or out of date",
        "run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` there",
    ),
    _cause(
        "no_toolkit", r"could not select device driver", Blame.HOST,
        "Docker gives no GPUs to containers", _TOOLKIT,
    ),
    _cause(
        "no_runtime", r"unknown or invalid runtime|unknown runtime specified", Blame.HOST,
        "Docker has lost its nvidia runtime", _TOOLKIT,
    ),
    _cause(
        "no_library", r"libnvidia-ml\S*: cannot open shared object|load library failed", Blame.HOST,
        "the NVIDIA driver's library is missing", "install the NVIDIA driver there",
    ),
    _cause(
        "toolkit_missing", r"nvidia-c[\w-]+\"?: (?:executable file not found|stat .*no such file|no such file)",
        Blame.HOST,
        "a program of the NVIDIA container toolkit is missing", _TOOLKIT,
    ),
    _cause(
        "no_device_file", r"gathering device information.*?(/dev/nvidia\S*?)[\"':]|(/dev/nvidia\S*): no such",
        Blame.HOST, "a device file of the GPUs is missing", "run `nvidia-smi` there, which makes them",
    ),
    _cause(
        "capabilities", r"unsupported (?:driver )?capabilit\w+.*", Blame.USER,
        "the image or the job requests driver capabilities that don't exist",
        "set NVIDIA_DRIVER_CAPABILITIES to compute,utility in env",
    ),
    _cause(
        "toolkit_failed", r"(nvidia-c[\w-]+: .*|nvml error: .*)", Blame.HOST,
        "the NVIDIA container toolkit fails ({0})", "try `nvidia-smi` there, and see dmesg",
    ),
    _cause(
        "onto_file", r"mount.*: not a directory", Blame.USER,
        "the path of a mount is a file in the image", "choose another path in mounts",
    ),
)  # fmt: skip
"""Messages of engines about failed starts. The first matching row counts."""


OUTPUT: Sequence[Cause] = (
    _cause(
        "shm_full",
        r"killed by signal: Bus error|insufficient shared memory|No space left on device.*/dev/shm"
        r"|/dev/shm.*No space left on device|Bus error \(core dumped\)",
        Blame.USER, "its shared memory was full", "increase it with the key shm_size, for example to 16g",
    ),
    _cause(
        "nccl_shm",
        r"(?:creating|attaching to|extend|allocate) (?:the )?shared memory segment|/dev/shm/nccl-",
        Blame.USER, "NCCL found no space in its shared memory", "increase it with the key shm_size, for example to 16g",
    ),
    _cause(
        "fabric_manager", r"system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY|cudaErrorSystemNotReady",
        Blame.HOST, "CUDA is not ready (error 802): the GPUs' fabric manager does not run",
        "run `systemctl restart nvidia-fabricmanager` there; its version must be the driver's",
    ),
    _cause(
        "driver_mismatch_cuda",
        r"driver/library version mismatch|unsupported display driver / cuda driver combination"
        r"|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        Blame.HOST, "the NVIDIA driver's library and its kernel module differ, as after an update", "reboot the host",
    ),
    _cause(
        "forward_compatibility", r"forward compatibility was attempted on non supported HW", Blame.IMAGE,
        "the image has libraries of a newer driver than the host's (CUDA error 804)",
        "install a newer NVIDIA driver there, or choose an image for an older CUDA",
    ),
    _cause(
        "driver_older_than_cuda",
        r"driver on your system is too old|driver version is insufficient for CUDA runtime version", Blame.IMAGE,
        "the image's CUDA is newer than the NVIDIA driver",
        "install a newer NVIDIA driver there, or choose an image for an older CUDA",
    ),
    _cause(
        "no_kernel_image", r"no kernel image is available for execution|CUDA_ERROR_NO_BINARY_FOR_GPU", Blame.IMAGE,
        "the image has no kernels for the GPU's compute capability",
        "choose an image that was built for it, or other GPUs by the key gpu_type",
    ),
    _cause(
        "no_gpus",
        r"No CUDA GPUs are available|no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE"
        r"|Found no NVIDIA driver on your system",
        Blame.HOST, "the job found no GPU in its container", "try `nvidia-smi` there, in a container too",
    ),
    _cause(
        "gpu_busy", r"CUDA-capable device\S* (?:is/are|are|is) busy or unavailable|CUDA_ERROR_DEVICE_UNAVAILABLE",
        Blame.GPU, "the GPU is busy or unavailable",
        "see by `nvidia-smi -q -d COMPUTE,PIDS` there whether its compute mode is exclusive, or others use it",
    ),
    _cause(
        "gpu_ecc", r"uncorrectable ECC error|CUDA_ERROR_ECC_UNCORRECTABLE", Blame.GPU,
        "the GPU has uncorrectable memory errors (ECC)", "reset it by `nvidia-smi --gpu-reset`, or replace it",
    ),
)  # fmt: skip
"""Output lines of jobs that fail on GPUs. The last matching line counts, and its first matching row: the first rows are
consequences of nothing else."""


OUT_OF_MEMORY = re.compile(rb"CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation")
"""Output of a job whose GPU ran out of memory. It is the job's own fault, unless others hold some of the memory."""


def of_output(tail: bytes, host_id: str) -> Explained | None:
    """Return the cause of a failed job by the end of its output; None if no row matches."""
    for line in reversed(tail.decode("utf-8", "replace").splitlines()):
        if (found := _first(OUTPUT, line[:2000], host_id)) is not None:
            return found
    return None


def of_start(words: str, host_id: str) -> Explained | None:
    """Return the cause of a failed start by the engine's message; None if no row matches."""
    return _first(START_ERRORS, words, host_id)


def _first(causes: Sequence[Cause], words: str, host_id: str) -> Explained | None:
    for cause in causes:
        if (found := cause.words.search(words)) is not None:
            return Explained(cause, cause.sentence(host_id, found)[:500])
    return None
