"""One's own past as a trace: played on the same GPUs, jobs take as long as they took."""

from typing import Any

import pytest
from builders import host, job_record, task_record

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.step_time import StepTimeModel
from schedulearn.scheduler.core.cluster_state import Job, Task
from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.sim.replay import (
    AllocationSpan,
    FinishedJob,
    JobKind,
    noise_at,
    noise_curve,
    stretches,
    trace,
    work,
)
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import read_trace

MODEL = StepTimeModel(0.02, 0.001, 0.02, 0.002, 0.1, 0.01, 2.0)
KIND = JobKind("digits", Goodput({"a": MODEL}, 400.0, BatchBounds(64, 1024)), ((0.0, 400.0), (1.0, 400.0)))


def job(**fields: Any) -> Job:
    defaults: dict[str, Any] = {
        "id": "one", "submitted_at": 1000.0, "priority": 50, "weight": 1.0, "elastic": True, "required_gpus": 2,
        "min_gpus": 1, "max_gpus": 8, "run_seconds": 610.0, "gpu_seconds": 1220.0,
    }  # fmt: skip
    return job_record(**{**defaults, **fields})


def task(begin: float, end: float, gpus: int = 1, host_id: str = "h1") -> Task:
    uuids = [str(n) for n in range(gpus)]
    return task_record(started_at=begin, finished_at=end, gpu_uuids=uuids, host_id=host_id)


class Replayed(Policy):
    """Gives each job what it had at that time of its running."""

    name = "replayed"
    resizes = True

    def __init__(self, plan: list[tuple[float, int]]) -> None:
        self.plan = plan

    def allocate(self, snapshot: Snapshot) -> Plan:
        held = [gpus for after, gpus in self.plan if snapshot.now >= after]
        return Plan({each.id: {"h1": held[-1]} for each in snapshot.jobs})


def test_stretches_add_up_what_several_tasks_hold() -> None:
    tasks = [task(0, 100, 2), task(50, 100, 1, "h2"), task(120, 200), task(200, 210), task(300, 400, 4)]
    tasks[-1] = tasks[-1]._replace(started_at=None)  # it never ran
    assert stretches(tasks) == [
        AllocationSpan(0, 50, 1, 2),
        AllocationSpan(50, 100, 2, 3),
        AllocationSpan(120, 200, 1, 1),
        AllocationSpan(200, 210, 1, 1),
    ]


@pytest.mark.parametrize("plan", [[(0.0, 2)], [(0.0, 1), (300.0, 2)]])
def test_on_the_same_gpus_a_job_takes_as_long_as_it_took(plan: list[tuple[float, int]]) -> None:
    begins = [1000 + at for at, _ in plan] + [1610.0]
    tasks = [task(begins[n], begins[n + 1], gpus) for n, (_, gpus) in enumerate(plan)]
    least = plan[0][1]
    past = FinishedJob(job(min_gpus=least), tasks, stalls=5.0 * (len(plan) - 1))
    jobs = read_trace(trace([past], lambda row: KIND), "history")
    assert (jobs[0].elastic, jobs[0].min_gpus, jobs[0].max_gpus, jobs[0].submitted_at) == (True, least, 8, 0.0)
    [outcome] = simulate(Replayed(plan), jobs, [host("h1", gpus=8)]).outcomes
    assert outcome.ended_at == pytest.approx(610, rel=0.02)


def test_the_noise_that_a_job_had_at_the_time_decides_what_its_batches_were_worth() -> None:
    tasks = [task(1000, 1610, 4)]
    calm = work(FinishedJob(job(), tasks, [(1.0, 5.0, 1000.0), (9.0, 5.0, 1600.0)]), KIND)
    noisy = work(FinishedJob(job(), tasks, [(1.0, 5e4, 1000.0), (9.0, 5e4, 1600.0)]), KIND)
    assert noisy > 1.5 * calm


def test_what_did_not_report_or_is_rigid_runs_for_as_long_as_it_did_on_what_it_had() -> None:
    past = [FinishedJob(job(elastic=False), [task(1000, 1610, 2)]), FinishedJob(job(id="two", submitted_at=1060.0), [])]
    found = read_trace(trace(past, lambda row: None), "history")
    assert [(each.elastic, each.required_gpus, each.application.total_steps) for each in found] == [(False, 2, 600)] * 2
    assert found[1].submitted_at == 60


def test_bounds_that_the_batch_does_not_allow_are_cut() -> None:
    kind = JobKind("few", Goodput({"a": MODEL}, 1.0, BatchBounds(64, 128, min_local=32)))
    [found] = read_trace(trace([FinishedJob(job(required_gpus=8), [task(1000, 1100, 4)])], lambda row: kind), "history")
    assert (found.required_gpus, found.max_gpus) == (4, 4)


def test_a_curve_goes_from_the_first_to_the_last_point_and_no_further() -> None:
    curve = noise_curve([(0, 10.0, 0.0), (50, 60.0, 0.0), (100, 60.0, 0.0)])
    assert [noise_at(curve, at) for at in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([10, 35, 60, 60])
    half = noise_curve([(0, 10.0, 0.0), (50, 60.0, 0.0)], done=0.5)
    assert [noise_at(half, at) for at in (0.25, 0.5, 0.9)] == pytest.approx([35, 60, 60])
    assert (noise_curve([]), noise_at((), 0.3)) == ((), None)


def test_a_later_start_is_a_later_submission() -> None:
    rigid = {"elastic": False, "required_gpus": 1, "gpu_seconds": 610.0}
    jobs = [job(id="a", start_after=1500.0, **rigid), job(id="b", submitted_at=1200.0, start_after=900.0, **rigid)]
    found: Any = trace([FinishedJob(each, []) for each in jobs], lambda job: None)
    assert [(each["name"], each["time"]) for each in found["jobs"]] == [("a", 300.0), ("b", 0.0)]
