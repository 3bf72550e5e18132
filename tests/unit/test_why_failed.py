"""What the end of a failed program's output says of the cause."""

import pytest

from schedulearn.scheduler.core.command import SETUP_FAILED
from schedulearn.scheduler.runtimes.exit_codes import why_failed

TRACEBACK = b"""Traceback (most recent call last):
  File "train.py", line 9, in <module>
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.77 GiB
"""
SDK = b"schedulearn: out of memory on the GPU with 64 samples per micro-step: 52 would fit (2.1 GB); set max_local=52\n"
LAUNCHER = b"[0]<stdout>:a worker ended with 1: the others can't continue\n"


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (TRACEBACK, "out of memory on the GPU: a smaller batch may fit"),
        (
            b"tensorflow: OOM when allocating tensor with shape[64,3]",
            "out of memory on the GPU: a smaller batch may fit",
        ),
        (
            TRACEBACK + b"[1]<stdout>:" + SDK + LAUNCHER,
            "out of memory on the GPU with 64 samples per micro-step: 52 would fit (2.1 GB); set max_local=52",
        ),
        (SETUP_FAILED.encode() + b" 3\n", "the setup command failed, so the command did not run"),
        (b"ValueError: no such batch\n", ""),
        (b"", ""),
    ],
)
def test_the_cause_is_told_where_it_is_known(tail: bytes, why: str) -> None:
    assert why_failed(tail) == why


def test_what_a_script_makes_up_is_cut() -> None:
    assert len(why_failed(b"schedulearn: out of memory on the GPU" + b"x" * 5000)) == 300
