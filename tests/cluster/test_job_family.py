"""Jobs of one family share what is learned of them."""

from pathlib import Path

import pytest
from clusters import FakeCluster, spec, wait_for

from schedulearn.scheduler.core.planning.job_family import MAX, family_of
from schedulearn.scheduler.core.planning.remaining_work import Basis, Length, by_family
from schedulearn.scheduler.core.predictions.lengths import Prediction
from schedulearn.scheduler.core.profile import JobProfile
from schedulearn.scheduler.reports.store import ProgressIn, ReportIn, store_report
from schedulearn.scheduler.store.people.kin import Kin
from schedulearn.scheduler.store.predictions import lengths


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("python train.py --lr=0.1 --epochs 5", "python train.py --lr=0.2 --epochs 9", True),
        ("python train.py --lr 0.1", "python train.py --lr -1", True),
        ("python train.py --lr 0.1", "python eval.py --lr 0.1", False),
        ("python train.py --lr 0.1", "python train.py --fast", False),
        ("python -m a.train --x 1", "python -m a.train --x 2", True),
        ("python -m a.train", "python -m b.train", False),
        ("sh -c 'sleep 1'", "sh -c 'sleep 2'", False),
    ],
)
def test_a_family_is_a_command_without_its_arguments_values(one: str, other: str, same: bool) -> None:
    assert (family_of("img", one) == family_of("img", other)) is same
    assert family_of("img", one) != family_of("img2", one)


def test_names_that_are_too_long_are_told_apart_all_the_same() -> None:
    long = "python " + "x" * MAX
    assert len(family_of("img", long)) <= MAX
    assert family_of("img", long) != family_of("img", long + "y")


def test_a_job_that_outlasts_its_family_is_taken_to_be_nearly_done() -> None:
    assert by_family(None, 10.0) is None
    assert by_family(1000.0, 400.0) == Length(600.0, Basis.FAMILY)
    assert by_family(1000.0, 4000.0) == Length(50.0, Basis.FAMILY)


def report(gpus: tuple[int, ...], slower: float = 1.0) -> ReportIn:
    observations = [
        {"num_nodes": 1, "num_gpus": k, "atomic_batch": 32, "passes": 50, "grad_time": 0.04 * slower,
         "iter_time": (0.05 if k > 1 else 0.04) * slower}
        for k in gpus
    ]  # fmt: skip
    batch = {"init": 64, "max": 1024, "atomic": 32, "accumulation": 0}
    return ReportIn.model_validate({"attempt": 1, "batch": batch, "observations": observations, "noise_scale": 50.0})


def speeds(profile: JobProfile | None) -> list[float]:
    assert profile is not None
    return [float(speed) for speed in profile.goodput([1, 1, 1], [1, 2, 4])]


def test_a_new_job_starts_with_the_profile_of_its_family_and_then_goes_by_its_own_pace(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        c.cluster.service.set_policy("fifo")
        profiles = c.cluster.profiles

        def found(job: str, largest: int) -> JobProfile | None:
            profile = profiles.get(job)
            return profile if profile is not None and profile.max_profiled == largest else None

        [first, early] = c.submit(spec(elastic=True, family="f"), spec(elastic=True, family="f"))
        c.wait(first, "running")
        c.cluster.db.write(lambda db: store_report(db, first, report((1, 2, 4)), 1.0))
        profiles.touch(first)
        wait_for(lambda: found(early, 4), what="what a job that waited learns from its relative")
        [later, stranger] = c.submit(spec(elastic=True, family="f"), spec(elastic=True, family="g"))
        wait_for(lambda: found(later, 4), what="the profile of the family")
        assert profiles.get(stranger) is None
        before = speeds(profiles.get(later))
        c.cluster.db.write(lambda db: store_report(db, later, report((1,), slower=2.0), 2.0))
        profiles.touch(later)
        wait_for(lambda: speeds(profiles.get(later))[0] < 0.6 * before[0], what="its own pace")
        now = speeds(profiles.get(later))
        assert found(later, 4), "what it has not tried is known from its relative"
        assert now == pytest.approx([speed / 2 for speed in before], rel=0.1)


def test_a_new_job_starts_with_the_noise_that_its_family_had_at_the_start(tmp_path: Path) -> None:
    def told(done: int, noise: float) -> ReportIn:
        progress = {"epoch": done, "epochs": 10, "epoch_samples": 1000, "steps": 100 * done}
        return report((1, 2)).model_copy(update={"noise_scale": noise, "progress": ProgressIn.model_validate(progress)})

    with FakeCluster(tmp_path) as c:
        [first] = c.submit(spec(elastic=True, family="f"))
        c.wait(first, "running")
        for done, noise in ((1, 50.0), (5, 450.0), (9, 850.0)):
            c.cluster.db.write(lambda db, told=told(done, noise): store_report(db, first, told, 1.0))
        [early] = c.submit(spec(elastic=True, family="f"))

        def noise() -> float | None:
            profile = c.cluster.profiles.get(early)
            return profile.goodput.phi if profile is not None else None

        assert wait_for(noise, what="the profile of the family") == pytest.approx(50.0)
        c.cluster.db.write(  # it says where it is, and has measured nothing yet
            lambda db: store_report(db, early, told(5, 1.0).model_copy(update={"noise_scale": None}), 2.0)
        )
        c.cluster.profiles.touch(early)
        wait_for(lambda: noise() == pytest.approx(450.0), what="the noise of the family there")


def test_lengths_are_learned_from_jobs_of_the_family_that_ended_well(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        short, long = "train.py --epochs 5", "train.py --epochs 50"
        [good, bad] = c.submit(spec(family="f", command=short), spec(family="f", command=short))
        for job, code in ((good, 0), (bad, 1)):
            c.wait(job, "running")
            c.runtime.finish(c.task(job), code)
        c.wait(good, "succeeded")
        c.wait(bad, "failed")
        took = c.job(good).gpu_seconds
        [alike, longer, stranger] = c.submit(
            spec(family="f", command=short), spec(family="f", command=long), spec(family="g")
        )
        lengths = c.cluster.profiles.length_of
        for job, expected in ((alike, took), (longer, 10 * took)):
            found = wait_for(lambda job=job: lengths(job), what="its length")
            assert found.value == pytest.approx(expected)
            assert found.low < expected < found.high
        assert lengths(stranger) is None
        c.cluster.forecaster.close()
        c.cluster.forecaster._seen = None
        assert c.cluster.forecaster.update()
        assert c.cluster.forecaster.etas.jobs[longer].basis is Basis.FAMILY
        preview, _ = c.cluster.forecaster.predict_job(spec(family="f", command=long))
        assert preview.basis is Basis.FAMILY


def test_predictions_are_kept_and_compared_with_what_came(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:

        def kept() -> list[lengths.LengthPrediction]:
            with c.cluster.db.read() as db:
                return lengths.predictions(db, "f", 100)

        [first] = c.submit(spec(family="f"))
        c.wait(first, "running")
        c.runtime.finish(c.task(first))
        c.wait(first, "succeeded")
        assert kept() == [], "of the first of a family nothing was known"
        [good, bad, cancelled] = c.submit(*[spec(family="f") for _ in range(3)])
        wait_for(lambda: len(kept()) == 3, what="what was predicted of each")
        before = {each.job_id: each for each in kept()}
        assert all(each.actual is None and each.ended_at is None and each.jobs == 1 for each in before.values())
        for job, code in ((good, 0), (bad, 1)):
            c.wait(job, "running")
            c.runtime.finish(c.task(job), code)
        c.cluster.service.cancel(cancelled)
        ends = (c.wait(good, "succeeded"), c.wait(bad, "failed"), c.wait(cancelled, "cancelled"))
        wait_for(lambda: all(each.ended_at for each in kept()), what="what came of each")
        for job in ends:
            [found] = [each for each in kept() if each.job_id == job.id]
            assert found.ended_at == pytest.approx(job.finished_at)
            assert found.actual == (job.gpu_seconds if job.id == good else None)
            assert (found.value, found.predicted_at) == (before[job.id].value, before[job.id].predicted_at)
        with c.cluster.db.read() as db:
            known = lengths.calibration(db, "f")
            assert lengths.calibration(db, None) == known
            assert lengths.calibration(db, "g") == lengths.Calibration(0, 0, None, None)
            assert lengths.scores_of(db, Kin("f", ""))
        assert known.compared == 1


def test_only_early_predictions_are_kept_and_few_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths, "MAX_KEPT", 2)
    with FakeCluster(tmp_path) as c:
        jobs = c.submit(*[spec(family="f") for _ in range(3)])
        c.wait(jobs[0], "running")
        started = c.job(jobs[0]).started_at
        found = {job: Prediction(10.0, 5.0, 20.0, 3) for job in jobs}
        with c.cluster.db.read() as db:
            assert set(lengths.without_prediction(db, jobs, started + lengths.LATE_S - 1)) == set(jobs)
            assert jobs[0] not in lengths.without_prediction(db, jobs, started + lengths.LATE_S + 1)
        c.cluster.db.write(lambda db: lengths.remember(db, Kin("f", ""), found, 1.0))
        with c.cluster.db.read() as db:
            assert [each.job_id for each in lengths.predictions(db, None, 100)] == [jobs[2], jobs[1]]
            assert lengths.without_prediction(db, jobs[1:], started) == []
