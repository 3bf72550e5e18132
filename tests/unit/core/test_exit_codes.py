"""Launchers say the code of a worker in their last words, as captured from horovodrun 0.28.1 and torchrun 2.13."""

from pathlib import Path

import pytest

from schedulearn.scheduler.runtimes.exit_codes import command_exit_code
from schedulearn.scheduler.runtimes.log_store import LogStore

HOROVODRUN = b"""[1,0]<stdout>:Exit code: 9
  File "/x/horovod/runner/gloo_run.py", line 284, in launch_gloo
    raise RuntimeError('Horovod detected that one or more processes exited with non-zero '
RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to be \
terminated. The first process to do so was:
Process name: 1
Exit code: %s

""".replace(b"\\\n", b"")
TORCHRUN = b"""torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
sh FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-22_16:52:31
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 15452)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_16:52:31
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : %s (pid: 15451)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


@pytest.mark.parametrize("words", [HOROVODRUN, TORCHRUN], ids=["horovodrun", "torchrun"])
@pytest.mark.parametrize(("said", "code"), [("3", 3), ("1", 1), ("255", 255), ("137", 137), ("-9", 137)])
def test_the_code_of_the_worker_that_failed_first(words: bytes, said: str, code: int) -> None:
    assert command_exit_code(1, words % said.encode()) == code


@pytest.mark.parametrize("where", ["", "Process name: 1\n", "to be terminated. The first process to do so was:\n"])
def test_what_horovodrun_says_meanwhile_of_other_workers_is_no_last_word(where: str) -> None:
    ended = b"Process 1 exit with status code 143.\nProcess 12 exit with status code -15.\n"
    whole = HOROVODRUN % b"3"
    before, found, after = whole.rpartition(where.encode()) if where else (whole, b"", b"")
    assert command_exit_code(1, before + found + ended + after) == 3


@pytest.mark.parametrize("said", ["0", "256", "-128", "-99999999999"])
def test_a_code_that_can_be_none_is_not_believed(said: str) -> None:
    assert command_exit_code(1, HOROVODRUN % said.encode()) == 1


def test_only_the_launchers_failure_and_only_its_last_words_count() -> None:
    assert command_exit_code(2, HOROVODRUN % b"3") == 2
    assert command_exit_code(1, b"") == 1
    assert command_exit_code(1, HOROVODRUN % b"3" + b"and then something else failed\n") == 1
    assert command_exit_code(1, b"Process name: 0\nExit code: 3\n") == 1


def test_a_tail_may_lie_in_several_segments(tmp_path: Path) -> None:
    logs = LogStore(tmp_path, cap_bytes=40)
    writer = logs.writer("t")
    writer.append(b"0123456789abcdefghijklmnopqrstuvwxyz")
    writer.close()
    assert logs.tail("t", 15) == b"lmnopqrstuvwxyz"
    assert logs.tail("t", 1000) == b"0123456789abcdefghijklmnopqrstuvwxyz"
    assert logs.tail("nobody", 10) == b""
