"""Dependencies between jobs (key `after`). Pure.

A job can only name jobs that are stored already, so there are no cycles. Dependencies matter only until it starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedulearn.scheduler.core.cluster_state import After, ClusterState, Job
from schedulearn.scheduler.core.model import Explanation
from schedulearn.scheduler.core.outcomes.findings import JobMoved
from schedulearn.scheduler.core.states import WAITS, JobState, Reason

OK = "ok"
"""Value of `when` that requires success. The other value, `any`, accepts every end."""


def blocked_by_dependencies(state: ClusterState) -> dict[str, Explanation]:
    """Return the jobs that wait for other jobs, with the reason."""
    found = {}
    for job, after in _dependent(state):
        if unfinished := [each for each in after["jobs"] if each in state.jobs]:
            found[job.id] = Explanation(Reason.WAITING_FOR_JOBS.value, _sentence(state, unfinished, after))
    return found


def failed_dependencies(state: ClusterState) -> list[JobMoved]:
    """Return jobs that can never start because a job they depend on did not succeed.

    Jobs that depend on these are included."""
    moved: dict[str, JobMoved] = {}
    for job, after in sorted(_dependent(state), key=lambda found: found[0].id):  # those that others wait for are older
        for each in after["jobs"] if after["when"] == OK else ():
            if each in moved or (each not in state.jobs and state.ended.get(each) is not JobState.SUCCEEDED):
                message = f"{_end_of(state, each)}, and this job required its success."
                moved[job.id] = JobMoved(job, Reason.PREDECESSOR_FAILED, message)
                break
    return list(moved.values())


def _dependent(state: ClusterState) -> Iterator[tuple[Job, After]]:
    for job in state.jobs.values():
        if job.after is not None and job.state in WAITS and not job.attempt:
            yield job, job.after


def _sentence(state: ClusterState, unfinished: Sequence[str], after: After) -> str:
    end = "succeed" if after["when"] == OK else "end"
    first = f"job {unfinished[0]} ({state.jobs[unfinished[0]].state})"
    if len(unfinished) == 1:
        return f"It waits for {first} to {end}."
    return f"It waits for {len(unfinished)} jobs to {end}; the first of them is {first}."


def _end_of(state: ClusterState, job_id: str) -> str:
    if job_id in state.jobs:
        return f"Job {job_id} was cancelled"
    ended = state.ended.get(job_id)
    return f"Job {job_id} was deleted" if ended is None else f"Job {job_id} ended as {ended}"
