"""Responses with experiments, searches and their analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field
from sqlalchemy import Row

from schedulearn.api.answers.model import AnswerModel
from schedulearn.features.sweeps.answers.sweep import RunOut, SweepOut
from schedulearn.features.sweeps.experiment_spec import factors_of
from schedulearn.features.sweeps.models.configurations import TrialOutcome, best_of, curve, knee
from schedulearn.features.sweeps.searcher import outcome_of
from schedulearn.features.sweeps.spec import parameters_of
from schedulearn.features.sweeps.steps import SweepProgress

if TYPE_CHECKING:
    from schedulearn.features.sweeps.models.anova import Analysis

Level = bool | int | float | str


class ExperimentOut(SweepOut):
    """Sweep with factors.

    `POST /sweeps/{id}/cancel` cancels it, `POST /sweeps/{id}/retry` runs unsuccessful runs again."""

    factors: list[str]

    @classmethod
    def shown(cls, row: Row[Any], progress: SweepProgress, **more: object) -> Self:
        parameters = parameters_of(row.spec)
        return cls.of(row, progress, parameters, factors=factors_of(row.design, parameters), **more)


class ExperimentPage(AnswerModel):
    items: list[ExperimentOut]
    next: str | None = Field(description="value of `cursor` for the next page; null on the last")


class TrialOut(RunOut):
    results: dict[str, float] | None = Field(
        description="results by name; null: it has not ended; empty: it did not succeed"
    )


class ExperimentDetail(ExperimentOut):
    responses: list[str] = Field(description="names of the measured responses of the runs on this page")
    table: list[TrialOut]
    next: int | None = Field(description="value of `after` for the next page of the table; null on the last")


class CellOut(AnswerModel):
    levels: dict[str, Level]
    runs: int
    mean: float
    low: float | None = Field(description="lower bound of the interval of the mean; null: unknown for a single run")
    high: float | None


class TermOut(AnswerModel):
    factors: list[str] = Field(description="one factor, or several that interact")
    df: int = Field(description="degrees of freedom")
    sum_of_squares: float
    share: float = Field(description="share of the total variation")
    f: float | None = Field(description="F statistic; null: there is no error variance to compare with")
    p: float | None = Field(description="p-value: probability of such a large share by chance")
    effect: float | None = Field(description="half the difference between two levels; null: not a complete 2^k design")
    effect_low: float | None
    effect_high: float | None


class AnalysisOut(AnswerModel):
    """Analysis of variance with type II sums of squares.

    It also has the mean of each point."""

    response: str
    responses: list[str] = Field(description="all available responses")
    runs: int = Field(description="number of runs that have this response")
    mean: float
    total: float = Field(description="total sum of squares around the mean")
    error: float = Field(description="sum of squares that no term explains")
    error_df: int
    r2: float
    confidence: float
    cells: list[CellOut]
    terms: list[TermOut]

    @classmethod
    def of(cls, response: str, responses: Sequence[str], found: Analysis) -> Self:
        return cls.model_validate({**found._asdict(), "response": response, "responses": responses})


class ConfigurationOut(AnswerModel):
    gpu_type: str | None = Field(description="null: any type")
    required_gpus: int
    batch_size: int | None = Field(description="null: the job's own")


class TriedOut(ConfigurationOut):
    run_time: float = Field(description="run time, seconds")
    cost: float = Field(description="cost by the setting gpu_prices, else GPU-seconds")


class SearchTrialOut(ConfigurationOut):
    number: int
    job: str | None = Field(description="ID of the job; null: it was deleted")
    run_time: float | None = Field(description="run time, seconds; null: it failed")
    cost: float | None = Field(description="cost by the setting gpu_prices, else GPU-seconds; null: it failed")
    value: float | None = Field(description="value to minimize, by the goal; null: it failed")
    gain: float | None = Field(description="expected gain, as a share of the best value before it; null: unknown")


class SearchOut(ExperimentOut):
    """Sweep to which trials are added one by one.

    `POST /sweeps/{id}/cancel` cancels it."""

    goal: Literal["time", "cost", "both"]
    configurations: int = Field(description="number of configurations to search")
    trials: int = Field(description="maximum number of trials")
    why: str = Field(description="reason why the search ended; empty: it continues, or was cancelled")
    gain: float | None = Field(description="expected gain of the next trial, as a share of the best value")
    found: ConfigurationOut | None = Field(
        description="best configuration; null: the search continues, or no trial succeeded"
    )
    tried: list[SearchTrialOut] = Field(description="ended trials, oldest first")
    best: TriedOut | None = Field(description="best trial so far")
    curve: list[TriedOut] = Field(
        description="Pareto front of time and cost: trials that no other trial beats in both, fastest first"
    )
    knee: TriedOut | None = Field(description="knee of the curve: less time would cost much more")

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
            tried=[_search_trial(run, outcomes[run.number], design) for run in runs if run.results is not None],
            best=None if best is None else tried[best],
            curve=[tried[number] for number in curve(outcomes)],
            knee=None if bend is None else tried[bend],
        )


def _configuration(params: Mapping[str, Any]) -> ConfigurationOut:
    return ConfigurationOut(
        gpu_type=params.get("gpu_type"), required_gpus=params["required_gpus"], batch_size=params.get("batch_size")
    )


def _tried(params: Mapping[str, Any], outcome: TrialOutcome) -> TriedOut:
    return TriedOut(
        **_configuration(params).model_dump(), run_time=outcome.seconds, cost=outcome.seconds * outcome.price
    )


def _search_trial(run: Row[Any], outcome: TrialOutcome | None, design: Mapping[str, Any]) -> SearchTrialOut:
    gains = design.get("gains", [])  # searches of earlier versions have none
    return SearchTrialOut(
        **_configuration(run.params).model_dump(),
        number=run.number,
        job=run.job_id,
        run_time=None if outcome is None else outcome.seconds,
        cost=None if outcome is None else outcome.seconds * outcome.price,
        value=None if outcome is None else outcome.value(design["goal"]),
        gain=gains[run.number - 1] if run.number <= len(gains) else None,
    )


class DefaultOut(ConfigurationOut):
    """Configuration found by the newest search for jobs of a family."""

    family: str
    search: str = Field(description="ID of the search")
