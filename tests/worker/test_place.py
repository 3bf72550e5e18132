"""An epoch is one pass's worth of progress: where it ends, for any batch, on any number of workers, after any stop."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.metrics.model.goodput import BatchBounds
from schedulearn.metrics.model.noise_scale import NoiseScale
from schedulearn.worker.batch.learning_rate import LearningRate
from schedulearn.worker.batch.noise_meter import NoiseMeter
from schedulearn.worker.instruments import Instruments
from schedulearn.worker.loader import Batches, Loader
from schedulearn.worker.order import permutation
from schedulearn.worker.place import GRAIN, MIN_WORTH, Place
from schedulearn.worker.run import Run
from schedulearn.worker.workers import Alone

# --- where an epoch ends ---


def place_of(samples: int, epochs: int = 1) -> Place:
    place = Place()
    place.samples, place.total_epochs = samples, epochs
    return place


def test_with_a_fixed_batch_an_epoch_is_one_pass_over_the_data() -> None:
    place = place_of(100, epochs=2)
    for batch in (64, 36):
        assert not place.is_trained(64)
        assert place.epoch_end(64) == 100
        place.count_step(batch)
    assert place.is_trained(64)
    assert (place.progress, place.fraction) == (1.0, 0.5)
    place.end_epoch(64)
    assert (place.epoch, place.position, place.trained) == (1, 0, 0)


@pytest.mark.parametrize("worth", [0.9, 0.75, 0.5])
def test_samples_that_are_worth_less_make_an_epoch_longer(worth: float) -> None:
    place = place_of(10_000)
    place.tell_worth(worth)
    while not place.is_trained(128):
        assert (place.epoch_end(128) - place.position) % 128 == 0, "no small step at its end"
        place.count_step(128)
    assert 10_000 / worth <= place.position <= 10_000 / (worth - GRAIN) + 128
    assert 1 <= place.progress <= 1 + 128 / 10_000


@given(
    samples=st.integers(1, 5000),
    steps=st.lists(st.tuples(st.integers(1, 700), st.floats(0, 2)), min_size=1, max_size=30),
    epochs=st.integers(1, 4),
)
def test_no_training_gets_less_than_its_epochs_whatever_samples_are_worth(
    samples: int, steps: list[tuple[int, float]], epochs: int
) -> None:
    place, worth, served, number = place_of(samples, epochs), 0.0, 0, 0
    for _ in range(epochs):
        while not place.is_trained(steps[number % len(steps)][0]):
            batch, told = steps[number % len(steps)]
            place.tell_worth(told)
            taken = min(batch, place.epoch_end(batch) - place.position)
            assert taken == batch or place.lost == 0
            place.count_step(taken)
            worth += taken * place.worth
            served += taken
            number += 1
        assert place.position >= samples, "each sample at least once an epoch"
        place.end_epoch(steps[number % len(steps)][0])
    assert worth >= epochs * samples, "what an epoch owed, the last one has made up for"
    assert served <= epochs * (samples / MIN_WORTH + 700), "bounded"


def test_what_is_worth_nothing_or_is_not_a_number_has_bounds() -> None:
    place = place_of(100)
    for told, worth in ((0.0, MIN_WORTH), (math.nan, 1.0), (7.0, 1.0)):
        place.tell_worth(told)
        assert place.worth == worth


def test_less_than_half_a_step_is_left_to_the_next_epoch_but_not_by_the_last_one() -> None:
    place = place_of(100, epochs=2)
    place.tell_worth(0.75)
    place.count_step(64)
    place.count_step(64)
    assert place.trained == 96
    assert place.is_trained(64)
    place.end_epoch(64)
    assert place.trained == -4
    assert place.progress == 0.96
    place.count_step(64)
    place.count_step(72)
    assert place.trained == 98
    assert not place.is_trained(64)
    assert place.epoch_end(64) - place.position == 64


def test_an_epoch_that_the_script_left_owes_nothing() -> None:
    place = place_of(100, epochs=3)
    place.tell_worth(0.5)
    place.count_step(90)
    place.end_epoch(64)
    assert (place.epoch, place.trained) == (1, 0)


def test_training_that_was_thrown_away_is_made_up_for() -> None:
    place = place_of(1000, epochs=3)
    place.count_step(1000)
    place.end_epoch(100)
    place.count_step(300)
    place.go_back(0.9)
    assert place.trained == -100
    assert place.progress == 0.9
    assert place.epoch_end(100) == 1400


def test_a_checkpoint_of_before_samples_had_a_worth_goes_on() -> None:
    place = place_of(100)
    place.restore_place({"epoch": 2, "position": 64, "step": 9, "samples": 100})
    assert (place.epoch, place.trained, place.worth) == (2, 64, 1.0)


# --- the data of a longer epoch ---


def test_an_epoch_that_goes_on_takes_the_data_in_another_order() -> None:
    order = permutation(1, 2, 50, 120)
    assert (order[:50] == permutation(1, 2, 50)).all()
    assert len(order) == 120
    rounds = [order[:50], order[50:100]]
    assert all(sorted(each.tolist()) == list(range(50)) for each in rounds)
    assert (rounds[0] != rounds[1]).any()
    assert (rounds[1] != permutation(1, 3, 50)).any()


class Ranked(Alone):
    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size


class Rows(Loader):
    def fetch(self, batches: Batches) -> Iterable[Any]:
        return list(batches)  # all at once, as a loader may that works ahead


class Worker(Run):
    """One of several that walk in step, each over its own loader; what rank 0 tells is handed to all."""

    def __init__(self, rank: int, size: int, samples: int) -> None:
        super().__init__(Ranked(rank, size), BatchBounds(8, 64), "none", 0)
        self.loader = Rows(self, range(samples), {})
        self.total_epochs = 2


def walk(workers: Sequence[Worker], told: Iterator[float], most: int = 1000) -> list[int]:
    """The samples of an epoch's steps, until its end or for the `most` steps."""
    seen: list[int] = []
    iterators = [iter(worker.loader) for worker in workers]
    for _ in range(most):
        parts = [next(iterator, None) for iterator in iterators]
        if parts[0] is None:
            assert parts == [None] * len(parts), "a worker would wait for ever"
            break
        whole = [worker.current for worker in workers]
        assert len({each.samples for each in whole if each is not None}) == 1
        seen += [index for each in whole if each is not None and each.weight for index in each.indices]
        worth = next(told)
        for worker in workers:
            worker.tell_worth(worth)
    return seen


@given(size=st.integers(1, 5), worths=st.lists(st.floats(0.4, 1), min_size=1, max_size=20), stop=st.integers(1, 12))
def test_all_workers_end_an_epoch_together_also_after_a_stop_on_others(
    size: int, worths: list[float], stop: int
) -> None:
    def forever() -> Iterator[float]:
        while True:
            yield from worths

    told = forever()
    first = [Worker(rank, size, 90) for rank in range(size)]
    for worker in first:
        worker.batch.choose(16, "")
    seen = walk(first, told, stop)
    places = {pickle.dumps(worker.place()) for worker in first}
    assert len(places) == 1
    others = [Worker(rank, 3, 90) for rank in range(3)]  # from the checkpoint
    for worker in others:
        worker.batch.choose(16, "")
        worker.restore_place(pickle.loads(places.copy().pop()))
    at = others[0].position
    seen = seen[:at] + walk(others, told)
    place = others[0]
    assert all(worker.place() == place.place() for worker in others)
    assert place.is_trained(16)
    assert Counter(seen) == Counter(permutation(0, 0, 90, place.position).tolist())


def test_a_loader_tells_how_many_steps_an_epoch_has_at_the_worth_of_now() -> None:
    run = Worker(0, 1, 900)
    assert len(run.loader) == 900 // 8
    run.batch.choose(16, "")
    run.tell_worth(0.75)
    assert len(run.loader) == 1200 // 16


def test_what_rank_0_tells_of_the_worth_is_what_all_go_by() -> None:
    """It is a sum over the workers, of which all but the first add nothing."""

    class Second(Ranked):
        def sum(self, values: list[float]) -> Any:
            return lambda: [mine + theirs for mine, theirs in zip(values, [0, 0, 0, 0.875, 0, 0, 0, 0], strict=True)]

    run = Worker(0, 1, 90)
    run.workers = Second(1, 2)
    run.instruments = Instruments(run, NoiseMeter(8))
    run.instruments._quick = False
    run.instruments.tell()
    run.instruments.finish_step()
    assert run.worth == 0.875


# --- what a step is worth ---


def noise_of(phi: float, init_batch: int = 64) -> NoiseScale:
    """Measured so often that it is sure."""
    noise = NoiseScale(init_batch)
    for _ in range(5000):
        noise._average(1.0, phi / init_batch, 1.0)
    assert noise.gain(128) == pytest.approx(2 * (phi + 64) / (phi + 128))
    return noise


def test_with_sgd_a_step_is_worth_its_learning_rate_and_never_more_than_the_gain() -> None:
    rate, noise = LearningRate(), noise_of(640.0)
    gain = noise.gain(128)
    assert rate.progress("adascale", noise, 128, 1.0) == 1, "the learning rate has not followed yet"
    assert rate.progress("adascale", noise, 128, 1.3) == 1.3
    assert rate.progress("adascale", noise, 128, 5.0) == gain
    assert rate.progress("linear", noise, 128, 2.0) == gain, "a learning rate that is too high trains no faster"
    assert rate.progress("none", noise, 128, 1.0) == gain, "the script sees to it"


def test_adam_is_worth_as_much_only_when_its_second_moment_has_followed() -> None:
    rate, noise = LearningRate(), noise_of(640.0)
    root, gain = math.sqrt(2), noise.gain(128)
    told = []
    for _ in range(6000):
        told.append(rate.progress("sqrt", noise, 128, root))
        rate.follow(noise, 128, share=0.001)
    assert told[0] == root
    assert all(after >= before for before, after in pairwise(told))
    assert told[-1] == pytest.approx(gain)
    assert told[500] < 0.95 * gain
    for _ in range(10_000):
        rate.follow(noise, 64, share=0.001)
    assert rate.second_moment == pytest.approx(1, abs=1e-4), "back at the first batch, it is what it was"


def test_an_epoch_of_larger_batches_decays_weights_less_with_adamw_and_as_much_with_sgd() -> None:
    """A step decays weights by learning rate x weight decay; an epoch is as much progress at any batch."""
    noise = noise_of(640.0)
    gain = noise.gain(128)
    adam, sgd = LearningRate(), LearningRate()
    for _ in range(20_000):
        adam.follow(noise, 128, share=0.001)
    rates = adam.target("sqrt", noise, 128), sgd.target("adascale", noise, 128)
    assert rates[0] / adam.progress("sqrt", noise, 128, rates[0]) == pytest.approx(math.sqrt(2) / gain)
    assert rates[1] / sgd.progress("adascale", noise, 128, rates[1]) == pytest.approx(1.0)


def test_where_nothing_is_known_of_the_second_moment_the_root_bounds_the_batch() -> None:
    rate = LearningRate()
    largest = rate.largest("sqrt", 64, has_second_moment=False, samples=10**6)
    assert rate.progress("sqrt", noise_of(1e9), int(largest), math.sqrt(largest / 64)) * 64 / largest >= 0.9
    assert rate.largest("sqrt", 64, has_second_moment=True, samples=10**6) == 10**6 / 64
    assert rate.largest("adascale", 64, has_second_moment=False, samples=100) == math.inf


def test_by_the_root_a_small_data_set_keeps_its_batch() -> None:
    """ResNet on 2,048 samples, Adam: at a batch of 128 the same training loss, and 1.5 points less accuracy."""
    rate = LearningRate()
    assert rate.largest("sqrt", 64, has_second_moment=True, samples=2048) == 64
    assert rate.largest("sqrt", 64, has_second_moment=True, samples=64 * 128) == 128
    assert rate.largest("sqrt", 64, has_second_moment=False, samples=2048) == 64


def test_permutations_of_rounds_do_not_meet_those_of_other_epochs() -> None:
    firsts = {tuple(permutation(0, epoch, 40, 160)[40 * part :][:40]) for epoch in range(50) for part in range(4)}
    assert len(firsts) == 200
    assert np.array_equal(permutation(0, 5, 40, 10), permutation(0, 5, 40)[:10])
