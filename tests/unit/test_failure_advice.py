"""Class and next step of a failure, by its last output."""

import json
import re
from collections.abc import Mapping

import pytest

from schedulearn.scheduler.reports.failure_advice import Failed, FailureKind, NextStep, advice_for
from schedulearn.scheduler.runtimes.last_error import shown_lines, telling_line

TRACEBACK = b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\n'


def advised(
    log: bytes = b"",
    exit_code: int | None = 1,
    reason: str = "command_failed",
    message: str = "",
    **spec: object,
) -> NextStep:
    given: Mapping[str, object] = {"command": "python train.py", **spec}
    failed = Failed(reason, message, exit_code, telling_line(shown_lines(log)), shown_lines(log), given)
    advice = advice_for(failed)
    if advice.clone is not None:
        json.dumps(advice.clone.changes)
        assert advice.clone.changes.keys() <= given.keys() | {"requirements"}
    return advice


@pytest.mark.parametrize(
    ("log", "kind", "cause"),
    [
        (b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "gpu_memory", "out of GPU memory"),
        (
            b"tensorflow...ResourceExhaustedError: OOM when allocating tensor with shape[64,512]",
            "gpu_memory", "out of GPU memory",
        ),
        (
            b"RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that "
            b"dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
            "shared_memory", "out of shared memory (/dev/shm)",
        ),
        (b"OSError: [Errno 28] No space left on device: '/outputs/model.pt'", "disk_full", "the disk is full"),
        (b"ModuleNotFoundError: No module named 'einops.layers'", "module_missing", "ModuleNotFoundError: einops"),
        (b"/usr/bin/python: No module named accelerate", "module_missing", "ModuleNotFoundError: accelerate"),
        (b"sh: 1: trian: not found", "command_missing", "command not found: trian"),
        (b"bash: line 1: deepspeed: command not found", "command_missing", "command not found: deepspeed"),
        (
            b'OCI runtime create failed: exec: "torchrn": executable file not found in $PATH: unknown',
            "command_missing", "command not found: torchrn",
        ),
        (
            b"FileNotFoundError: [Errno 2] No such file or directory: '/data/train.csv'",
            "file_missing", "no such file: /data/train.csv",
        ),
        (
            b"python: can't open file '/workspace/trian.py': [Errno 2] No such file or directory",
            "file_missing", "no such file: /workspace/trian.py",
        ),
        (b"cat: /data/labels.txt: No such file or directory", "file_missing", "no such file: /data/labels.txt"),
        (b"PermissionError: [Errno 13] Permission denied: '/data/c'", "not_permitted", "not permitted: /data/c"),
        (b"OSError: [Errno 30] Read-only file system: 'runs'", "not_permitted", "not permitted: runs"),
        (b"train.py: error: unrecognized arguments: --lrr 1", "bad_option", "unrecognized arguments: --lrr 1"),
        (b"Error: No such option: --epoch", "bad_option", "No such option: --epoch"),
        (
            b"RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "gpu_unsupported", "the image's CUDA does not support this GPU or driver",
        ),
        (b"RuntimeError: No CUDA GPUs are available", "no_gpu", "no usable GPU in the container"),
        (b"epoch 3 loss 0.4\nLoss is nan, stopping training", "not_a_number", "the loss became NaN or infinite"),
        (b"ValueError: Input X contains NaN.", "not_a_number", "the loss became NaN or infinite"),
        (
            b"[rank1]:[E] [PG 0 Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)",
            "workers_disconnected", "workers lost each other (NCCL or Gloo)",
        ),
        (
            b"requests.ConnectionError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url",
            "no_network", "no connection to a server",
        ),
        (b"OSError: [Errno 98] Address already in use", "port_in_use", "the port is in use"),
    ],
)  # fmt: skip
def test_the_last_output_names_the_class(log: bytes, kind: str, cause: str) -> None:
    for output in (log, TRACEBACK + log + b"\n", b"[1]<stderr>:" + log.replace(b"\n", b"\n[1]<stderr>:")):
        advice = advised(output)
        assert (advice.kind, advice.cause) == (kind, cause)
        assert advice.step.endswith(".")


def test_a_warning_is_not_the_cause_of_another_exception() -> None:
    log = b"warning: Permission denied: '/root/.cache'\n" + TRACEBACK + b"ValueError: no such split\n"
    assert advised(log) == (FailureKind.OTHER, "ValueError: no such split", "", None)


def test_causes_without_a_class_are_equal_but_for_numbers() -> None:
    first, second = (advised(f"KeyError: sample {n} at 0x7f{n}".encode()) for n in (17, 4711))
    assert first.cause == second.cause == "KeyError: sample N at N"


def test_state_and_exit_code_name_the_class() -> None:
    assert advised(reason="time_limit", exit_code=143).kind is FailureKind.TIME_LIMIT
    assert advised(reason="hung").kind is FailureKind.HUNG
    assert advised(reason="image_unavailable", exit_code=None).kind is FailureKind.IMAGE_UNAVAILABLE
    assert advised(exit_code=137).kind is FailureKind.KILLED
    assert advised(exit_code=127).kind is FailureKind.COMMAND_MISSING
    assert advised(exit_code=139).cause == "the program crashed (segmentation fault)"
    killed = advised(message="it ran out of memory and was killed; its limit is the key `memory`", exit_code=137)
    assert killed.kind is FailureKind.MEMORY
    assert advised(exit_code=3) == (FailureKind.OTHER, "", "", None)


OOM = b"CUDA out of memory"
NAN = b"loss: nan"


@pytest.mark.parametrize(
    ("log", "spec", "changes"),
    [
        (OOM, {"batch_size": 64}, {"batch_size": 32}),
        (OOM, {"batch_size": None, "max_batch_size": 9}, {"max_batch_size": 4}),
        (OOM, {"command": "python t.py --batch-size 64 --x 1"}, {"command": "python t.py --batch-size 32 --x 1"}),
        (OOM, {"command": "t --per_device_train_batch_size=7"}, {"command": "t --per_device_train_batch_size=3"}),
        (OOM, {"command": "t --batch-size 1"}, None),
        (OOM, {"command": "t --batch-size-warmup 64"}, None),
        (OOM, {"command": "t --token abcdefghijkl --batch-size 64"}, None),
        (b"Bus error", {"shm_size": 1 << 30}, {"shm_size": 2 << 30}),
        (b"No module named 'cv2'", {"requirements": ["torch"]}, {"requirements": ["torch", "opencv-python-headless"]}),
        (b"No module named 'cv2'", {}, {"requirements": ["opencv-python-headless"]}),
        (b"No module named 'cv2'", {"requirements": "requirements.txt"}, None),
        (
            b"No module named 'cv2'",
            {"requirements": ["--index-url https://ada:secret12@pip.example/simple", "torch"]}, None,
        ),
        (NAN, {"command": "t --lr 0.01"}, {"command": "t --lr 0.001"}),
        (NAN, {"command": "t --learning-rate=1e-3 -b 4"}, {"command": "t --learning-rate=0.0001 -b 4"}),
        (NAN, {"command": "t --lr 0"}, None),
    ],
)  # fmt: skip
def test_a_clone_changes_what_failed(log: bytes, spec: dict[str, object], changes: dict[str, object] | None) -> None:
    clone = advised(log, **spec).clone
    assert (clone and clone.changes) == changes


def test_limits_are_doubled() -> None:
    late = advised(reason="time_limit", max_duration=3600).clone
    assert late is not None
    assert late.changes == {"max_duration": 7200}
    assert advised(reason="time_limit", max_duration=None).clone is None
    small = advised(message="it ran out of memory and was killed", memory=1 << 30).clone
    assert small is not None
    assert re.search("twice the memory", small.label)
