"""The search for a configuration on recorded grids. Budget: within 10 % of the best in a quarter of its trials.

    python -m bench.training.search [--seeds N] [--goal time|cost|both] [--left-out SHARE] [--sia FOLDER]

The grids: whole trainings of five applications by type of GPU, GPUs and batch size, from the step times and gradient
noise that Pollux's authors measured on T4s (scheduler/sim/measured). A second type of GPU is declared, not measured:
2.5 times as fast, 3.2 times as dear. `--sia`: from the step times that Sia's authors measured on T4s, RTX 2080 Tis and
A100s instead, on which nothing was tuned; a folder with APPLICATION/placements-TYPE.csv as their artifact has it.
`--left-out`: each seed leaves another such share of the configurations out, so that the best is seldom at a corner.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from bench.measured_service import verdict
from schedulearn.features.sweeps.models.configurations import CandidatePoint, Goal, TrialOutcome, best_of
from schedulearn.features.sweeps.models.search import next_trial
from schedulearn.scheduler.sim.application import Application, Measured, measured_applications, packed

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
SIA_TYPES = {"aws": (4, 0.35), "rtx": (8, 0.60), "dgx-ext": (8, 2.50)}
"""Name in Sia's artifact -> GPUs of a host, price of an hour: T4, RTX 2080 Ti, A100."""

Grid = Mapping[CandidatePoint, TrialOutcome]


class Searched(NamedTuple):
    trials: int
    ratio: float
    """Of what was found to the best of the grid."""


def grid_of(application: Application) -> dict[CandidatePoint, TrialOutcome]:
    """What each configuration would take, and cost a second."""
    return {
        found: outcome
        for kind, (speed, price) in TYPES.items()
        for found, outcome in _of_type(application, kind, WIDTH, price, speed)
    }


def sia_grid(folder: Path, name: str) -> dict[CandidatePoint, TrialOutcome]:
    """The same by what Sia's authors measured on each type."""
    grid: dict[CandidatePoint, TrialOutcome] = {}
    for kind, (width, price) in SIA_TYPES.items():
        by_placement = _rows(folder / name / f"placements-{kind}.csv", "placement")
        by_size = _rows(folder / name / f"scalability-{kind}.csv", "")[""]
        application = measured_applications()[name]
        most = int(max(columns[0].max() for columns in by_placement.values()))
        application = replace(
            application, times=Measured(by_placement, by_size), bounds=replace(application.bounds, max_local=most)
        )
        grid |= dict(_of_type(application, kind, width, price, 1.0))
    return grid


def _rows(file: Path, key: str) -> dict[str, NDArray[np.float64]]:
    """Columns of numbers by the text in the column `key`; all rows together without one."""
    rows: dict[str, list[list[float]]] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            rows.setdefault(row.pop(key) if key else "", []).append([float(value) for value in row.values()])
    return {name: np.array(sorted(found)).T for name, found in rows.items()}


def _of_type(
    application: Application, kind: str, width: int, price: float, speed: float
) -> Iterator[tuple[CandidatePoint, TrialOutcome]]:
    bounds = application.bounds
    sizes = sorted({round(size) for size in np.geomspace(bounds.init_batch, bounds.max_batch, SIZES)})
    steps = np.diff([0.0, *application.noise.ends]) * application.total_steps
    for gpus in GPUS:
        for size in sizes:
            if size >= gpus * bounds.min_local:
                rates = application.rates(packed(gpus, width), size, speed)
                yield CandidatePoint(kind, gpus, size), TrialOutcome(float((steps / rates).sum()), gpus * price / 3600)


def search(grid: Grid, goal: Goal, seed: int, known: dict[frozenset[int], int | None] | None = None) -> Searched:
    """`known`: what came next in earlier searches of this grid for this goal. The seed draws the first trial alone, and
    from the same trials on all searches are one."""
    points = list(grid)
    prices = [grid[point].price for point in points]
    tried: dict[int, TrialOutcome | None] = {}
    most = int(SHARE * len(points))
    known = {} if known is None else known
    while True:
        so_far = frozenset(tried)
        if not so_far or so_far not in known:
            known[so_far] = next_trial(points, prices, tried, goal, most, seed).point
        found = known[so_far]
        if found is None:
            break
        tried[found] = grid[points[found]]
    best = best_of(tried, goal)
    assert best is not None
    return Searched(len(tried), grid[points[best]].value(goal) / min(outcome.value(goal) for outcome in grid.values()))


def without_some(grid: Grid, share: float, seed: int) -> Grid:
    drawn = np.random.default_rng(seed).random(len(grid)).tolist()
    return {point: outcome for (point, outcome), each in zip(grid.items(), drawn, strict=True) if each >= share}


def searches(grid: Grid, goal: Goal, seeds: int, left_out: float) -> list[Searched]:
    if left_out:
        return [search(without_some(grid, left_out, seed), goal, seed) for seed in range(seeds)]
    known: dict[frozenset[int], int | None] = {}
    return [search(grid, goal, seed, known) for seed in range(seeds)]


def main(
    seeds: float = SEEDS, goals: tuple[Goal, ...] = get_args(Goal), left_out: float = 0.0, sia: Path | None = None
) -> bool:
    kept = True
    for name in APPLICATIONS:
        grid = grid_of(measured_applications()[name]) if sia is None else sia_grid(sia, name)
        for goal in goals:
            found = searches(grid, goal, int(seeds), left_out)
            worst, trials = max(each.ratio for each in found), max(each.trials for each in found)
            near = sum(each.ratio <= WITHIN for each in found)
            mean = sum(each.trials for each in found) / len(found)
            shown = (
                f"{worst:.3f} of the best at worst, {near} of {len(found)} within a tenth, "
                f"in {mean:.1f} of {len(grid)} trials (most: {trials})"
            )
            within = worst <= WITHIN and trials <= SHARE * len(grid)
            kept = verdict(f"search {name}, {goal}", shown, f"<= {WITHIN}, {SHARE:.0%}", within) and kept
    return kept


def _command(arguments: list[str]) -> bool:
    parser = argparse.ArgumentParser(prog="python -m bench.training.search", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--goal", action="append", choices=get_args(Goal))
    parser.add_argument("--left-out", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--sia", type=Path, metavar="FOLDER")
    args = parser.parse_args(arguments)
    return main(args.seeds, tuple(args.goal or get_args(Goal)), args.left_out, args.sia)


if __name__ == "__main__":
    sys.exit(0 if _command(sys.argv[1:]) else 1)
