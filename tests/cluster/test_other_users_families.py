"""A family that somebody else names too: what its jobs report changes nothing for one's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import FakeCluster, spec, wait_for
from sqlalchemy import update
from sqlmodel import col

from schedulearn.scheduler.core.planning.quotas import NO_BOUNDS
from schedulearn.scheduler.core.predictions.drift import Drift
from schedulearn.scheduler.core.predictions.features import Given
from schedulearn.scheduler.core.predictions.lengths import Prediction
from schedulearn.scheduler.core.profile import JobProfile
from schedulearn.scheduler.reports.metric_predictions import _OF_OURS
from schedulearn.scheduler.reports.store import ReportIn, store_report
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store.cluster_state import load_cluster_state
from schedulearn.scheduler.store.models import Event, Job
from schedulearn.scheduler.store.people import groups
from schedulearn.scheduler.store.people.kin import Kin
from schedulearn.scheduler.store.predictions import lengths, metric_predictions, versions
from schedulearn.scheduler.store.resources.gpu_memory import note_gpu_peaks, predicted_needs

GIB = 1 << 30


def report(seconds: float, gpus: tuple[int, ...] = (1, 2, 4), *, worse: float = 1.0) -> ReportIn:
    """Passes of so many seconds on one GPU. `worse`: how many times as long on the next larger number of GPUs."""
    observations = [
        {"num_nodes": 1, "num_gpus": k, "atomic_batch": 32, "passes": 1, "grad_time": seconds * worse**at,
         "iter_time": seconds * worse**at * (1.1 if k > 1 else 1)}
        for at, k in enumerate(gpus)
    ]  # fmt: skip
    batch = {"init": 64, "max": 1024, "atomic": 32, "accumulation": 0}
    metrics = [{"name": "accuracy", "step": 1, "value": 0.9, "at": 1.0}]
    return ReportIn.model_validate(
        {"attempt": 1, "batch": batch, "observations": observations, "noise_scale": 50.0, "metrics": metrics}
    )


def sent(c: FakeCluster, job: str, told: ReportIn, now: float = 1.0) -> None:
    c.cluster.db.write(lambda db: store_report(db, job, told, now))
    c.cluster.profiles.touch(job)


def running(c: FakeCluster, user: str, **fields: object) -> str:
    [job] = c.submit(spec(family="f", user=user, **fields))
    c.wait(job, "running")
    return job


def ended(c: FakeCluster, user: str, *, seconds: float, accuracy: float | None = None) -> str:
    """A job of the family that ended well after so long."""
    job = running(c, user)
    if accuracy is not None:
        told = report(0.04).model_copy(update={"attempt": 1})
        told.metrics[0].value = accuracy
        sent(c, job, told)
    c.runtime.finish(c.task(job))
    c.wait(job, "succeeded")
    c.cluster.db.write(lambda db: db.execute(update(Job).where(col(Job.id) == job).values(gpu_seconds=seconds)))
    c.cluster.profiles.relearn("f")
    return job


def profile(c: FakeCluster, job: str) -> JobProfile:
    return wait_for(lambda: c.cluster.profiles.get(job), what="its profile")


def speeds(found: JobProfile) -> list[float]:
    return [float(speed) for speed in found.goodput([1, 1, 1], [1, 2, 4])]


def test_the_next_job_starts_with_the_profile_of_ones_own_jobs(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=8) as c:
        sent(c, running(c, "ada", elastic=True, max_gpus=8), report(0.04))
        [first] = c.submit(spec(family="f", user="ada", elastic=True))
        before = speeds(profile(c, first))
        sent(c, running(c, "ben", elastic=True, max_gpus=8), report(5.0, (1, 2, 4, 8), worse=4.0))
        [second] = c.submit(spec(family="f", user="ada", elastic=True))
        assert speeds(profile(c, second)) == pytest.approx(before)


def test_under_goodput_the_next_job_has_as_many_gpus_as_before(tmp_path: Path) -> None:
    """The whole way: reports of somebody else, before and after their plausibility was checked."""
    with FakeCluster(tmp_path, gpus=8) as c:
        c.cluster.service.set_policy("goodput")
        mine = running(c, "ada", elastic=True, max_gpus=8)
        sent(c, mine, report(0.04, (1, 2, 4, 8)))
        c.cluster.service.cancel(mine)
        c.wait(mine, "cancelled")

        def size_of_next() -> int:
            job = running(c, "ada", elastic=True, max_gpus=8)
            sizes = c.job(job).target or {}
            with c.cluster.db.read() as conn:
                tasks = [task for task in load_cluster_state(conn).tasks if task.job_id == job]
            c.cluster.service.cancel(job)
            c.wait(job, "cancelled")
            return sum(sizes.values()) or sum(len(task.gpu_uuids) for task in tasks)

        before = size_of_next()
        theirs = running(c, "ben", elastic=True, max_gpus=8)
        sent(c, theirs, report(78_000.0), c.job(theirs).started_at + 30)
        sent(c, theirs, report(20.0, (1, 2, 4, 8), worse=3.0), 1.0)
        c.cluster.service.cancel(theirs)
        c.wait(theirs, "cancelled")
        assert (before, size_of_next()) == (8, 8)


def test_without_own_jobs_others_are_a_hint_until_the_job_has_measured_itself(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=8) as c:
        sent(c, running(c, "ben", elastic=True), report(1.0))
        mine = running(c, "ada", elastic=True)
        hinted = speeds(profile(c, mine))
        sent(c, mine, report(0.5, (1,)), 2.0)
        wait_for(lambda: c.cluster.profiles.get(mine).max_profiled == 1, what="its own alone")
        assert speeds(c.cluster.profiles.get(mine))[0] == pytest.approx(2 * hinted[0], rel=0.1)


def test_members_of_a_group_share_what_they_know(tmp_path: Path) -> None:
    def join(db: object) -> None:
        groups.set_group(db, "vision", NO_BOUNDS, 1.0)
        for user in ("ada", "abe"):
            groups.add_member(db, "vision", user, 1.0)

    with FakeCluster(tmp_path, gpus=8) as c:
        c.cluster.db.write(join)
        sent(c, running(c, "abe", elastic=True), report(0.04, (1, 2)))
        sent(c, running(c, "ben", elastic=True), report(5.0, (1, 2, 4)))
        [mine] = c.submit(spec(family="f", user="ada", elastic=True))
        assert profile(c, mine).max_profiled == 2
        ended(c, "abe", seconds=100.0)
        ended(c, "ben", seconds=9_000.0)
        found = wait_for(lambda: c.cluster.profiles.length_of(mine), what="its length")
        assert found.value == pytest.approx(100.0)


def test_lengths_metrics_and_memory_are_those_of_ones_own_jobs(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=8) as c:
        for _ in range(3):
            ended(c, "ada", seconds=100.0, accuracy=0.9)
        mine = running(c, "ada")
        c.cluster.db.write(lambda db: note_gpu_peaks(db, {c.task(mine): 4 * GIB}))
        for _ in range(3):
            ended(c, "ben", seconds=1e6, accuracy=-5.0)
        theirs = running(c, "ben")
        c.cluster.db.write(lambda db: note_gpu_peaks(db, {c.task(theirs): 15 * GIB}))
        [following] = c.submit(spec(family="f", user="ada"))
        length = wait_for(lambda: c.cluster.profiles.length_of(following), what="its length")
        assert length.value == pytest.approx(100.0)
        with c.cluster.db.read() as conn:
            reached = metric_predictions.reached(conn, Kin("f", "ada"), _OF_OURS, hints=True)
            needs = predicted_needs(conn, load_cluster_state(conn).jobs)
        assert [each.value for each in reached["accuracy"]] == [0.9] * 3
        assert needs[following] == 4 * GIB


@pytest.mark.parametrize("hide", [False, True])
def test_others_are_no_hint_where_jobs_are_hidden(tmp_path: Path, hide: bool) -> None:
    """Not even by when a job is expected to end."""
    with FakeCluster(tmp_path, gpus=8, settings=ClusterSettings(hide_jobs=hide)) as c:
        ended(c, "ben", seconds=5_000.0)
        theirs = running(c, "ben", elastic=True)
        sent(c, theirs, report(0.04))
        c.cluster.db.write(lambda db: note_gpu_peaks(db, {c.task(theirs): 15 * GIB}))
        profile(c, theirs)
        mine = running(c, "ada", elastic=True)
        [own_family] = c.submit(spec(family="f", user="ben"))
        wait_for(lambda: c.cluster.profiles.length_of(own_family), what="that lengths are predicted")
        wait_for(lambda: mine not in c.cluster.profiles.awaited(), what="that profiles are fitted")
        given = Given("train.py", 1, None, None, [])
        asked = c.cluster.profiles.length_of_new("f", "ada", given)
        known = (c.cluster.profiles.get(mine), c.cluster.profiles.length_of(mine), asked)
        with c.cluster.db.read() as conn:
            memory = predicted_needs(conn, load_cluster_state(conn).jobs, hints=c.cluster.profiles.hints).get(mine)
        assert [each is None for each in (*known, memory)] == [hide] * 4
        assert c.cluster.profiles.knows_lengths("f", "ada") is not hide


def test_what_drifts_for_others_begins_no_version_for_oneself(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=8) as c:
        ended(c, "ada", seconds=100.0)
        ended(c, "ben", seconds=700.0)
        c.cluster.db.write(lambda db: versions.begin(db, Kin("f", "ben"), Drift(9e9, 1.0, 3.0), 1.0))
        with c.cluster.db.read() as conn:
            assert [each.gpu_seconds for each in lengths.ended_jobs(conn, Kin("f", "ada"))] == [100.0]
            assert lengths.ended_jobs(conn, Kin("f", "ben")) == []
            assert versions.versions(conn, Kin("f", "ada")) == []


def test_what_can_not_be_is_ignored_and_told_once(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        job = running(c, "ada", elastic=True)
        began = c.job(job).started_at
        assert began is not None
        for after in (600, 605):
            sent(c, job, report(80_000.0, (1,)), began + after)
        forth = {"epoch": 3, "epochs": 9, "epoch_samples": 10, "steps": 30}
        for place in (forth, {**forth, "epoch": 1, "steps": 10}):
            sent(c, job, ReportIn.model_validate({**report(1.0, (1,)).model_dump(), "progress": place}), began + 610)
        with c.cluster.db.read() as conn:
            events = [row.message for row in conn.execute(Event.__table__.select()) if row.kind == "report.implausible"]
            state = load_cluster_state(conn)
        assert events == ["Ignored implausible reports of its workers: a micro-step of 80,000 s within 600 s."]
        assert state.progress[job].epoch == 3
        assert profile(c, job).goodput([1], [1])[0] > 1


def test_a_new_group_learns_nothing_of_a_removed_one_of_its_name(tmp_path: Path) -> None:
    kin = Kin("f", "/vision")

    def earlier_group(db: object) -> None:
        groups.set_group(db, "vision", NO_BOUNDS, 1.0)
        versions.begin(db, kin, Drift(9e9, 1.0, 3.0), 1.0)
        lengths.remember(db, kin, {"a job": Prediction(1.0, 1.0, 1.0, 1)}, 2.0)
        lengths.settle(db, [lengths.SettledLength("a job", kin.owner, 3.0, 1.0)])
        assert (len(versions.versions(db, kin)), lengths.scores_of(db, kin)) == (2, [0.0])
        groups.remove_group(db, "vision", 4.0)
        groups.set_group(db, "vision", NO_BOUNDS, 5.0)

    with FakeCluster(tmp_path) as c:
        c.cluster.db.write(earlier_group)
        with c.cluster.db.read() as db:
            assert (versions.versions(db, kin), lengths.scores_of(db, kin)) == ([], [])
            assert [each.job_id for each in lengths.predictions(db, "f", 10)] == ["a job"], "for people it stays"
