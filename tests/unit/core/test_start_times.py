"""Jobs that may not start yet, and held jobs that give their GPUs back."""

import math

from builders import cluster_state, gpu_record, host_record, job_record, task_record
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.cluster_state import ClusterState, Job
from schedulearn.scheduler.core.outcomes.conclusions import Result, conclude
from schedulearn.scheduler.core.planning.evictions import evictions
from schedulearn.scheduler.core.planning.snapshot import build_snapshot
from schedulearn.scheduler.core.planning.start_times import start_times, why_not_yet
from schedulearn.scheduler.core.states import TERMINAL, JobState, Reason

NOW = 1000.0


def of(*jobs: Job, host: dict[str, object] | None = None) -> ClusterState:
    live = [job for job in jobs if job.state in (JobState.STARTING, JobState.RUNNING, JobState.RESIZING)]
    return cluster_state(
        jobs={job.id: job for job in jobs},
        tasks=[task_record(job.id, gpu_uuids=["GPU-0"]) for job in live],
        hosts=[host_record(**(host or {}))],
        gpus=[gpu_record()],
    )


def test_a_job_is_seen_from_its_time_on_and_a_held_one_never() -> None:
    soon = job_record("soon", "queued", start_after=NOW + 1)
    due = job_record("due", "queued", start_after=NOW)
    held = job_record("held", "pulling", held_at=1.0, start_after=NOW - 1)
    jobs = of(soon, due, held)
    times = start_times(jobs.jobs, NOW)
    assert times == {"soon": NOW + 1, "held": math.inf}
    found = build_snapshot(jobs, {"h1"}, lambda uuid: None, NOW, resting=times.keys())
    assert [job.id for job in found.jobs] == ["due"]


def test_each_says_why() -> None:
    held = why_not_yet(0.0, "ada", NOW + 1, NOW)
    assert held is not None
    assert (held.code, str(held)) == ("held", "Held by ada since 1970-01-01 00:00:00 UTC. It starts after a release.")
    later = why_not_yet(None, "", NOW + 1, NOW)
    assert later is not None
    assert (later.code, str(later)) == ("start_after", "It may start from 1970-01-01 00:16:41 UTC.")
    assert why_not_yet(None, "", NOW, NOW) is None


def test_only_held_elastic_jobs_that_run_leave_their_gpus() -> None:
    runs = {"elastic": True, "held_at": 1.0, "held_by": "ada"}
    paused = job_record("a", "running", **runs)
    others = [
        job_record("b", "starting", **runs), job_record("c", "resizing", **runs), job_record("d", "stopping", **runs),
        job_record("e", "running", elastic=True), job_record("f", "queued", **runs),
    ]  # fmt: skip
    [found] = evictions(of(paused, *others), NOW)
    assert (found.job.id, found.reason) == ("a", Reason.PAUSE_REQUESTED)
    assert found.why.startswith("Held by ada since 1970")


def test_a_job_that_is_paused_while_its_host_is_drained_waits_held_and_does_not_move() -> None:
    job = job_record("a", "running", elastic=True, held_at=1.0)
    [found] = evictions(of(job, host={"drain_until": NOW + 60}), NOW)
    assert found.reason is Reason.PAUSE_REQUESTED


@given(
    st.sampled_from(sorted(set(JobState) - TERMINAL)), st.booleans(), st.none() | st.floats(0, 2 * NOW),
    st.none() | st.floats(0, NOW),
)  # fmt: skip
def test_a_job_is_planned_for_or_may_not_start_or_ends(
    state: JobState, elastic: bool, start_after: float | None, held_at: float | None
) -> None:
    """A running job is never left out: policies would give its GPUs to others."""
    job = job_record("a", state, elastic=elastic, start_after=start_after, held_at=held_at)
    kept_back = "a" in start_times({"a": job}, NOW)
    if state in (JobState.STARTING, JobState.RUNNING, JobState.STOPPING):
        assert not kept_back
    elif held_at is not None:
        assert kept_back
    else:
        assert kept_back == (state != JobState.RESIZING and start_after is not None and start_after > NOW)


def test_a_paused_job_waits_again_whatever_its_command_said() -> None:
    job = job_record("a", "resizing", reason="pause_requested", elastic=True, held_at=1.0)
    for outcome, code in ((Reason.COMMAND_FAILED, 75), (Reason.COMMAND_FAILED, 1), (Reason.LOST, None)):
        moved = conclude(job, [Result(outcome, code)], NOW, 60.0)
        assert (moved.reason, moved.stopped_as) == (Reason.PAUSED, Reason.PAUSED)
        assert "losses" not in moved.changes, "nobody is to blame"
        assert "retries" not in moved.changes
    assert conclude(job, [Result(Reason.COMPLETED, 0)], NOW, 60.0).reason is Reason.COMPLETED
