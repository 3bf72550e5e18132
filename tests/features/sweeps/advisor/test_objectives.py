"""Thirty jobs with objectives drawn as in Courier (normal, mean 300, deviation 100, scaled to what the jobs take): each
is met that can be, against a batch size that is drawn. The jobs' times are declared, from step times that were measured
(bench/training/search.py), with 3 % of noise on what the models learn from."""

from __future__ import annotations

import random

import numpy as np
from bench.training.search import grid_of

from schedulearn.features.sweeps.models.advice import AdviceGoal, Estimate, choose, option_of
from schedulearn.features.sweeps.models.predictors import TIME_MODELS, Predictor
from schedulearn.features.sweeps.models.samples import Configuration
from schedulearn.scheduler.sim.application import measured_applications

JOBS = 30
GPU_TYPE = "t4"
REPEATS = 4  # of each configuration, in the past that the models know


def test_objectives_are_met_wherever_they_can_be_and_a_random_batch_size_misses_some() -> None:
    dice = random.Random(1)
    grid = grid_of(measured_applications()["cifar10"])
    times = {
        Configuration("cifar10", GPU_TYPE, point.gpus, point.batch_size, 1, 50_000): outcome.seconds
        for point, outcome in grid.items()
        if point.gpu_type == GPU_TYPE
    }
    options = list(times)
    seen = options * REPEATS
    measured = np.array([times[each] * dice.gauss(1, 0.03) for each in seen])
    predicted = Predictor(TIME_MODELS, seen, measured, "cifar10", relative=True).predict(options)
    scale = float(np.median(list(times.values()))) / 300
    met = could = by_chance = 0
    for _ in range(JOBS):
        objective = AdviceGoal(max(1.0, dice.gauss(300, 100)) * scale, None, highest=True)
        assert objective.longest is not None
        found = [
            option_of(option, 0.0, Estimate(*span), None, None, objective)
            for option, span in zip(options, predicted, strict=True)
        ]
        chosen = choose(found, objective).chosen.configuration
        drawn = dice.choice([each for each in options if each.gpus == chosen.gpus])
        feasible = min(times.values()) <= objective.longest
        could += feasible
        met += feasible and times[chosen] <= objective.longest
        by_chance += feasible and times[drawn] <= objective.longest
    assert could >= JOBS / 2, "a test of something"
    assert met == could
    assert by_chance < could
