"""Jobs with objectives: how often the advisor's batch size meets them, and how often a random one does.

python -m bench objectives              on the recorded factorial (build/factorial.csv, else bench/data/factorial.csv)
python -m bench objectives=5            and five of the jobs for real, with the batch size that was chosen

As in Courier, 30 jobs are drawn, each with a longest response time: normal, mean 300, deviation 100, where 300 stands
for the mean over the batch sizes that the job may have. It met all of them; a random batch size met 60 %. The history
of the advisor has no run of the job's own family, workers, neighbours and epochs together: it never saw such a job.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bench.courier.factorial import OUTPUT, RECORDED, digits_service, experiment
from bench.courier.table import Run, medians, read
from bench.measured_service import verdict
from schedulearn.features.sweeps.models.advice import AdviceGoal, Estimate, Option, choose, option_of
from schedulearn.features.sweeps.models.predictors import METRIC_MODELS, TIME_MODELS, Predictor

JOBS, MEAN, DEVIATION, SEED = 30, 300.0, 100.0, 0
FOLDS = 6
MANY = 100  # further draws, which tell how much luck the first one had
BUDGET = 1.0

Kind = tuple[str, int, int, int]
"""Family, workers, jobs beside it, epochs: what a job comes with."""


class Outcome(NamedTuple):
    """Of one job."""

    feasible: bool
    """A batch size took no longer than the objective."""
    met: bool
    met_at_random: bool
    chosen: Run
    longest: float


def main(real: float = 0) -> bool:
    file = OUTPUT if OUTPUT.exists() else RECORDED
    if not file.exists():
        print("  nothing was recorded: run `python -m bench factorial` first")
        return False
    grid = medians([run for run in read(file) if run.design == "full"])
    print(f"  {len(grid)} recorded points of {file.name}")
    return evaluate(grid) and (not real or really(grid, int(real)))


def evaluate(grid: Sequence[Run]) -> bool:
    options = options_of(grid)
    if len(options) < FOLDS:
        print("  too few jobs were tried with several batch sizes")
        return False
    found = drawn(options, random.Random(SEED), JOBS)
    feasible = [each for each in found if each.feasible]
    met, at_random = _share(each.met for each in feasible), _share(each.met_at_random for each in feasible)
    of_all = _share(each.met for each in found), _share(each.met_at_random for each in found)
    print(f"  {len(feasible)} of {JOBS} objectives are feasible")
    kept = verdict("feasible objectives met", f"{met:.0%}", f">= {BUDGET:.0%}", met >= BUDGET)
    print(f"  by a random batch size: {at_random:.0%}; of all: {of_all[0]:.0%}, at random {of_all[1]:.0%}")
    print("  Courier: 100 %, by a random batch size 60 %")
    dice = random.Random(SEED + 1)
    more = [each for _ in range(MANY) for each in drawn(options, dice, JOBS) if each.feasible]
    often, seldom = _share(each.met for each in more), _share(each.met_at_random for each in more)
    print(f"  over {MANY} further draws of {JOBS}: {often:.1%} of the feasible ones, at random {seldom:.1%}")
    return kept and met > at_random


def _share(held: object) -> float:
    return statistics.fmean(map(float, held))  # type: ignore[call-overload, no-any-return]


class Options(NamedTuple):
    """What a job may choose among: what came of each batch size, and what had been predicted."""

    actual: Sequence[Run]
    predicted: Sequence[tuple[Estimate, Estimate]]


def options_of(grid: Sequence[Run]) -> Mapping[Kind, Options]:
    """Of each job that was tried with several batch sizes. Predicted by what the jobs of other folds came to."""
    kinds: dict[Kind, list[Run]] = {}
    for run in grid:
        kinds.setdefault((run.family, run.gpus, run.beside, run.epochs), []).append(run)
    several = sorted(kind for kind, runs in kinds.items() if len(runs) > 1)
    random.Random(SEED).shuffle(several)
    found = {}
    for fold in range(FOLDS):
        unseen = several[fold::FOLDS]
        history = [run for kind, runs in kinds.items() if kind not in unseen for run in runs]
        for family in sorted({kind[0] for kind in unseen}):
            of_family = [kind for kind in unseen if kind[0] == family]
            runs = [run for kind in of_family for run in kinds[kind]]
            predicted = iter(_predicted(history, runs, family))
            for kind in of_family:
                found[kind] = Options(kinds[kind], [next(predicted) for _ in kinds[kind]])
    return found


def _predicted(history: Sequence[Run], runs: Sequence[Run], family: str) -> list[tuple[Estimate, Estimate]]:
    """Response time and accuracy of runs, as advice predicts them."""
    samples = [run.sample for run in history]
    given, asked = [each.configuration for each in samples], [run.sample.configuration for run in runs]
    times = Predictor(TIME_MODELS, given, np.array([each.run_time for each in samples]), family, relative=True).predict(
        asked
    )
    reached = Predictor(
        METRIC_MODELS, given, np.array([run.accuracy for run in history]), family, relative=False
    ).predict(asked)
    return [(Estimate(*time), Estimate(*metric)) for time, metric in zip(times, reached, strict=True)]


def drawn(options: Mapping[Kind, Options], dice: random.Random, count: int) -> list[Outcome]:
    kinds = sorted(options)
    found = []
    for _ in range(count):
        of_job = options[dice.choice(kinds)]
        usual = statistics.fmean(run.response_time for run in of_job.actual)
        longest = max(0.01, dice.gauss(MEAN, DEVIATION) / MEAN) * usual
        chosen, other = of_job.actual[advised(of_job, longest)], dice.choice(of_job.actual)
        best = min(run.response_time for run in of_job.actual)
        met, met_at_random = (each.response_time <= longest for each in (chosen, other))
        found.append(Outcome(best <= longest, met, met_at_random, chosen, longest))
    return found


def advised(options: Options, longest: float) -> int:
    """Index of the run with the batch size that advice would choose."""
    objective = AdviceGoal(longest, None, True)
    tried: list[Option] = [
        option_of(run.sample.configuration, 0.0, time, metric, None, objective)
        for run, (time, metric) in zip(options.actual, options.predicted, strict=True)
    ]
    return tried.index(choose(tried, objective).chosen)


def really(grid: Sequence[Run], count: int) -> bool:
    """The first feasible jobs without neighbours, run with what was chosen."""
    options = {kind: each for kind, each in options_of(grid).items() if kind[2] == 0}
    dice, jobs = random.Random(SEED), []
    while len(jobs) < count:
        jobs += [each for each in drawn(options, dice, JOBS) if each.feasible]
    met = 0
    with digits_service() as target:
        for each in jobs[:count]:
            run = each.chosen
            factors = {"required_gpus": [run.gpus], "batch_size": [run.batch_size], "epochs": [run.epochs]}
            [came] = experiment(target, "full", int(run.family.rpartition("-")[2]), 0, factors, 1, 1.0)
            met += came.response_time <= each.longest
            print(f"  batch {run.batch_size}: {came.response_time:.2f} s of {each.longest:.2f} s")
    return verdict("objectives met for real", f"{met} of {count}", f"{count}", met == count)
