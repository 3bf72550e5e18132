"""Classes of failures, with one next step each. Pure.

The class comes from the state of the job, its exit code and its last output. A next step may be a clone with some keys
changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from schedulearn.scheduler.core.outcomes.blame import OUT_OF_MEMORY
from schedulearn.scheduler.core.planning.command_masking import hide_in_command, hide_in_text


class FailureKind(StrEnum):
    GPU_MEMORY = "gpu_memory"
    MEMORY = "memory"
    SHARED_MEMORY = "shared_memory"
    DISK_FULL = "disk_full"
    MODULE_MISSING = "module_missing"
    FILE_MISSING = "file_missing"
    COMMAND_MISSING = "command_missing"
    NOT_PERMITTED = "not_permitted"
    BAD_OPTION = "bad_option"
    NO_GPU = "no_gpu"
    GPU_UNSUPPORTED = "gpu_unsupported"
    NOT_A_NUMBER = "not_a_number"
    WORKERS_DISCONNECTED = "workers_disconnected"
    NO_NETWORK = "no_network"
    PORT_IN_USE = "port_in_use"
    TIME_LIMIT = "time_limit"
    HUNG = "hung"
    IMAGE_UNAVAILABLE = "image_unavailable"
    START_REFUSED = "start_refused"
    KILLED = "killed"
    CRASHED = "crashed"
    OTHER = "other"


class Failed(NamedTuple):
    """A failed job, as far as its class depends on it."""

    reason: str
    """Reason of its state, a `states.Reason`."""
    message: str
    exit_code: int | None
    """Exit code of the container that failed first; None: unknown."""
    line: str
    """The most informative line of its log (`telling_line`)."""
    lines: Sequence[str]
    """Last lines of its log."""
    spec: Mapping[str, object]
    """Keys of the job."""


class Clone(NamedTuple):
    """Changes for a clone that avoids the failure."""

    label: str
    changes: Mapping[str, object]
    """Key of a job -> new value."""


class NextStep(NamedTuple):
    kind: FailureKind
    cause: str
    """Cause as a phrase, equal for equal failures."""
    step: str
    """Next step as a sentence; empty: unknown."""
    clone: Clone | None = None


class _Pattern(NamedTuple):
    kind: FailureKind
    pattern: re.Pattern[str]
    cause: str
    """Format with the named groups of the pattern."""
    step: str


_QUOTED = r"""['"`‘](?P<name>[^'"`’\n]{1,200})['"`’]"""
_PATTERNS = (
    _Pattern(
        FailureKind.GPU_MEMORY,
        re.compile(
            OUT_OF_MEMORY.pattern.decode()
            + r"|OOM when allocating tensor|out of memory on the GPU|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: OOM"
        ),
        "out of GPU memory",
        "Use a smaller batch, gradient accumulation or a GPU with more memory.",
    ),
    _Pattern(
        FailureKind.SHARED_MEMORY,
        re.compile(
            r"[Bb]us error|insufficient shared memory|unable to (?:write to|open shared memory object)[^\n]{0,80}torch_"
            r"|shared memory \(shm\)"
        ),
        "out of shared memory (/dev/shm)",
        "Set a larger `shm_size`, or use fewer data loader workers.",
    ),
    _Pattern(
        FailureKind.DISK_FULL,
        re.compile(r"No space left on device|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]"),
        "the disk is full",
        "Delete outputs, checkpoints or images on the host: `schedulearn disk` shows what takes the space.",
    ),
    _Pattern(
        FailureKind.MODULE_MISSING,
        re.compile(r"No module named ['\"]?(?P<name>[A-Za-z_]\w{0,80})"),
        "ModuleNotFoundError: {name}",
        "Add `{package}` to `requirements`, or use an image that has it. If the module is yours, check the job's code.",
    ),
    _Pattern(
        FailureKind.COMMAND_MISSING,
        re.compile(
            r"(?:exec|execvp|exec: )[^\n]{0,40}?[\"'](?P<exec>[^\"'\n]{1,200})[\"'][^\n]{0,40}(?:executable file not "
            r"found|[Nn]o such file)|(?:^|: )(?P<name>[\w./+-]{1,200}): (?:command not found|not found$)"
        ),
        "command not found: {name}",
        "Use an image that has it, install it in `setup`, or give the full path.",
    ),
    _Pattern(
        FailureKind.FILE_MISSING,
        re.compile(
            r"(?:No such file or directory: |can't open file |does not exist: |[Nn]o such file:? )"
            + _QUOTED
            + r"|(?P<bare>[\w./~+-]{1,200}): No such file or directory"
        ),
        "no such file: {name}",
        "Check the path. A job sees its code, its image, and the data sets of `mounts` and `data`.",
    ),
    _Pattern(
        FailureKind.NOT_PERMITTED,
        re.compile(r"(?:Permission denied|Read-only file system)(?:: " + _QUOTED + ")?"),
        "not permitted: {name}",
        "Write below `$SCHEDULEARN_OUTPUT_DIR`, or check the owner of the data.",
    ),
    _Pattern(
        FailureKind.BAD_OPTION,
        re.compile(
            r"error: (?P<name>unrecognized arguments: [^\n]{1,200}|the following arguments are required: [^\n]{1,200}"
            r"|argument [^\n]{1,200}: (?:invalid|expected)[^\n]{0,100})|(?P<option>No such option: [^\n]{1,100})"
        ),
        "{name}",
        "Correct the options of the command.",
    ),
    _Pattern(
        FailureKind.GPU_UNSUPPORTED,
        re.compile(
            r"no kernel image is available|CUDA driver version is insufficient|cudaErrorNoKernelImageForDevice"
            r"|forward compatibility was attempted|is not compatible with the current PyTorch installation"
            r"|driver on your system is too old"
        ),
        "the image's CUDA does not support this GPU or driver",
        "Use an image that is built for this GPU, or set `gpu_type`.",
    ),
    _Pattern(
        FailureKind.NO_GPU,
        re.compile(
            r"No CUDA GPUs are available|Found no NVIDIA driver|not compiled with CUDA|CUDA is not available"
            r"|no CUDA-capable device"
        ),
        "no usable GPU in the container",
        "Use an image with CUDA, and ask for at least one GPU.",
    ),
    _Pattern(
        FailureKind.NOT_A_NUMBER,
        re.compile(
            r"(?i:\bloss\w*\b[^\n]{0,20}\b(?:is|was|became|=|:)\s*[\"']?(?:nan|inf)\b)|FloatingPointError"
            r"|(?i:(?:contains|found|produced|got)[^\n]{0,30}\bnans?\b)|returned nan values"
        ),
        "the loss became NaN or infinite",
        "Use a lower learning rate or gradient clipping, and check the data for invalid values.",
    ),
    _Pattern(
        FailureKind.WORKERS_DISCONNECTED,
        re.compile(
            r"collective operation timeout|nccl(?:System|Remote|Internal)Error|NCCL[^\n]{0,60}time(?:d )?out"
            r"|Timed out[^\n]{0,60}(?:send|recv|operation|rank|store)|Connection closed by peer|gloo[^\n]{0,60}timeout"
        ),
        "workers lost each other (NCCL or Gloo)",
        "One worker stopped or stalled first: look at the end of each worker's log. `NCCL_DEBUG=INFO` tells more.",
    ),
    _Pattern(
        FailureKind.NO_NETWORK,
        re.compile(
            r"Temporary failure in name resolution|Name or service not known|Max retries exceeded with url"
            r"|Network is unreachable|couldn't connect to 'https?://|Could not resolve host"
        ),
        "no connection to a server",
        "Download the data before the job and mount it, or check the host's network.",
    ),
    _Pattern(
        FailureKind.PORT_IN_USE,
        re.compile(r"Address already in use|EADDRINUSE"),
        "the port is in use",
        "Let the script take the port of `ports`, or another one.",
    ),
)
_BY_REASON = {
    "time_limit": (FailureKind.TIME_LIMIT, "time limit reached", "Give it more time (`max_duration`)."),
    "hung": (FailureKind.HUNG, "it hung", "Look at its last output and at the stacks in its events."),
    "image_unavailable": (
        FailureKind.IMAGE_UNAVAILABLE, "image unavailable", "Check the image's name, and the login of its registry.",
    ),
    "start_refused": (FailureKind.START_REFUSED, "the host refused the start", "See the message, and correct the job."),
}  # fmt: skip
_SIGNALS = {4: "illegal instruction", 6: "aborted", 7: "bus error", 8: "arithmetic error", 11: "segmentation fault"}
_PACKAGES = {
    "attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless", "dateutil": "python-dateutil",
    "dotenv": "python-dotenv", "git": "GitPython", "google": "google-api-python-client", "hydra": "hydra-core",
    "lightning_fabric": "lightning", "PIL": "pillow", "pl_bolts": "lightning-bolts", "pytorch_lightning":
    "pytorch-lightning", "skimage": "scikit-image", "sklearn": "scikit-learn", "umap": "umap-learn", "yaml": "pyyaml",
    "cv": "opencv-python-headless", "sentence_transformers": "sentence-transformers", "tensorboardX": "tensorboardX",
}  # fmt: skip
"""Packages whose module has another name."""
_BATCH = re.compile(r"(?<!\S)(--?[\w.-]*batch(?:[_-]size)?|-b)([ =])(\d{1,9})(?!\S)")
_RATE = re.compile(r"(?<!\S)(--?(?:lr|learning[_-]rate))([ =])(\d{0,4}\.?\d{1,12}(?:e-?\d{1,3})?)(?!\S)")
_EXCEPTION = re.compile(r"[\w.]{1,200}(?:Error|Exception)\b")
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
_SIGKILL = 137
_LONGEST = 200


def advice_for(failed: Failed) -> NextStep:
    """Return the class of a failure and its next step."""
    for kind, cause, step in (_by_state(failed), _by_output(failed), _by_exit_code(failed)):
        if kind is not FailureKind.OTHER:
            return NextStep(kind, cause, step, _clone(kind, failed, cause))
    cause = failed.line or failed.message
    return NextStep(FailureKind.OTHER, _NUMBERS.sub("N", cause)[:_LONGEST], "")


_Found = tuple[FailureKind, str, str]
_UNKNOWN: _Found = (FailureKind.OTHER, "", "")


def _by_state(failed: Failed) -> _Found:
    if failed.message.startswith("it ran out of memory") or "ran out of memory and was killed" in failed.message:
        return FailureKind.MEMORY, "out of memory", "Give it more memory (`memory`), or use fewer data loader workers."
    return _BY_REASON.get(failed.reason, _UNKNOWN)


def _by_output(failed: Failed) -> _Found:
    """Search the line that explains the failure, then the other last lines, newest first.

    The other lines may be warnings, so they don't count beside an exception of another class.
    """
    others = () if _EXCEPTION.match(failed.line) else reversed(failed.lines)
    for line in (failed.line, *others):
        for kind, pattern, cause, step in _PATTERNS:
            if (found := pattern.search(line)) is not None:
                name = next((value for value in found.groupdict().values() if value), "see the log")
                package = _PACKAGES.get(name, name)
                return kind, cause.format(name=name)[:_LONGEST], step.format(name=name, package=package)
    return _UNKNOWN


def _by_exit_code(failed: Failed) -> _Found:
    code = failed.exit_code or 0
    if code == _SIGKILL:
        step = "Often the host ran out of memory: set `memory`, and look at the job's memory use."
        return FailureKind.KILLED, "killed from outside (SIGKILL)", step
    if code == 127:
        return FailureKind.COMMAND_MISSING, "command not found", "Check the first word of the command."
    if (signal := _SIGNALS.get(code - 128)) is not None:
        step = "A native library crashed. Set `PYTHONFAULTHANDLER=1` in `env` to see where."
        return FailureKind.CRASHED, f"the program crashed ({signal})", step
    return _UNKNOWN


def _clone(kind: FailureKind, failed: Failed, cause: str) -> Clone | None:
    make = _CLONES.get(kind)
    return make(failed.spec, cause) if make is not None else None


def _smaller_batch(spec: Mapping[str, object], cause: str) -> Clone | None:
    for key in ("batch_size", "max_batch_size"):
        if (half := _number(spec, key) // 2) > 0:
            return Clone(f"Clone with half the batch ({half})", {key: half})
    return _changed_command(spec, _BATCH, lambda old: str(int(old) // 2), "half the batch")


def _lower_rate(spec: Mapping[str, object], cause: str) -> Clone | None:
    return _changed_command(spec, _RATE, lambda old: f"{float(old) / 10:.6g}", "a tenth of the learning rate")


def _changed_command(
    spec: Mapping[str, object], pattern: re.Pattern[str], change: Callable[[str], str], what: str
) -> Clone | None:
    """Return a clone whose command has another value of one option. None if it is not there, or there is a secret."""
    command = str(spec["command"])
    found = pattern.search(command)
    if found is None or hide_in_command(command) != command:
        return None
    new = change(found[3])
    if float(new) <= 0 or float(new) == float(found[3]):
        return None
    changed = command[: found.start(3)] + new + command[found.end(3) :]
    return Clone(f"Clone with {what} ({new})", {"command": changed})


def _twice(key: str, what: str) -> Callable[[Mapping[str, object], str], Clone | None]:
    def clone(spec: Mapping[str, object], cause: str) -> Clone | None:
        value = _number(spec, key)
        return Clone(f"Clone with twice the {what}", {key: value * 2}) if value else None

    return clone


def _number(spec: Mapping[str, object], key: str) -> int:
    """Return the value of a key as a whole number; 0 without one."""
    value = spec.get(key)
    return int(value) if isinstance(value, int | float) else 0


def _with_package(spec: Mapping[str, object], cause: str) -> Clone | None:
    """Return a clone that installs the missing package. None for a list in a file, or with a secret."""
    module = cause.rpartition(" ")[2]
    package = _PACKAGES.get(module, module)
    listed = spec.get("requirements") or []
    if not isinstance(listed, list) or any(hide_in_text(line) != line for line in listed):
        return None
    return Clone(f"Clone with {package} installed", {"requirements": [*listed, package]})


_CLONES: Mapping[FailureKind, Callable[[Mapping[str, object], str], Clone | None]] = {
    FailureKind.GPU_MEMORY: _smaller_batch,
    FailureKind.MEMORY: _twice("memory", "memory"),
    FailureKind.SHARED_MEMORY: _twice("shm_size", "shared memory"),
    FailureKind.TIME_LIMIT: _twice("max_duration", "time"),
    FailureKind.MODULE_MISSING: _with_package,
    FailureKind.NOT_A_NUMBER: _lower_rate,
}
