"""Run times predicted from what jobs are given."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence

import pytest

from schedulearn.scheduler.core.predictions.features import Given, features_of
from schedulearn.scheduler.core.predictions.lengths import EndedJob, LengthModel, score


def given(command: str = "python train.py", **more: object) -> Given:
    values: dict[str, object] = {"gpus": 1, "batch_size": None, "epochs": None, "data": ()}
    return Given(command=command, **(values | more))  # type: ignore[arg-type]


def ended(seconds: float, of: Given) -> EndedJob:
    return EndedJob(features_of(of), seconds)


def test_numbers_and_words_of_a_command() -> None:
    found = features_of(given("python train.py --epochs=50 --lr 0.1 --model resnet --amp --seed 0", data=["mnist@1"]))
    assert found == {
        "epochs": math.log(50), "lr": math.log(0.1), "model": "resnet", "amp": "", "seed": "0", "gpus": 0.0,
        "data mnist@1": "there",
    }  # fmt: skip
    assert features_of(given("train.py --max-steps 7", epochs=9))["epochs"] == math.log(9), "what the job says counts"


def test_one_job_tells_of_those_with_more_epochs() -> None:
    model = LengthModel([ended(100, given("train.py --epochs 5"))])
    short, long = (model.predict(features_of(given(f"train.py --epochs {n}"))) for n in (5, 50))
    assert short.value == pytest.approx(100)
    assert long.value == pytest.approx(1000)
    assert (long.low < 300, long.high > 3000) == (True, True), "one job is little to go by"
    assert long.jobs == 1


@pytest.mark.parametrize("said", [lambda n: given(f"t.py --epochs {n}"), lambda n: given(epochs=n)], ids=["cli", "key"])
def test_start_up_and_epochs_are_told_apart(said: Callable[[int], Given]) -> None:
    """The mean of the family would predict 400 s for each."""
    model = LengthModel([ended(20 + 10 * n, said(n)) for n in (5, 10, 20, 40, 80) for _ in range(2)])
    for epochs in (5, 30, 80):
        found = model.predict(features_of(said(epochs)))
        assert found.value == pytest.approx(20 + 10 * epochs, rel=0.15)
        assert found.low < 20 + 10 * epochs < found.high


def test_batch_size_gpus_and_data_count_as_they_did() -> None:
    dice = random.Random(1)

    def seconds(batch: int, gpus: int, data: str) -> float:
        return 1000 * (64 / batch) ** 0.5 * gpus**0.3 * (4 if data == "large@1" else 1)

    def random_job() -> tuple[int, int, str]:
        return dice.choice([32, 64, 128]), dice.choice([1, 2, 4]), dice.choice(["small@1", "large@1"])

    def as_given(job: tuple[int, int, str]) -> Given:
        return given(batch_size=job[0], gpus=job[1], data=[job[2]])

    model = LengthModel([ended(seconds(*job), as_given(job)) for job in (random_job() for _ in range(40))])
    for job in ((32, 4, "large@1"), (128, 1, "small@1")):
        assert model.predict(features_of(as_given(job))).value == pytest.approx(seconds(*job), rel=0.15)


def test_what_does_not_matter_is_not_believed_to() -> None:
    """Seeds differ in each job, and could explain a few jobs."""
    dice = random.Random(2)
    jobs = [ended(100 * math.exp(dice.gauss(0, 0.05)), given(f"t.py --seed {dice.randint(1, 9999)}")) for _ in range(6)]
    found = LengthModel(jobs).predict(features_of(given("t.py --seed 77")))
    assert found.value == pytest.approx(100, rel=0.15)


def _families() -> Sequence[Callable[[random.Random], tuple[Given, float]]]:
    def epochs(dice: random.Random) -> tuple[Given, float]:
        n = dice.choice([1, 3, 10, 30])
        return given(f"t.py --epochs {n} --seed {dice.randint(1, 99)}"), (15 + 9 * n) * math.exp(dice.gauss(0, 0.1))

    def alike(dice: random.Random) -> tuple[Given, float]:
        return given(), 300 * math.exp(dice.gauss(0, 0.5))

    def models(dice: random.Random) -> tuple[Given, float]:
        name, gpus = dice.choice(["small", "large"]), dice.choice([1, 2, 4])
        took = (50 if name == "small" else 800) * gpus**0.4 * math.exp(dice.gauss(0, 0.2))
        return given(f"t.py --model {name}", gpus=gpus), took

    def early(dice: random.Random) -> tuple[Given, float]:
        """Some stop long before their end."""
        return given("t.py --epochs 40"), 400 * (dice.uniform(0.05, 0.5) if dice.random() < 0.2 else 1.0)

    return [epochs, alike, models, early]


@pytest.mark.parametrize("job_of", _families(), ids=lambda each: each.__name__)
def test_nine_of_ten_intervals_hold_and_get_narrow(job_of: Callable[[random.Random], tuple[Given, float]]) -> None:
    """As in the service, each job is predicted from those before it, and the scores are stored."""
    held, total, widths = 0, 0, []
    for seed in range(12):
        dice = random.Random(seed)
        past: list[EndedJob] = []
        scores: list[float] = []
        for _ in range(60):
            job, took = job_of(dice)
            features = features_of(job)
            if past:
                found = LengthModel(past[-100:], scores[-40:]).predict(features)
                scores.append(score(found, took))
                held += found.low <= took <= found.high
                total += 1
            past.append(EndedJob(features, took))
        widths.append(found.spread)
    assert held / total >= 0.9
    assert max(widths) <= 30.0 * (1 + 1e-9)


def test_an_interval_that_was_too_narrow_is_widened() -> None:
    jobs = [ended(100 + n, given()) for n in range(20)]
    before = LengthModel(jobs).predict(features_of(given()))
    after = LengthModel(jobs, [3.0] * 10).predict(features_of(given()))
    assert after.value == before.value
    assert math.log(after.spread) == pytest.approx(3 * math.log(before.spread))
    assert LengthModel(jobs, [0.1] * 39).predict(features_of(given())) == before, "few scores may be luck"
    wide = [ended(100 * 2**n, given()) for n in range(20)]
    narrow, usual = (LengthModel(wide, scores).predict(features_of(given())) for scores in ([0.5] * 40, []))
    assert math.log(narrow.spread) == pytest.approx(0.5 * math.log(usual.spread)), "forty are not"


def test_intervals_settle_at_the_factor_that_is_needed() -> None:
    """Later jobs scatter three times as much as known ones. With scores of stretched intervals, .66 held."""
    dice = random.Random(5)
    known = [ended(100 * math.exp(dice.gauss(0, 0.1)), given()) for _ in range(100)]
    true_half = 1.645 * 0.3
    scores: list[float] = []
    held, halves = [], []
    for _ in range(2000):
        found = LengthModel(known, scores[-40:]).predict(features_of(given()))
        took = 100 * math.exp(dice.gauss(0, 0.3))
        scores.append(score(found, took))
        held.append(found.low <= took <= found.high)
        halves.append(math.log(found.spread))
    assert statistics.fmean(held[40:]) == pytest.approx(0.9, abs=0.02)
    assert statistics.fmean(halves[40:]) == pytest.approx(true_half, rel=0.1)


def test_extreme_numbers_stay_finite() -> None:
    model = LengthModel([ended(1e-3 * 10**n, given(f"t.py --epochs {n + 1} --x 1e{n}")) for n in range(8)])
    found = model.predict(features_of(given("t.py --epochs 1e300 --x 1e300 --y nan --z=inf --w -3")))
    assert 0 < found.low <= found.value <= found.high < math.inf
