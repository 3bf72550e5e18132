"""Optuna study that is rebuilt from the trials of a sweep. Pure.

The database holds the trials, and a study lives only for one question. Import this module only in child processes:
the service itself never loads Optuna.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial, TrialState, create_trial

Value = bool | int | float | str
Point = tuple[int, float]
"""Step and value of one report."""

STARTUP_TRIALS = 8
"""Random trials before TPE uses their values. Chosen by `python -m bench.training.tuning`."""
_BITS = 31
_ROUNDING = 1e-9
_LARGEST_COUNT = 1 << 40


class Outcome(StrEnum):
    RUNNING = "running"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"


class Axis(NamedTuple):
    """Values that one parameter may have: choices, or a range of numbers."""

    choices: Sequence[Value] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    log: bool = False
    step: float | None = None

    def distribution(self) -> BaseDistribution:
        """Return the distribution. Choices and steps are numbered.

        Optuna holds 1 and true for equal, and rounds steps in its own way."""
        if self.choices:
            return CategoricalDistribution(range(len(self.choices)))
        if self.step is not None:
            return IntDistribution(0, math.floor((self.high - self.low) / self.step + _ROUNDING))
        if self._is_counted:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)

    @property
    def _is_counted(self) -> bool:
        """Whether floating-point numbers can tell these whole numbers apart, as Optuna needs."""
        return self.whole and max(abs(self.low), abs(self.high)) < _LARGEST_COUNT

    def as_stored(self, found: object) -> Value:
        """Return a value that Optuna chose as it is written in the sweep."""
        if self.choices:
            return self.choices[int(str(found))]
        if self.step is not None:
            value = self.low + int(str(found)) * self.step
            return int(value) if self.whole else min(float(f"{value:.12g}"), float(self.high))
        if self.whole:
            return min(max(round(float(str(found))), int(self.low)), int(self.high))
        return min(max(float(f"{float(str(found)):.6g}"), float(self.low)), float(self.high))

    def as_chosen(self, stored: Value) -> int | float:
        """Return the value for Optuna. Reverse of `as_stored`."""
        if self.choices:
            kind = type(stored)
            return next(i for i, each in enumerate(self.choices) if each == stored and type(each) is kind)
        if self.step is not None:
            return round((float(stored) - self.low) / self.step)
        return int(stored) if self._is_counted else float(stored)


class TrialRecord(NamedTuple):
    """Trial as the database holds it."""

    params: Mapping[str, Value]
    outcome: Outcome
    value: float | None = None
    """Best value; only of complete trials."""
    points: Sequence[Point] = ()
    """Reports, oldest first."""
    attrs: Mapping[str, str | int | list[float]] = {}
    """What the sampler stored with the trial. CMA-ES has its distribution there."""


class Pruning(NamedTuple):
    """Rule that ends trials early."""

    method: str
    """`asha`, `hyperband` or `median`."""
    min_step: int | None = None
    """First step at which a trial may end; None: one percent of the longest complete trial."""
    factor: int | None = None
    """Of `factor` trials one goes on from each rung; None: 4 with `asha`, 3 with `hyperband`."""


class Suggestion(NamedTuple):
    params: Mapping[str, Value]
    attrs: Mapping[str, str | int | list[float]]


class Study:
    """Trials of one sweep, for one question."""

    def __init__(
        self,
        name: str,
        axes: Mapping[str, Axis],
        trials: Sequence[TrialRecord],
        *,
        highest: bool,
        sampler: str | None = None,
        seed: int = 0,
        pruning: Pruning | None = None,
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._axes = axes
        self._trials = trials
        self._pruning = pruning
        self._longest = max((trial.points[-1][0] for trial in trials if _tells_length(trial)), default=0)
        self._first_step = pruning and (pruning.min_step or max(1, self._longest // 100))
        self._study = optuna.create_study(
            study_name=name,
            direction="maximize" if highest else "minimize",
            sampler=_sampler(sampler, (seed * 1_000_003 + len(trials)) % (1 << _BITS)),
            pruner=self._pruner(),
        )

    def suggest(self, count: int) -> list[Suggestion]:
        """Return the parameters of the next `count` trials. The same trials always give the same ones."""
        for trial in self._trials:
            self._study.add_trial(self._frozen(trial))
        made = []
        for _ in range(count):
            asked = self._study.ask({name: axis.distribution() for name, axis in self._axes.items()})
            params = {name: axis.as_stored(asked.params[name]) for name, axis in self._axes.items()}
            made.append(Suggestion(params, self._study.get_trials(deepcopy=False)[-1].system_attrs))
        return made

    def bad(self, judged: Mapping[int, int]) -> dict[int, int]:
        """Return trial -> step for running trials that should end.

        `judged`: index of each running trial to judge -> last step that was judged before. Nothing ends before one
        trial is complete, unless the first step is given: the length of a trial is unknown until then."""
        if self._pruning is None or (not self._longest and self._pruning.min_step is None):
            return {}
        steps = {trial.points[-1][0] for i, trial in enumerate(self._trials) if i in judged and trial.points}
        found = {}
        for index, trial in sorted(enumerate(self._trials), key=lambda each: each[0] in judged):
            step = self._replay(trial, judged.get(index), steps)
            if step is not None:
                found[index] = step
        return found

    def _replay(self, record: TrialRecord, judged: int | None, steps: set[int]) -> int | None:
        """Report the points of a trial as they came; return the step at which it should end.

        `judged`: None for trials that aren't judged."""
        self._study.add_trial(self._frozen(record._replace(outcome=Outcome.RUNNING, points=(), value=None)))
        trial = Trial(self._study, self._study.get_trials(deepcopy=False)[-1]._trial_id)
        ends = None
        for step, value, decides in self._reports(record.points, judged, steps):
            trial.report(value, step)
            if decides and trial.should_prune() and judged is not None and step > judged:
                ends = step
                break
        if record.outcome is Outcome.COMPLETE:
            self._study.tell(trial, record.value)
        elif record.outcome is not Outcome.RUNNING:
            pruned = record.outcome is Outcome.PRUNED and record.points
            self._study.tell(trial, state=TrialState.PRUNED if pruned else TrialState.FAIL)
        return ends

    def _reports(
        self, points: Sequence[Point], judged: int | None, steps: set[int]
    ) -> Iterator[tuple[int, float, bool]]:
        """Yield step, value, and whether the pruner decides there.

        Rungs are at `first_step` times the powers of `factor`. The median is compared at the steps of the judged
        trials, at which others have their last value before."""
        assert self._pruning is not None
        first = self._first_step or 1
        if self._pruning.method == "median":
            if judged is not None:
                yield from ((step, value, (step, value) == points[-1]) for step, value in points)
            else:
                yield from ((step, value, False) for step, value in _at(points, sorted(steps)))
            return
        rung = first
        for step, value in points:
            decides = step >= rung
            while rung <= step:
                rung *= self._factor
            yield step, value, decides

    @property
    def _factor(self) -> int:
        assert self._pruning is not None
        return self._pruning.factor or (4 if self._pruning.method == "asha" else 3)

    def _pruner(self) -> optuna.pruners.BasePruner:
        if self._pruning is None or self._first_step is None:
            return optuna.pruners.NopPruner()
        first = self._first_step
        match self._pruning.method:
            case "asha":
                return optuna.pruners.SuccessiveHalvingPruner(min_resource=first, reduction_factor=self._factor)
            case "hyperband":
                longest = max(first, self._longest)
                return optuna.pruners.HyperbandPruner(first, longest, reduction_factor=self._factor)
        return optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=first - 1)

    def _frozen(self, trial: TrialRecord) -> optuna.trial.FrozenTrial:
        points = dict(trial.points)
        state = {
            Outcome.COMPLETE: TrialState.COMPLETE,
            Outcome.PRUNED: TrialState.PRUNED if points else TrialState.FAIL,
            Outcome.FAILED: TrialState.FAIL,
            Outcome.RUNNING: TrialState.RUNNING,
        }[trial.outcome]
        value = trial.value if state is TrialState.COMPLETE else None
        if state is TrialState.PRUNED:
            value = trial.points[-1][1]
        return create_trial(
            state=state,
            value=value,
            params={name: axis.as_chosen(trial.params[name]) for name, axis in self._axes.items()},
            distributions={name: axis.distribution() for name, axis in self._axes.items()},
            intermediate_values=points,
            system_attrs=dict(trial.attrs),
        )


def _tells_length(trial: TrialRecord) -> bool:
    return trial.outcome is Outcome.COMPLETE and bool(trial.points)


def _at(points: Sequence[Point], steps: Sequence[int]) -> Iterator[Point]:
    """Yield the last value at each step, from the first report on, and no further than the last one."""
    for step in steps:
        known = [value for at, value in points if at <= step]
        if known and points[-1][0] >= step:
            yield step, known[-1]


def _sampler(name: str | None, seed: int) -> optuna.samplers.BaseSampler:
    if name == "tpe":
        with warnings.catch_warnings():  # Optuna calls `multivariate` experimental
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=True, constant_liar=True
            )
    if name == "cmaes":
        return optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
    return optuna.samplers.RandomSampler(seed=seed)
