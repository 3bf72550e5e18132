"""Formulas beside the code of others: AdaptDL, statsmodels, scikit-learn, and PyTorch without the SDK.

`make test-references` installs AdaptDL and statsmodels for it alone, and prints by how much each differs at most.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.measured_service import verdict
from schedulearn.features.sweeps.models.anova import Analysis, Trial, analyze
from schedulearn.features.sweeps.models.predictors import FOLDS, TIME_MODELS, out_of_fold, point_folds
from schedulearn.features.sweeps.models.samples import Configuration
from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.step_time import StepTimeModel
from schedulearn.scheduler.runtimes.sdk import unpack_sdk

ROOT = Path(__file__).parents[2]
AGREE = 1e-6
"""Largest difference, as a share of the reference's figure."""
AGREE_PYTORCH = 1e-5
AGREE_NOISE = 1e-4
"""Norms are taken in single precision."""
CASES = 300
PASSES = (32, 13)
"""Samples of a pass, of steps of 64."""


def main(designs: float = 100) -> bool:
    try:
        api = importlib.import_module("statsmodels.formula.api")
        anova_lm = importlib.import_module("statsmodels.stats.anova").anova_lm
        theirs = importlib.import_module("adaptdl.goodput")
    except ModuleNotFoundError as missing:
        print(f"  needs {missing.name}, which the project does not: run `make test-references`")
        return False
    kept = agreement("goodput at a batch, AdaptDL", of_goodput(theirs.GoodputFunction))
    kept = best_of_goodput(theirs.GoodputFunction) and kept
    kept = training(Path(theirs.__file__).parents[1]) and kept
    return of_statistics(designs, api, anova_lm) and kept


def of_statistics(designs: float, api: Any, anova_lm: Any) -> bool:
    warnings.simplefilter("ignore")  # of designs whose columns hang together: they are left out below
    variance, effects = [], []
    for seed in range(int(designs)):
        trials, factors = design(random.Random(seed))
        found = analyze(trials, factors)
        columns = {name: [trial.levels[name] for trial in trials] for name in factors}
        fitted = api.ols(formula(found), columns | {"y": [trial.response for trial in trials]}).fit()
        if np.linalg.matrix_rank(fitted.model.exog) < fitted.model.exog.shape[1] or not fitted.df_resid:
            continue  # sums of squares of such designs depend on how they are coded
        variance.append(of_variance(found, anova_lm(fitted, typ=2)))
        effects += of_effects(found, fitted)
    kept = agreement(f"sums of squares, F, p and df of {len(variance)} designs, statsmodels", variance)
    kept = agreement(f"effects and their intervals, {len(effects)} terms, statsmodels", effects) and kept
    return agreement("out-of-fold predictions by configuration, scikit-learn", folds()) and kept


def agreement(what: str, off: list[float], budget: float = AGREE) -> bool:
    most = max(off, default=float("inf"))
    return verdict(what, f"{most:.1e}", f"<= {budget:.0e}", most <= budget)


def drawn(dice: random.Random) -> tuple[list[float], float, int, int, int]:
    """Parameters of the step time, phi, the first batch, hosts and workers. Times are so long that the 10 ns which
    AdaptDL takes a worker alone to wait for nobody don't count."""
    times = [10 ** dice.uniform(-1, 1) for _ in range(6)]
    nodes = dice.choice([1, 1, 2, 5])
    workers = 1 if nodes == 1 and dice.random() < 0.3 else nodes * dice.randint(1 if nodes > 1 else 2, 8)
    return [*times, dice.uniform(1, 10)], 10 ** dice.uniform(0, 5), dice.randint(1, 256), nodes, workers


def both(function: Any, parameters: list[float], phi: float, init: int) -> tuple[Any, StepTimeModel]:
    """AdaptDL's goodput, which has the parameters of the network over hosts first, and the model of ours."""
    grad, local, node, gamma = parameters[:2], parameters[2:4], parameters[4:6], parameters[6]
    return function((*grad, *node, *local, gamma), (1.0, phi / init), init), StepTimeModel(*parameters)


def of_goodput(function: Any) -> list[float]:
    dice, found = random.Random(0), []
    while len(found) < CASES:
        parameters, phi, init, nodes, workers = drawn(dice)
        atomic, accumulation = dice.randint(1, 64), dice.choice([0, 0, 1, 3])
        batch = workers * atomic * (accumulation + 1)
        if batch >= init:
            theirs, model = both(function, parameters, phi, init)
            ours = Goodput({"gpu": model}, phi, BatchBounds(init, batch, max_local=atomic))
            found.append(
                off(float(ours.at(nodes, workers, batch)), float(theirs(nodes, workers, atomic, accumulation)))
            )
    return found


def best_of_goodput(function: Any) -> bool:
    """AdaptDL tries 50 batches, rounded up, which may pass the largest one: those are left out."""
    dice, behind = random.Random(1), []
    while len(behind) < CASES:
        parameters, phi, init, nodes, workers = drawn(dice)
        most, largest = dice.randint(4, 64), max(init, workers) + dice.randint(0, 2000)
        theirs, model = both(function, parameters, phi, init)
        goodput, atomic, accumulation = theirs.optimize(nodes, workers, largest, (1, most), accumulation=True)
        if goodput > 0 and workers * atomic * (accumulation + 1) <= largest:
            ours = Goodput({"gpu": model}, phi, BatchBounds(init, largest, max_local=most, alone_passes=2))
            behind.append(1 - float(ours(nodes, workers)) / goodput)
    most_behind = max(behind)
    return verdict("best goodput behind that of AdaptDL's search", f"{most_behind:.2%}", "<= 1 %", most_behind <= 0.01)


def training(adaptdl: Path) -> bool:
    """In the environment of local jobs, which has PyTorch."""
    build = subprocess.run([ROOT / "worker_images/build-env.sh"], capture_output=True, text=True, check=True)
    prefix = build.stdout.strip().splitlines()[-1].removeprefix("ready ")
    with tempfile.TemporaryDirectory() as folder:
        env = {
            "PATH": f"{prefix}/bin:{os.environ['PATH']}", "OMP_NUM_THREADS": "1",
            "PYTHONPATH": f"{unpack_sdk(Path(folder))}:{adaptdl}",
        }  # fmt: skip

        def printed(script: str, *arguments: str) -> list[dict[str, Any]]:
            command = ["python3", str(ROOT / script), *arguments]
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, check=True)
            return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]

        kept = True
        for each in printed("bench/statistics/references_noise.py"):
            kept = agreement(f"{each['case']}, AdaptDL", [each["apart"]], AGREE_NOISE) and kept
        for samples in map(str, PASSES):
            cases = printed("tests/worker/script_accumulation.py", "alone", samples, "64", "330")
            what = f"{len(cases)} kinds of training in passes of {samples} samples, PyTorch without the SDK"
            kept = agreement(what, [each["apart"] for each in cases], AGREE_PYTORCH) and kept
    return kept


def design(dice: random.Random) -> tuple[list[Trial], list[str]]:
    """2 or 3 factors of 2 or 3 levels, 1 to 3 runs of each point, and a tenth of the runs lost."""
    factors = ["first", "second", "third"][: dice.choice([2, 3])]
    levels = [range(dice.choice([2, 2, 3])) for _ in factors]
    trials = []
    for point in itertools.product(*levels):
        for _ in range(dice.randint(1, 3)):
            if dice.random() > 0.1:
                y = sum(dice.choice([1.0, 2.0]) * each for each in point) + dice.gauss(0, 1)
                trials.append(Trial(dict(zip(factors, point, strict=True)), y))
    return trials, factors


def formula(found: Analysis) -> str:
    return "y ~ " + " + ".join(named(term.factors) for term in found.terms)


def named(factors: tuple[str, ...]) -> str:
    return ":".join(f"C({factor}, Sum)" for factor in factors)


def off(ours: float, theirs: float) -> float:
    return abs(ours - theirs) / max(abs(theirs), 1e-9)


def of_variance(found: Analysis, table: Any) -> float:
    pairs = [(found.error, table["sum_sq"]["Residual"]), (found.error_df, table["df"]["Residual"])]
    for term in found.terms:
        row = table.loc[named(term.factors)]
        pairs += [(term.sum_of_squares, row["sum_sq"]), (term.df, row["df"])]
        pairs += [(term.f or 0.0, row["F"]), (term.p or 0.0, row["PR(>F)"])]
    return max(off(float(ours), float(theirs)) for ours, theirs in pairs)


def of_effects(found: Analysis, fitted: Any) -> list[float]:
    """Patsy codes the first level 1: an odd number of factors turns the sign."""
    worst = []
    for at, term in enumerate(found.terms, start=1):
        if term.effect is None or term.effect_low is None or term.effect_high is None:
            continue
        sign = -1 if len(term.factors) % 2 else 1
        low, high = sorted(sign * each for each in fitted.conf_int(1 - found.confidence).iloc[at])
        ours = (term.effect, term.effect_low, term.effect_high)
        worst.append(max(map(off, ours, (sign * fitted.params.iloc[at], low, high))))
    return worst


def folds() -> list[float]:
    dice = random.Random(0)
    seen = [Configuration("f", "gpu", dice.choice([1, 2, 4]), dice.choice([16, 32, 64]), 1, 1000) for _ in range(60)]
    y = np.array([each.batch_size / each.gpus + dice.gauss(0, 1) for each in seen])
    columns = np.array([[each.gpus, each.batch_size] for each in seen], float)
    points = list(dict.fromkeys(seen))
    theirs = cross_val_predict(
        make_pipeline(StandardScaler(), LinearRegression()), columns, y, groups=[points.index(each) for each in seen],
        cv=GroupKFold(FOLDS, shuffle=True, random_state=0),
    )  # fmt: skip
    ours = out_of_fold(TIME_MODELS["linear"], seen, y, point_folds(seen))
    return [off(a, b) for a, b in zip(ours.tolist(), theirs.tolist(), strict=True)]
