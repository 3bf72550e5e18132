"""The whole of a run whose batch adapts, on problems of which the end is known: it must not train worse."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from environments import Python

from schedulearn.metrics.model.goodput import BatchBounds
from schedulearn.worker.batch import noise_meter
from schedulearn.worker.batch.noise_meter import NoiseMeter
from schedulearn.worker.instruments import Instruments
from schedulearn.worker.order import permutation, steps
from schedulearn.worker.run import Run
from schedulearn.worker.workers import Alone

EAGER = {"alpha_grad": 0.02, "beta_grad": 1e-5, "alpha_local": 0.0, "beta_local": 0.0, "alpha_node": 0.0,
         "beta_node": 0.0, "gamma": 1.0}  # fmt: skip
"""To this GPU a larger batch is always worth it: what holds it back is the run alone."""


class Service:
    """Answers anew in each step."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._answers: dict[int, Any] = {}

    @property
    def answer(self) -> Any:
        return self._answers.setdefault(self._run.step, {"models": {"gpu": EAGER}, "gpu_type": "gpu"})

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass


class Norms(NoiseMeter):
    def norms(self, gradients: Sequence[Any]) -> float:
        return float(sum((g**2).sum() for g in gradients))

    def copies(self, gradients: Sequence[Any]) -> list[Any]:
        return [g.copy() for g in gradients]


class Slope(Run):
    """Goes down a valley: along it the slope is steady and full of noise, so that large batches pay; its walls are so
    steep that a learning rate 1.4 times as large throws it out."""

    def __init__(self, max_batch: int, broken_at: int | None = None) -> None:
        super().__init__(Alone(), BatchBounds(64, max_batch), "adascale", 0)
        self.instruments = Instruments(self, Norms(64))
        self._reporter = Service(self)  # type: ignore[assignment]
        self.samples = 64 * 200
        self.along, self.across = np.zeros(50), 0.1
        self.batches: list[int] = []
        self.factors: list[float] = []
        self._broken_at = broken_at
        self._random = np.random.default_rng(0)

    def capture(self) -> dict[str, Any]:
        return {"along": self.along.copy(), "across": self.across}

    def apply(self, captured: dict[str, Any]) -> None:
        self.along, self.across = captured["along"], captured["across"]

    def _gradient(self, samples: int) -> Any:
        noise = self._random.normal(0, 4 * np.sqrt(64 / samples), 51)
        gradient = np.append(-np.ones(50) + noise[:50], 15.0 * self.across + 0.1 * noise[50])
        if self._broken_at is not None and self.batch.total > 64 and self.step >= self._broken_at:
            self._broken_at = None
            self.along[:] = np.nan
        return gradient + 0 * self.along.sum()

    def train(self, epochs: int) -> Slope:
        assert self.instruments is not None
        for epoch in self.loop(epochs):
            while not self.is_trained(self.batch.total):
                order = permutation(0, epoch, self.samples, self.epoch_end(self.batch.total))[self.position :]
                this = next(iter(steps(order, 0, 0, 1, *self.batch.shape)))
                self.begin_pass(this)
                gradient = self._gradient(this.samples)
                self.instruments.tell()
                if self.instruments.meter.measuring:
                    self.instruments.meter.total([gradient], this.samples, 1)
                rate = 0.1 * self.learning_rate_factor()
                self.along = self.along - rate * gradient[:50]
                self.across -= rate * gradient[50]
                self.batches.append(self.batch.total)
                self.factors.append(self.guard.factor)
                self.end_pass(this, 0.01)
        return self


@pytest.fixture(autouse=True)
def as_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SCHEDULEARN_JOB_ID", "j")
    monkeypatch.setattr(noise_meter, "BUDGET", 1e9)  # measure every step: when must not depend on the time
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_where_a_larger_learning_rate_does_harm_the_batch_goes_back(capsys: pytest.CaptureFixture[str]) -> None:
    fixed, adaptive = Slope(64).train(6), Slope(1024).train(6)
    assert max(adaptive.batches) > 64, "it never grew: nothing is tested"
    assert max(after / before for before, after in pairwise(adaptive.batches)) <= 2
    assert abs(adaptive.across) < 1
    assert adaptive.along.mean() > 0.98 * fixed.along.mean()
    log = capsys.readouterr().out
    assert "the gradient grew" in log
    assert "no larger batch for 500 steps" in log
    assert adaptive.guard.state()["retreats"] >= 1


def test_weights_that_are_lost_are_those_from_before_the_batch_grew(capsys: pytest.CaptureFixture[str]) -> None:
    run = Slope(128, broken_at=110).train(4)
    assert "the gradients are not finite" in capsys.readouterr().out
    assert np.isfinite(run.along).all()
    assert run.along.mean() > 0.98 * Slope(64).train(4).along.mean(), "what was lost with the weights is trained again"


def test_the_learning_rate_never_leaps(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Slope(1024).train(4)
    assert max(after / before for before, after in pairwise(run.factors)) < 1.02


@pytest.mark.long
@pytest.mark.horovod
def test_digits_with_a_batch_that_may_become_16_times_as_large_are_learnt_as_well(
    horovod_env: Path, tmp_path: Path
) -> None:
    """SGD at 0.1 on one GPU: the noise scale can't be told there, and a batch that went by it ended at 79 %."""
    python = Python(horovod_env, tmp_path)
    script = str(Path(__file__).parents[2] / "bench/training/accuracy_train.py")
    found = {}
    for most in (64, 1024):
        output = python.run("alone", 1, script, "digits", "sgd", str(most), "25", "0", SCHEDULEARN_JOB_ID="j")
        found[most] = json.loads(output[output.index('{"seed"') :])
    assert found[64]["accuracy"] > 0.95
    assert found[1024]["accuracy"] >= found[64]["accuracy"] - 0.005
    totals = [total for _, total, _ in found[1024]["batches"]]
    assert all(after <= 2 * before for before, after in pairwise(totals))
