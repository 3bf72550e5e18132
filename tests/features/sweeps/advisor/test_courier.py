"""Courier's experiments (bench/courier): its training is real, its models see what laws there are, its objectives are
met."""

from __future__ import annotations

import argparse
import math
import os
import random
from pathlib import Path

import numpy as np
import pytest
from bench.courier import factorial, objectives, train
from bench.courier.table import Run, medians, read, shortest, write
from bench.training import search_once


def declared(share_of_noise: float = 0.02) -> list[Run]:
    """A full factorial by a law: start-up, passes, steps of several workers, and cores that are shared."""
    dice, found = random.Random(1), []
    for width in factorial.WIDTHS:
        wide = width / factorial.WIDTHS[0]
        for beside in factorial.BESIDE:
            for gpus in factorial.FULL["required_gpus"]:
                for batch in factorial.FULL["batch_size"]:
                    for epochs in factorial.FULL["epochs"]:
                        steps, crowd = epochs * train.EPOCH / batch, max(1.0, (gpus + beside) / 2)
                        step = 0.0004 * wide + 0.0006 * (gpus > 1)
                        seconds = 0.6 + crowd * (steps * step + epochs * 0.05 * wide / gpus)
                        accuracy = 0.97 / (1 + math.exp(-1.1 * math.log(steps / 60) - 0.4 * (wide > 1)))
                        found.append(
                            Run(
                                "full", f"digits-{width}", gpus, beside, batch, epochs, train.EPOCH,
                                seconds * dice.gauss(1, share_of_noise), accuracy + dice.gauss(0, 0.005),
                            )
                        )  # fmt: skip
    return found


@pytest.mark.long
def test_the_chosen_models_are_ahead_on_a_fifth_that_none_has_seen(capsys: pytest.CaptureFixture[str]) -> None:
    runs = declared()
    assert factorial.evaluate(runs), capsys.readouterr().out
    said = capsys.readouterr().out
    assert "43 of 216 points held out" in said
    assert "R2 of accuracy" in said
    assert "ahead of linear, queueing, boosting" in said


@pytest.mark.long
def test_objectives_are_met_more_often_than_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objectives, "MANY", 1)
    runs = [run for run in declared() if run.beside == 0 and run.family == f"digits-{factorial.WIDTHS[0]}"]
    options = objectives.options_of(runs)
    assert len(options) == 6, "two numbers of workers, three of epochs"
    found = [each for each in objectives.drawn(options, random.Random(0), 200) if each.feasible]
    assert 100 < len(found) < 200
    met, at_random = (sum(each) / len(found) for each in zip(*((x.met, x.met_at_random) for x in found), strict=True))
    assert met > at_random + 0.1


def test_the_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    runs = declared()[:5]
    write(tmp_path / "table.csv", runs)
    assert read(tmp_path / "table.csv") == runs


def test_gradients_are_those_of_the_loss() -> None:
    width, dice = 4, np.random.default_rng(0)
    batch = train.digits().some(slice(6))
    network = train.Network(width, np.zeros(train.Network.size(width)))  # doubles: what is compared are differences
    network.draw(1)
    found = train.Network(width, np.zeros(train.Network.size(width)))
    network.gradient(batch, 6, found)

    def loss() -> float:
        scores = network.scores(batch.images)[1]
        rows = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return float(-rows[np.arange(6), batch.labels].mean())

    for at in [*dice.choice(len(network.weights), 20), len(network.weights) - 1]:
        before = network.weights[at]
        network.weights[at] = before + 1e-6
        above = loss()
        network.weights[at] = before - 1e-6
        slope = (above - loss()) / 2e-6
        network.weights[at] = before
        assert found.weights[at] == pytest.approx(slope, abs=1e-6)


@pytest.mark.slow
def test_it_is_trained_by_jobs_of_a_service_and_by_several_workers() -> None:
    factors = {"required_gpus": [1, 2], "batch_size": [512], "epochs": [2]}
    with factorial.digits_service() as target, factorial.neighbours(target, 1):
        runs = factorial.experiment(target, "full", 16, 1, factors, 1, 1.0)
    assert sorted(run.gpus for run in runs) == [1, 2]
    assert all(run.accuracy > 0.11 and run.response_time > 0 for run in runs)
    assert abs(runs[0].accuracy - runs[1].accuracy) < 0.1, "workers share the batch: they learn as one does"


def test_workers_have_a_core_each_and_take_turns_at_two() -> None:
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("one processor: there is nothing to choose between")
    found = []
    try:
        for core in range(3):
            train.bind(core)
            found.append(os.sched_getaffinity(0))
            os.sched_setaffinity(0, before)
    finally:
        os.sched_setaffinity(0, before)
    assert [len(each) for each in found] == [1, 1, 1]
    assert found[0] == found[2] != found[1]


def test_the_shortest_or_the_median_run_of_a_point_counts() -> None:
    one, other = declared()[:2]
    again = one._replace(response_time=one.response_time + 2, accuracy=one.accuracy - 0.2)
    disturbed = one._replace(response_time=one.response_time + 90)
    [middle, alone] = medians([one, other, disturbed, again])
    assert middle.response_time == again.response_time
    assert middle.accuracy == one.accuracy
    assert alone == other
    assert [each.response_time for each in shortest([again, other, disturbed, one])] == [
        one.response_time,
        other.response_time,
    ]
    assert len(medians([one, one._replace(design="2k")])) == 2, "designs are apart"


@pytest.mark.long
def test_a_search_over_real_training_is_compared_with_all_configurations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(search_once, "GPUS", (1, 2))
    monkeypatch.setattr(search_once, "SIZES", (256, 512))
    job = {**factorial.job_of(16), "epochs": 1}
    with factorial.digits_service(2) as target:
        seconds = search_once.exhaustive(target, job)
        search_once.search(target, job, "time", seconds)
    assert seconds.keys() == {(1, 256), (1, 512), (2, 256), (2, 512)}
    assert "after 4 of 4 trials" in capsys.readouterr().out


def test_training_alone_learns_the_digits() -> None:
    data = train.digits()
    seen, test = data.some(slice(train.TRAINED)), data.some(slice(train.TRAINED, None))
    workers = train.Workers(1, train.Network.size(32))
    args = argparse.Namespace(width=32, batch_size=8, epochs=20, pause=0.0)
    assert train.train(0, args, seen, workers, os.getpid()).accuracy(test) > 0.8
