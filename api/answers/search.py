"""Searches for a configuration: how far they are, and what they found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field
from sqlalchemy import Row

from schedulearn.api.answers.experiment import ExperimentOut
from schedulearn.api.answers.model import AnswerModel
from schedulearn.scheduler.advisor.configurations import Outcome, best_of, curve, knee
from schedulearn.scheduler.control.experiments.searcher import outcome_of
from schedulearn.scheduler.core.sweeps import SweepProgress


class ConfigurationOut(AnswerModel):
    required_gpus: int
    batch_size: int | None = Field(description="null: the job's own")


class TriedOut(ConfigurationOut):
    run_time: float = Field(description="seconds")
    cost: float = Field(description="by the setting gpu_prices; without it, GPU-seconds")


class SearchOut(ExperimentOut):
    """A sweep to which trials are added one by one: `POST /sweeps/{id}/cancel` ends it."""

    goal: Literal["time", "cost", "both"]
    configurations: int = Field(description="among which it searches")
    trials: int = Field(description="so many at most")
    why: str = Field(description="why it tries no more; empty: it goes on, or was cancelled")
    gain: float | None = Field(description="what the next trial was expected to gain, as a share of the best")
    found: ConfigurationOut | None = Field(description="the best one; null: it goes on, or no trial succeeded")
    best: TriedOut | None = Field(description="so far")
    curve: list[TriedOut] = Field(description="what no other trial beats in both time and cost, the fastest first")
    knee: TriedOut | None = Field(description="where that curve bends most: less time would cost much more")

    @classmethod
    def of_search(cls, row: Row[Any], progress: SweepProgress, runs: Sequence[Row[Any]]) -> Self:
        design = row.design
        outcomes = {run.number: outcome_of(run.results) for run in runs}
        tried = {
            run.number: _tried(run.params, outcome) for run in runs if (outcome := outcomes[run.number]) is not None
        }
        best, bend = best_of(outcomes, design["goal"]), knee(outcomes)
        found = design["found"]
        return cls.shown(
            row,
            progress,
            goal=design["goal"],
            configurations=len(design["points"]),
            trials=design["most"],
            why=design["why"],
            gain=design["gain"],
            found=None if found is None else _configuration(found),
            best=None if best is None else tried[best],
            curve=[tried[number] for number in curve(outcomes)],
            knee=None if bend is None else tried[bend],
        )


def _configuration(params: dict[str, int]) -> ConfigurationOut:
    return ConfigurationOut(required_gpus=params["required_gpus"], batch_size=params.get("batch_size"))


def _tried(params: dict[str, int], outcome: Outcome) -> TriedOut:
    return TriedOut(
        required_gpus=params["required_gpus"],
        batch_size=params.get("batch_size"),
        run_time=outcome.seconds,
        cost=outcome.seconds * outcome.price,
    )


class DefaultOut(ConfigurationOut):
    """The configuration that the newest search for jobs of a family found."""

    family: str
    search: str = Field(description="its id")
