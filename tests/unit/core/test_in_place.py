"""Jobs whose workers come and go while they train: what is done, and what an end of a worker means."""

from typing import Any

import pytest
from builders import job_record, observed, task_record

from schedulearn.scheduler.core.cluster_state import Job, Task
from schedulearn.scheduler.core.outcomes import in_place as membership
from schedulearn.scheduler.core.outcomes.cluster_outcomes import outcomes_of
from schedulearn.scheduler.core.outcomes.conclusions import KILLED
from schedulearn.scheduler.core.outcomes.findings import Finding, JobMoved, TaskEnded
from schedulearn.scheduler.core.outcomes.in_place import (
    BEGIN_S,
    FORM_S,
    JOIN_S,
    WorkerChange,
    leaving,
    settled,
    step_to,
)
from schedulearn.scheduler.core.outcomes.observations import Observation
from schedulearn.scheduler.core.outcomes.task_outcomes import Evidence
from schedulearn.scheduler.core.states import Reason, TaskPhase
from schedulearn.scheduler.core.task import EngineState, ObservedTask

NOW = 1000.0


def running(workers: int = 2, **fields: Any) -> tuple[Job, list[Task]]:
    """A job that trains with `workers` since its beginning."""
    job = job_record(
        elastic=True, **{"resize": "in-place", "generation": 3, "trained": 3, "meeting": "10.0.0.2:4", **fields}
    )
    return job, [task_record(rank=rank, generation=3, gpu_uuids=[f"GPU-{rank}"]) for rank in range(workers)]


def newcomer(rank: int = 2, **fields: Any) -> Task:
    return task_record(rank=rank, **{"generation": 4, "created_at": NOW - 10, "gpu_uuids": [f"GPU-{rank}"], **fields})


def look(
    job: Job,
    tasks: list[Task],
    ends: dict[int, int] | None = None,
    ended: list[Task] | None = None,
    now: float = NOW,
) -> list[Finding]:
    """What is found where the tasks with the ranks of `ends` have exited with those codes, and the others run."""
    seen: list[ObservedTask] = []
    for task in tasks:
        code = (ends or {}).get(task.rank)
        exited = {"state": EngineState.EXITED, "exit_code": code, "started_at": 1.0, "finished_at": now}
        seen.append(observed(task.id, **(exited if code is not None else {})))  # type: ignore[arg-type]
    evidence = Evidence(now, 0.0, {"h1": Observation(seen, now)})
    return list(outcomes_of({job.id: job}, tasks, {job.id: ended or []}, evidence).findings)


def moves(findings: list[Finding]) -> list[JobMoved]:
    return [finding for finding in findings if isinstance(finding, JobMoved)]


def outcomes(findings: list[Finding]) -> dict[int, Reason]:
    return {finding.task.rank: finding.outcome for finding in findings if isinstance(finding, TaskEnded)}


def test_a_job_grows_by_new_workers_and_shrinks_from_its_end() -> None:
    job, tasks = running(2)
    assert step_to(job, tasks, {"h1": 4}) == WorkerChange("h1", more=2)
    assert step_to(job, tasks, {"h1": 1}) == WorkerChange("h1", leaving=(tasks[1].id,))


@pytest.mark.parametrize(
    ("job", "tasks", "wanted"),
    [
        (*running(2), {"h2": 4}),
        (*running(2), {"h1": 2, "h2": 2}),
        (*running(2), {}),
        (*running(2, resize="restart"), {"h1": 4}),
        (job_record(resize="in-place"), [task_record(gpu_uuids=["a", "b"])], {"h1": 4}),
    ],
    ids=["another host", "two hosts", "nothing", "it failed before", "all workers in one container"],
)
def test_else_it_is_resized_by_restart(job: Job, tasks: list[Task], wanted: dict[str, int]) -> None:
    assert step_to(job, tasks, wanted) is None


def test_one_change_at_a_time() -> None:
    job, tasks = running(2)
    assert settled(job, tasks)
    assert not settled(job_record(generation=4, trained=3), [*tasks, newcomer()])
    tasks[1] = tasks[1]._replace(stop=True)
    assert not settled(job, tasks)
    assert leaving({job.id: job}, tasks) == {tasks[1].id}
    tasks[0] = tasks[0]._replace(stop=True)  # it is stopped as a whole
    assert leaving({job.id: job}, tasks) == set()


def test_a_worker_that_was_asked_to_leave_has_left_whatever_its_exit_code() -> None:
    for code in (0, 1, KILLED):
        job, tasks = running(2, generation=4)
        tasks[1] = tasks[1]._replace(stop=True)
        findings = look(job, tasks, {1: code})
        assert outcomes(findings) == {1: Reason.RESIZED}
        assert moves(findings) == []


def test_a_job_whose_workers_left_before_ends_with_those_that_stayed() -> None:
    job, [first, second] = running(2)
    left = second._replace(state=TaskPhase.ENDED, outcome=Reason.RESIZED)
    [moved] = moves(look(job, [first], {0: 0}, ended=[left]))
    assert moved.reason is Reason.COMPLETED


def test_without_a_worker_that_was_killed_the_others_start_again() -> None:
    job, tasks = running(2)
    [stopped] = moves(look(job, tasks, {1: KILLED}))
    assert stopped.stop_tasks
    for ends in ({0: 69, 1: KILLED}, {0: 134, 1: KILLED}, {0: 69, 1: 134}):
        [moved] = moves(look(job, tasks, ends))
        assert (moved.reason, moved.changes["losses"]) == (Reason.LOST, 1)


def test_a_failing_script_fails_the_job_and_not_the_workers_that_lost_it() -> None:
    job, tasks = running(2)
    [moved] = moves(look(job, tasks, {0: 69, 1: 3}))
    assert (moved.reason, moved.changes["exit_code"]) == (Reason.COMMAND_FAILED, 3)


def test_the_others_go_on_without_a_new_worker_that_ends_before_it_trains() -> None:
    job, tasks = running(2, generation=4)
    other = newcomer(3)
    findings = look(job, [*tasks, newcomer(2), other], {2: 1})
    assert outcomes(findings) == {2: Reason.RESIZED}
    [moved] = moves(findings)
    assert moved.reason is Reason.RESIZING_IN_PLACE
    assert moved.changes == {"generation": 5, "meeting": "", "forming_at": None, "losses": 1}
    assert set(moved.stop_only) == {newcomer(2).id, other.id}
    assert "exit code 1" in moved.message


def test_a_job_that_can_not_grow_in_place_is_resized_by_restart() -> None:
    job, tasks = running(2, generation=4, losses=2)
    [moved] = moves(look(job, [*tasks, newcomer()], {2: 1}))
    assert moved.changes["resize"] == "restart"


def test_new_workers_that_are_not_needed_any_more_are_stopped() -> None:
    job, tasks = running(2, generation=4)
    [moved] = moves(look(job, [*tasks, newcomer()], {0: 0}))
    assert moved.stop_only == (newcomer().id,)
    assert moved.changes == {"generation": 5}  # and no others come
    late = newcomer(stop=True)
    done = tasks[0]._replace(state=TaskPhase.ENDED, outcome="completed")
    [moved] = moves(look(job, [tasks[1], late], {1: 0, 2: 143}, ended=[done]))
    assert moved.reason is Reason.COMPLETED


def test_new_workers_may_take_their_time_but_not_for_ever() -> None:
    job, tasks = running(2, generation=4)
    all_tasks = [*tasks, newcomer(created_at=100.0)]
    assert moves(look(job, all_tasks, now=100.0 + JOIN_S - 1)) == []
    [moved] = moves(look(job, all_tasks, now=100.0 + JOIN_S + 1))
    assert moved.reason is Reason.RESIZING_IN_PLACE
    assert moved.stop_only == (newcomer().id,)
    assert not moved.stop_tasks


def test_training_that_stands_still_at_a_change_falls_back_to_restart() -> None:
    job, tasks = running(2, generation=4, forming_at=NOW)
    assert moves(look(job, [*tasks, newcomer()], now=NOW + FORM_S - 1)) == []
    [moved] = moves(look(job, [*tasks, newcomer()], now=NOW + FORM_S + 1))
    assert (moved.reason, moved.stop_tasks) == (Reason.RESIZE_FAILED, True)
    assert moved.changes["resize"] == "restart"
    assert "checkpoint" in moved.message
    # While the service was away nobody could tell it that training had gone on.
    assert membership.overdue(job, [*tasks, newcomer()], NOW + 300, service_started=NOW + 290) is None


def test_workers_that_never_meet_fall_back_to_restart() -> None:
    job, tasks = running(2, generation=3, trained=0, meeting="")
    assert moves(look(job, tasks, now=BEGIN_S - 1)) == []
    [moved] = moves(look(job, tasks, now=BEGIN_S + 5))
    assert (moved.reason, moved.stop_tasks) == (Reason.RESIZE_FAILED, True)


def test_scripts_that_each_train_alone_have_not_succeeded() -> None:
    job, tasks = running(2, trained=0, meeting="")
    [moved] = moves(look(job, tasks, {0: 0, 1: 0}))
    assert moved.reason is Reason.COMMAND_FAILED
    assert "schedulearn.worker.torch" in moved.message
    met, tasks = running(2, trained=0)  # they met, and were done before they could say that they train
    [moved] = moves(look(met, tasks, {0: 0, 1: 0}))
    assert moved.reason is Reason.COMPLETED
