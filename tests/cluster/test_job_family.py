"""Jobs of one family share what is learned of them."""

from pathlib import Path

import pytest
from clusters import FakeCluster, spec, wait_for

from schedulearn.scheduler.core.planning.job_family import MOST, family_of
from schedulearn.scheduler.core.planning.remaining_work import Basis, Length, by_family
from schedulearn.scheduler.core.profile import JobProfile
from schedulearn.scheduler.reports.store import ProgressIn, ReportIn, store_report


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
    long = "python " + "x" * MOST
    assert len(family_of("img", long)) <= MOST
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


def test_lengths_are_the_mean_of_those_of_the_family_that_ended_well(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [good, bad] = c.submit(spec(family="f"), spec(family="f"))
        for job, code in ((good, 0), (bad, 1)):
            c.wait(job, "running")
            c.runtime.finish(c.task(job), code)
        c.wait(good, "succeeded")
        c.wait(bad, "failed")
        took = c.job(good).gpu_seconds
        [next_] = c.submit(spec(family="f"))
        c.wait(next_, "running")
        assert wait_for(lambda: c.cluster.profiles.work_of("f"), what="the mean") == pytest.approx(took)
        assert c.cluster.profiles.work_of("g") is None
        c.cluster.forecaster.close()
        c.cluster.forecaster._seen = None
        assert c.cluster.forecaster.update()
        assert c.cluster.forecaster.etas.jobs[next_].basis is Basis.FAMILY
