"""The harness can fail: what must never be is noticed, and told with the way to see it again."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from clusters import wait_for
from real_faults.invariants import Broken
from real_faults.runs import RealRun
from real_faults.witness import ProcessWitness

pytestmark = pytest.mark.process


def test_a_job_that_vanishes_is_caught(tmp_path: Path) -> None:
    with RealRun(1, tmp_path / "run") as run:
        run.submit("works")
        run.pass_time(0.1)
        with closing(sqlite3.connect(run.service.data / "schedulearn.db", timeout=30)) as connection, connection:
            connection.execute("DELETE FROM job")
        with pytest.raises(Broken, match="acknowledged jobs are not in the database") as caught:
            run.guard(run.invariants.check)
        assert "SCHEDULEARN_REAL_FAULT_SEEDS=1 " in str(caught.value), "it says how to see it again"


@pytest.mark.parametrize(
    ("tasks", "gpus", "wrong"),
    [
        (("schedulearn-a-1-0", "schedulearn-b-1-0"), ("g1,g2", "g2,g3"), True),
        (("schedulearn-a-1-0", "schedulearn-a-2-0"), ("g1", "g2"), True),
        (("schedulearn-a-1-0", "schedulearn-b-1-0"), ("g1", "g2"), False),
        (("schedulearn-a-1-0", "schedulearn-a-1-1"), ("g1", "g2"), False),
    ],
    ids=["a GPU twice", "a job twice", "two jobs", "a gang"],
)
def test_what_runs_at_once_and_must_not_is_caught(
    tasks: tuple[str, str], gpus: tuple[str, str], wrong: bool, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with ExitStack() as stack:
        witness = ProcessWitness(tmp_path / "data", marks)
        stack.callback(witness.close)
        for task, names in zip(tasks, gpus, strict=True):
            env = {**os.environ, "SCHEDULEARN_TASK_DIR": str(tmp_path / "data/tasks" / task), "SCHEDULEARN_TASK": task}
            process = subprocess.Popen(["sleep", "300"], env={**env, "NVIDIA_VISIBLE_DEVICES": names})
            stack.callback(process.wait)
            stack.callback(process.kill)
        wait_for(lambda: witness.running() == sorted(tasks), what="both to be seen")
        assert bool(witness.broken) == wrong, witness.broken


def test_a_command_that_is_killed_after_it_noted_its_exit_may_have_failed(tmp_path: Path) -> None:
    with RealRun(1, tmp_path / "run") as run:
        run.faulty = False
        run.submit("fails")
        run.finish()
        (noted,) = run.marks.iterdir()
        noted.write_text("began\n0\n")
        with pytest.raises(Broken, match=r"is said to have failed, and its commands ended with \[0\]"):
            run.invariants.check_settled(1)
        assert isinstance(run.witness, ProcessWitness)
        run.witness.uncertain.add(noted.name)
        run.invariants.check_settled(1)
