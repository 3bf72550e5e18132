"""The analysis of variance beside statsmodels, and cross-validation beside scikit-learn, on random designs."""

from __future__ import annotations

import importlib
import itertools
import random
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.measured_service import verdict
from schedulearn.scheduler.advisor.anova import Analysis, Trial, analyze
from schedulearn.scheduler.advisor.models import FOLDS, TIME_MODELS, out_of_fold, point_folds
from schedulearn.scheduler.advisor.samples import Configuration

AGREE = 1e-6
"""Largest difference, as a share of the reference's figure."""


def main(designs: float = 100) -> bool:
    try:
        api = importlib.import_module("statsmodels.formula.api")
        anova_lm = importlib.import_module("statsmodels.stats.anova").anova_lm
    except ModuleNotFoundError:
        print("  needs statsmodels, which the project does not: pip install statsmodels")
        return False
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


def agreement(what: str, off: list[float]) -> bool:
    most = max(off, default=float("inf"))
    return verdict(what, f"{most:.1e}", f"<= {AGREE:.0e}", most <= AGREE)


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
