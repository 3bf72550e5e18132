"""Expected run times of jobs that start again."""

from __future__ import annotations

from typing import Any

from builders import cluster_state, gpu_record, host_record, job_record, task_record

from schedulearn.scheduler.core.model import JobView
from schedulearn.scheduler.core.planning.snapshot import build_snapshot
from schedulearn.scheduler.core.predictions.lengths import Prediction
from schedulearn.scheduler.core.predictions.run_times import RunTime, RunTimes

NOW = 1000.0


def seen(*, runs: bool, family: bool, **fields: Any) -> JobView:
    """A job that ran for 900 s, and was then stopped. `runs`: it runs again, for 100 s."""
    job = job_record("j", "running" if runs else "queued", attempt=2, run_seconds=900.0, gpu_seconds=900.0, **fields)
    task = task_record("j", attempt=2, started_at=NOW - 100)
    state = cluster_state(
        jobs={"j": job}, hosts=[host_record()], gpus=[gpu_record()], tasks=[task] if runs else [],
        leases={"GPU-0": {0: task.id}} if runs else {},
    )  # fmt: skip
    ended = RunTimes([RunTime("", 1, 950.0)] * 9)
    known = Prediction(950.0, 900.0, 1000.0, 9, 1.0) if family else None
    [view] = build_snapshot(state, {"h1"}, lambda uuid: None, NOW, length_of=lambda job_id: known, run_times=ended).jobs
    return view


def test_a_rigid_job_has_all_of_its_work_before_it() -> None:
    """It was expected to end at once, and others waited for it in vain."""
    assert seen(runs=False, family=True, preemptible=True).remaining == 950.0
    assert seen(runs=True, family=True, preemptible=True).remaining == 850.0
    waiting, running = (seen(runs=runs, family=False, preemptible=True).expected_left for runs in (False, True))
    assert waiting is not None
    assert running is not None
    assert (round(waiting), round(running)) == (950, 850)


def test_an_elastic_job_continues() -> None:
    assert seen(runs=False, family=True, elastic=True).remaining == 50.0


def test_the_time_limit_counts_all_attempts() -> None:
    assert seen(runs=True, family=False, max_duration=1200.0).expected_left == 200.0
