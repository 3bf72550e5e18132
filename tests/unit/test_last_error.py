"""Which line of a failed job's log is shown first."""

import pytest

from schedulearn.scheduler.runtimes.last_error import MAX_CHARACTERS, TAIL_BYTES, shown_lines, telling_line

TRACEBACK = b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\n'
HOROVOD = (
    b"Process 0 exit with status code 1.\nTerminating remaining workers after failure of Process 0.\n" + TRACEBACK
    + b"RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to "
    b"be terminated. The first process to do so was:\nProcess name: 0\nExit code: 1\n"
)  # fmt: skip
MEMORY = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (b"epoch 1\n" + TRACEBACK + b"ValueError: no such split: 'tset'\n", "ValueError: no such split: 'tset'"),
        (TRACEBACK + MEMORY + b"\n" + TRACEBACK + b"RuntimeError: NCCL communicator was aborted\n", MEMORY.decode()),
        (
            b"[1]<stderr>:KeyError: 'x'\nRuntimeError: Horovod detected that one or more processes exited with "
            b"non-zero status, thus causing the job to be terminated.\n",
            "KeyError: 'x'",
        ),
        (b"[0]<stderr>:/usr/bin/python: No module named train\n" + HOROVOD, "/usr/bin/python: No module named train"),
        (b"[0]<stdout>:epoch 1\n[0]<stdout>:out of data\n" + HOROVOD, "out of data"),
        (HOROVOD, "Exit code: 1"),
        (b"\x1b[31merror: unrecognized arguments: --lrr\x1b[0m\nbye\n", "error: unrecognized arguments: --lrr"),
        (b"10%\r50%\rsh: 1: trian: not found", "sh: 1: trian: not found"),
        (b"one\ntwo\n\n", "two"),
        (b"\xff\xfe\n", "��"),
        (b"", ""),
        (b"x" * 10_000, "x" * MAX_CHARACTERS),
        (b"ValueError: long ago\n" + b"step\n" * TAIL_BYTES, "step"),
    ],
)  # fmt: skip
def test_the_line_that_says_most(log: bytes, line: str) -> None:
    assert telling_line(shown_lines(log)) == line
