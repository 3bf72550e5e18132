"""What is measured in each step and told with it, and a run that does so, without a framework."""

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from schedulearn.metrics.model.goodput import BatchBounds
from schedulearn.worker import PREEMPTED
from schedulearn.worker.batch.noise_meter import LONGEST, NoiseMeter
from schedulearn.worker.instruments import Instruments
from schedulearn.worker.order import Pass, permutation, steps
from schedulearn.worker.run import Run
from schedulearn.worker.workers import Alone

# --- the noise of gradients, whichever framework has them ---


class Norms(NoiseMeter):
    def norms(self, gradients: Sequence[Any]) -> float:
        return float(sum((g**2).sum() for g in gradients))

    def copies(self, gradients: Sequence[Any]) -> list[Any]:
        return [g.copy() for g in gradients]


@pytest.mark.parametrize("workers", [1, 4])
def test_the_meter_finds_the_noise_of_gradients_in_parts(workers: int) -> None:
    random = np.random.RandomState(0)
    true = random.randn(200) / 14  # |G|^2 about 1
    meter = Norms(32)
    for _ in range(400):
        mine = [true + random.randn(200) * np.sqrt(16 / 200 / (32 / workers)) for _ in range(workers)]  # var of 16
        meter.begin()
        assert meter.measuring
        squares = []
        for gradient in mine:
            meter.local_sqr = 0.0
            meter.local([gradient[:50]])
            meter.local([gradient[50:]])
            squares.append(meter.local_sqr)
        mean = np.mean(mine, axis=0)
        meter.total([mean[:50], mean[50:]], 32, workers)
        meter.finish(sum(squares), meter.total_sqr, workers, workers, 32)
        meter.pace(0.0, 1.0, workers)
    assert meter.phi == pytest.approx(16 / (true**2).sum(), rel=0.15)


def test_measuring_is_as_seldom_as_keeps_it_cheap() -> None:
    meter = Norms(32)
    measured = 0
    for _ in range(300):
        meter.begin()
        measured += meter.measuring
        meter.pace(cost=0.001, step=0.02, workers=2)  # a twentieth of the step
    assert measured == 30  # a half per cent


class CostlyPairs(Norms):
    """The second half of a pair costs ten times as much as the first."""

    def _pair(self, gradients: Sequence[Any], batch: int) -> None:
        time.sleep(0.0005 if self._previous is None else 0.005)
        super()._pair(gradients, batch)


def test_alone_a_pair_is_paced_by_what_both_halves_cost() -> None:
    run: Any = SimpleNamespace(
        workers=Alone(), flags=lambda: [0.0, 0.0, 0.0], told_worth=lambda: 1.0, tell_worth=lambda worth: None
    )
    instruments = Instruments(run, meter := CostlyPairs(32))
    measured = 0
    for _ in range(300):
        instruments.begin_pass(Pass(np.arange(32), True, True, 1, 1.0, 32))
        instruments._began -= 0.05  # what a step takes
        instruments.tell()
        measured += meter.measuring
        if meter.measuring:
            meter.total([np.ones(4)], 32, 1)
        instruments.finish_step()
    assert 0 < measured <= 2 * -(-300 // 40) + 2, "5 ms of steps of 50: a pair every 40"


class Twins(Alone):
    """Two workers that say the same; a message is on its way until somebody waits for it."""

    size = 2

    def __init__(self) -> None:
        self.under_way = 0

    def sum(self, values: list[float]) -> Callable[[], list[float]]:
        assert self.under_way == 0, "two messages of one name"
        self.under_way += 1

        def finish() -> list[float]:
            self.under_way -= 1
            return [2 * value for value in values]

        return finish


class Recorded(Norms):
    def __init__(self) -> None:
        super().__init__(32)
        self.finished: list[tuple[float, float, int]] = []

    def finish(self, local_sum: float, total_sqr: float, measured: float, workers: int, batch: int) -> None:
        self.finished.append((local_sum, total_sqr, batch))


def steps_of_twins(step_s: float, flags: Iterable[list[float]]) -> tuple[list[list[float]], Recorded, Twins]:
    """What each step ends with; in step n this worker's |g|^2 is n, that of the average 10 n, the samples 100 n."""
    workers, asked = Twins(), iter(flags)
    worth = {"told_worth": lambda: 0.5, "tell_worth": lambda worth: None}
    run: Any = SimpleNamespace(workers=workers, flags=lambda: next(asked), **worth)
    instruments = Instruments(run, meter := Recorded())
    heard = []
    for number, _ in enumerate(flags):
        instruments.begin_pass(Pass(np.arange(1), True, True, 1, 1.0, 100 * number))
        instruments._began -= step_s
        meter.local_sqr = number
        instruments.tell()
        if meter.measuring:
            meter.total_sqr = 10 * number
        heard.append(instruments.finish_step())
    return heard, meter, workers


NO, SAVE = [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]


def test_nobody_waits_for_the_message_of_a_quick_step() -> None:
    heard, meter, workers = steps_of_twins(0.05, [NO, NO, SAVE, SAVE, NO, NO, NO])
    assert workers.under_way == 1, "the last one"
    assert heard == [NO, NO, NO, [0.0, 2.0, 0.0], NO, NO, NO], "a step later, and not twice"
    assert all(local == 2 * total / 10 == 2 * batch / 100 for local, total, batch in meter.finished)
    assert len(meter.finished) >= 2


def test_a_long_step_ends_with_what_was_told_in_it() -> None:
    heard, meter, workers = steps_of_twins(1.0, [NO, SAVE, NO])
    assert workers.under_way == 0
    assert heard == [NO, [0.0, 2.0, 0.0], NO]
    assert [local for local, *_ in meter.finished] == [0, 2, 4]


class Group(Alone):
    """Workers in step with each other, in one process."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_over = False
        self._sums: dict[int, list[list[float]]] = {}
        self._calls = 0

    def sum(self, values: list[float]) -> Callable[[], list[float]]:
        number, self._calls = self._calls // self.size, self._calls + 1
        told = self._sums.setdefault(number, [])
        told.append(values)
        return lambda: [sum(each) for each in zip(*told, strict=True)]


def worker_of(group: Group) -> Instruments:
    run: Any = SimpleNamespace(
        workers=group, flags=lambda: [0.0, 0.0, float(group.is_over)], told_worth=lambda: 1.0,
        tell_worth=lambda worth: None,
    )  # fmt: skip
    return Instruments(run, Norms(32))


def step_together(workers: list[Instruments], step_s: float, gradient: float = 1.0) -> list[float]:
    """What they tell each other. Measuring costs each a tenth of a step."""
    for each in workers:
        each.begin_pass(Pass(np.arange(16), True, True, 1, 1.0, 32))
        each._began = time.perf_counter() - step_s
        if each.meter.measuring:
            each.meter.local([np.full(4, gradient)])
        each.tell()
        if each.meter.measuring:
            each.meter.total([np.full(4, gradient)], 32, len(workers))
            each.meter.cost = step_s / 10
    heard = [each.finish_step() for each in workers]
    return heard[0]


@pytest.mark.parametrize(("before", "after"), [(2, 3), (1, 3), (3, 1)])
@pytest.mark.parametrize("step_s", [0.05, 1.0])
@pytest.mark.parametrize("phase", range(LONGEST + 1))
def test_workers_measure_together_whenever_others_join_or_leave(
    before: int, after: int, step_s: float, phase: int
) -> None:
    group = Group(before)
    every = [worker_of(group) for _ in range(before)]
    for _ in range(phase):
        step_together(every, step_s)
    group.is_over = True
    while not any(step_together(every, step_s)):
        pass
    group = Group(after)
    joined = [worker_of(group) for _ in range(after - before)]
    for each in joined:
        each.meter.noise.restore(every[0].meter.noise.averages())
    every = [*every[:after], *joined]
    for each in every:
        each._run.workers = group
        each.regroup()
    found = [each.meter.noise.measured for each in every]
    for number in range(90):
        step_together(every, step_s, gradient=1.0 if number < 50 else np.inf)
    seen = {each.meter.noise.measured - before for each, before in zip(every, found, strict=True)}
    assert len(seen) == 1
    assert min(seen) >= 90 // LONGEST - (after == 1), "alone, a measurement takes two steps"
    assert {np.isfinite(each.meter.noise.power) for each in every} == {False}, "the guard hears of it"
    assert len({tuple(each.meter.noise.averages()) for each in every}) == 1, "all scale their learning rate alike"


# --- a run, without a framework ---


class Numbers(Run):
    """One whose model is a number."""

    def __init__(self, **options: Any) -> None:
        super().__init__(Alone(), BatchBounds(4, 4), "none", 0)
        self.instruments = Instruments(self, Norms(4))
        self.samples = 12
        self.number = 0

    def capture(self) -> dict[str, Any]:
        return {"number": self.number}

    def apply(self, captured: dict[str, Any]) -> None:
        self.number = captured["number"]

    def train(self, epochs: int, stop_at: int | None = None) -> list[tuple[int, int]]:
        done = []
        for epoch in self.loop(epochs):
            while not self.is_trained(self.batch.total):
                order = permutation(0, epoch, 12)[self.position :]
                this = next(iter(steps(order, 0, 0, 1, *self.batch.shape)))
                self.begin_pass(this)
                self.number += 1
                self.stopping = self.number == stop_at
                assert self.instruments is not None
                self.instruments.tell()
                done.append((epoch, self.position))
                self.end_pass(this, 0.01)
        return done


@pytest.fixture
def as_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    monkeypatch.setenv("SCHEDULEARN_JOB_ID", "j")
    monkeypatch.setenv("SCHEDULEARN_CHECKPOINT_DIR", str(tmp_path))
    before = signal.getsignal(signal.SIGTERM)
    yield monkeypatch
    signal.signal(signal.SIGTERM, before)


def test_a_run_ends_with_a_checkpoint_when_told_and_the_next_goes_on_there(
    as_a_job: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Numbers()
    with pytest.raises(SystemExit) as stopped:
        first.train(3, stop_at=5)
    assert stopped.value.code == PREEMPTED
    second = Numbers()
    assert second.train(3) == [(1, 8), (2, 0), (2, 4), (2, 8)]
    assert (second.number, second.step, second.epoch, second.fraction) == (9, 9, 3, 1.0)
    assert "continues at epoch 1, sample 8, step 5" in capsys.readouterr().out
    as_a_job.setenv("SCHEDULEARN_EPOCHS", "2")
    assert Numbers().train(3) == [(1, 8)], "the job's own number of epochs wins"


def test_a_run_whose_workers_cannot_come_and_go_says_so_at_once(as_a_job: pytest.MonkeyPatch) -> None:
    as_a_job.setenv("SCHEDULEARN_MEMBER", "1")
    as_a_job.setenv("SCHEDULEARN_REPORT_URL", "http://127.0.0.1:1/")
    with pytest.raises(ValueError, match=r"schedulearn\.worker\.torch"):
        Numbers()
