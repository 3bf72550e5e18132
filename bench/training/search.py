"""The search for a configuration on recorded grids. Budget: within 10 % of the best in a quarter of its trials.

    python -m bench.training.search [--seeds N] [--goal time|cost|both]

The grids: whole trainings of five applications by GPUs and batch size, from the step times and gradient noise that
Pollux's authors measured on T4s (scheduler/sim/measured). A second type of GPU is declared, not measured: 2.5 times as
fast, 3.2 times as dear.
"""

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple, get_args

import numpy as np

from bench.measured_service import verdict
from schedulearn.scheduler.advisor.configurations import Goal, Outcome, Point, best_of
from schedulearn.scheduler.advisor.search import next_trial
from schedulearn.scheduler.sim.application import Application, measured_applications, packed

SEEDS = 20
APPLICATIONS = ("bert", "cifar10", "deepspeech2", "imagenet", "yolov3")
SHARE = 0.25
"""Of the trials of an exhaustive search, at most."""
WITHIN = 1.10
WIDTH = 4
GPUS = (1, 2, 4, 8, 12, 16)
SIZES = 6
TYPES = {"t4": (1.0, 0.35), "declared": (2.5, 1.12)}
"""Type -> times as fast as measured, price of an hour."""


class Searched(NamedTuple):
    trials: int
    ratio: float
    """Of what was found to the best of the grid."""


def grid_of(application: Application) -> dict[Point, Outcome]:
    """What each configuration would take, and cost a second."""
    bounds = application.bounds
    sizes = sorted({round(size) for size in np.geomspace(bounds.init_batch, bounds.max_batch, SIZES)})
    return {
        Point(kind, gpus, size): Outcome(_seconds(application, gpus, size, speed), gpus * price / 3600)
        for kind, (speed, price) in TYPES.items()
        for gpus in GPUS
        for size in sizes
        if size >= gpus * bounds.min_local
    }


def _seconds(application: Application, gpus: int, batch: int, speed: float) -> float:
    steps = np.diff([0.0, *application.noise.ends]) * application.total_steps
    split = application.split(batch, gpus)
    return float(
        sum(
            count / application.rate(part, packed(gpus, WIDTH), split, speed)
            for part, count in enumerate(steps.tolist())
        )
    )


def search(grid: dict[Point, Outcome], goal: Goal, seed: int) -> Searched:
    points = list(grid)
    tried: dict[int, Outcome | None] = {}
    most = int(SHARE * len(points))
    while (found := next_trial(points, tried, goal, most, seed)).point is not None:
        tried[found.point] = grid[points[found.point]]
    best = best_of(tried, goal)
    assert best is not None
    return Searched(len(tried), grid[points[best]].value(goal) / min(outcome.value(goal) for outcome in grid.values()))


def main(seeds: float = SEEDS, goals: tuple[Goal, ...] = get_args(Goal)) -> bool:
    kept = True
    for name in APPLICATIONS:
        grid = grid_of(measured_applications()[name])
        for goal in goals:
            found = [search(grid, goal, seed) for seed in range(int(seeds))]
            worst, trials = max(each.ratio for each in found), max(each.trials for each in found)
            mean = sum(each.trials for each in found) / len(found)
            shown = f"{worst:.3f} of the best at worst, in {mean:.1f} of {len(grid)} trials (most: {trials})"
            within = worst <= WITHIN and trials <= SHARE * len(grid)
            kept = verdict(f"search {name}, {goal}", shown, f"<= {WITHIN}, {SHARE:.0%}", within) and kept
    return kept


def _command(arguments: list[str]) -> bool:
    parser = argparse.ArgumentParser(prog="python -m bench.training.search", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--goal", action="append", choices=get_args(Goal))
    args = parser.parse_args(arguments)
    return main(args.seeds, tuple(args.goal or get_args(Goal)))


if __name__ == "__main__":
    sys.exit(0 if _command(sys.argv[1:]) else 1)
