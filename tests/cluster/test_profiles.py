"""What reports mean for policies, and what becomes of a job's checkpoints when it has ended."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import report
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.core.predictions.lengths import EndedJob
from schedulearn.scheduler.core.predictions.run_times import ENOUGH
from schedulearn.scheduler.hosts.checkpoints import Checkpoints, Copies
from schedulearn.scheduler.reports import profiles as profiles_module
from schedulearn.scheduler.reports.fitting import blended, make_profile
from schedulearn.scheduler.reports.records import LastReport, MeasuredPasses
from schedulearn.scheduler.reports.relatives import load_history
from schedulearn.scheduler.reports.store import store_report, thinned
from schedulearn.scheduler.store.people.kin import Kin


def last_report(noise_scale: float | None = 300.0) -> LastReport:
    return LastReport(
        attempt=1, reported_at=1.0, init_batch=64, max_batch=1024, min_local=1, max_local=None, accumulate=True,
        atomic_batch=64, accumulation=0, why="", noise_scale=noise_scale, epoch=0, epochs=None, position=0,
        epoch_samples=0, steps=0, startup_seconds=None,
    )  # fmt: skip


def measured(gpus: int, batch: int, gpu_type: str = "a", at: float = 1.0) -> MeasuredPasses:
    grad = 0.02 + 0.001 * batch
    iteration = grad + (0.01 if gpus > 1 else 0.0)
    return MeasuredPasses(gpu_type, 1, gpus, batch, passes=50, grad_time=grad, iter_time=iteration, at=at)


def test_a_job_may_try_four_times_the_gpus_that_it_was_measured_on() -> None:
    profile = make_profile(last_report(), [measured(1, 64), measured(2, 32)])
    assert profile.max_profiled == 2
    assert [profile.cap(most, least) for most, least in ((64, 1), (3, 1), (64, 6))] == [8, 3, 8]


def test_each_type_of_gpu_has_its_own_model_and_the_newest_comes_first() -> None:
    profile = make_profile(last_report(), [measured(1, 64, "old", 1.0), measured(1, 64, "new", 2.0)])
    assert list(profile.for_worker()) == ["new", "old"]


def test_without_a_noise_scale_only_the_first_batch_is_worth_its_samples() -> None:
    profile = make_profile(last_report(noise_scale=None), [measured(1, 64), measured(2, 32)])
    assert profile.goodput.best(1, 2).atomic_batch == 32


def test_what_a_job_has_not_tried_is_taken_from_its_relative_at_its_own_pace() -> None:
    relative = [measured(gpus, batch) for gpus in (1, 2, 4) for batch in (32, 64)]
    own = measured(1, 64).slower(3)
    found = blended([own], relative)
    assert found[-1] is own
    assert [(o.num_gpus, o.atomic_batch) for o in found[:-1]] == [(1, 32), (2, 32), (2, 64), (4, 32), (4, 64)]
    assert [o.iter_time for o in found[:-1]] == pytest.approx(
        [3 * o.iter_time for o in relative if o is not relative[1]], rel=0.05
    )
    assert blended([], relative)[0].iter_time == relative[0].iter_time


def test_a_job_of_another_pace_by_far_tells_nothing() -> None:
    own = measured(1, 64).slower(9)
    assert blended([own], [measured(2, 64)]) == [own]
    assert blended([measured(1, 64, "b")], [measured(2, 64, "a")])[0].gpu_type == "b"


def test_a_report_reaches_the_next_decision_of_an_elastic_job(tmp_path: Path) -> None:
    seen: list[Any] = []
    with FakeCluster(tmp_path) as c:
        chosen = c.cluster.service.current_policy()

        class Spy(Policy):
            name = "spy"

            def allocate(self, snapshot: Snapshot) -> Plan:
                seen.append(snapshot)
                return chosen.allocate(snapshot)

        c.cluster.loop.policy = Spy
        [job] = c.submit(spec(elastic=True, max_gpus=8))
        c.wait(job, "running")
        assert seen[-1].jobs[0].goodput is None
        assert seen[-1].jobs[0].max_gpus == 8, "a job that says nothing of itself is not held back"
        c.cluster.db.write(lambda db: store_report(db, job, report(1), 1.0))
        stall = {"name": "stall_seconds", "step": 3, "value": 4.5, "at": 2.0}
        c.cluster.db.write(lambda db: store_report(db, job, report(1, metrics=[stall]), 2.0))
        c.cluster.profiles.touch(job)
        wait_for(lambda: seen[-1].jobs and seen[-1].jobs[0].goodput is not None, what="a decision that knows it")
        view = seen[-1].jobs[0]
        assert view.resize_seconds == 4.5
        assert view.startup_seconds is not None
        assert view.max_gpus == 8, "first come, first served does not resize, so nothing is to be capped"
        assert view.goodput(1, 2) > view.goodput(1, 1) > 0
    with FakeCluster(tmp_path, runtime=c.runtime) as again:  # a service that starts anew knows it too
        wait_for(lambda: again.cluster.profiles.get(job), what="the profile of before")


def test_how_long_a_job_takes_to_its_first_step_is_its_first_report_less_what_it_trained(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit()
        started = c.wait(job, "running").started_at
        assert started is not None
        first = report(1)
        trained = sum(seen.passes * seen.iter_time for seen in first.observations)
        assert trained > 0
        for at in (7.0, 60.0):  # later reports don't change it
            c.cluster.db.write(lambda db, at=at: store_report(db, job, first, started + trained + at))  # type: ignore[misc]
        with c.cluster.db.read() as conn:
            assert load_history(conn, job).report.startup_seconds == pytest.approx(7.0)
        [later] = c.submit()
        started = c.wait(later, "running").started_at
        c.cluster.db.write(lambda db: store_report(db, later, report(1, attempt=2), started + 99.0))
        with c.cluster.db.read() as conn:
            assert load_history(conn, later).report.startup_seconds is None, "of a restart nobody knows when it began"


def test_checkpoints_are_kept_for_a_while_after_the_end(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [ended] = c.submit()
        [running] = c.submit()
        c.wait(ended, "running")
        c.wait(running, "running")
        c.runtime.finish(c.task(ended))
        finished = c.wait(ended, "succeeded").finished_at
        wait_for(lambda: c.task(ended) not in [t.task_id for t in c.runtime.tasks()], what="its removal")
        now = [finished + 50]
        copies = Copies(tmp_path / "copies", 0)
        sweeper = Checkpoints(c.cluster.db, lambda: c.cluster.agents, copies, 100.0, clock=lambda: now[0])
        sweeper.sweep()
        assert set(c.runtime.checkpoints.jobs()) == {ended, running}
        now[0] = finished + 101
        sweeper.sweep()
        assert c.runtime.checkpoints.jobs() == [running]


def test_a_curve_that_is_thinned_keeps_its_ends() -> None:
    points = [[float(step), 0.0, 0.0] for step in range(1000)]
    kept = thinned(points, 100)
    assert len(kept) <= 100
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert np.all(np.diff([point[0] for point in kept]) > 0)


def test_an_error_while_a_family_is_looked_up_does_not_end_the_profiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Kin] = []

    def ended(conn: object, kin: Kin, *, hints: bool) -> list[EndedJob]:
        asked.append(kin)
        if len(asked) == 1:
            raise OSError("the disk is away for a moment")
        return [EndedJob({}, 7.0)]

    monkeypatch.setattr(profiles_module, "ended_jobs", ended)
    with FakeCluster(tmp_path) as c:
        [first] = c.submit(spec("first", family="f"))
        wait_for(lambda: asked, what="the error")
        [other] = c.submit(spec("another", family="g"))
        for job in (other, first):
            wait_for(lambda job=job: c.cluster.profiles.length_of(job), what="a length")
            assert c.cluster.profiles.length_of(job).value == pytest.approx(7.0)


def test_run_times_of_ended_rigid_jobs_are_known_even_after_a_restart(tmp_path: Path) -> None:
    runtime = FakeRuntime("local")
    with FakeCluster(tmp_path, gpus=8, runtime=runtime) as c:
        rigid = c.submit(*[spec(f"r{i}", user="ada") for i in range(ENOUGH)])
        [elastic] = c.submit(spec("e", user="ada", elastic=True, min_gpus=1, max_gpus=1))
        for job in (elastic, *rigid):
            assert c.cluster.profiles.run_times.left("ada", 1, 0.0) is None
            c.wait(job, "running")
            runtime.finish(c.task(job), 1)
            c.wait(job, "failed")
        left = wait_for(lambda: c.cluster.profiles.run_times.left("ada", 1, 0.0), what="their run times")
        ran = [c.job(job).run_seconds for job in rigid]
        assert min(ran) <= left <= max(ran)
    with FakeCluster(tmp_path, runtime=runtime) as c:
        assert c.cluster.profiles.run_times.left("ada", 1, 0.0) == pytest.approx(left)
