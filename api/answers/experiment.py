"""Experiments, what their runs came to, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field
from sqlalchemy import Row

from schedulearn.api.answers.model import AnswerModel
from schedulearn.api.answers.sweep import RunOut, SweepOut
from schedulearn.scheduler.core.sweeps import SweepProgress
from schedulearn.scheduler.specs.experiment import Design, factors_of
from schedulearn.scheduler.specs.sweep import parameters_of

if TYPE_CHECKING:
    from schedulearn.scheduler.advisor.anova import Analysis

Level = bool | int | float | str


class ExperimentOut(SweepOut):
    """A sweep with factors: `POST /sweeps/{id}/cancel` ends it, `POST /sweeps/{id}/retry` tries again what failed."""

    factors: list[str]
    design: Design | Literal["search"] | None = Field(description="null: it was started as a sweep")
    replications: int = Field(description="how often each point is tried")

    @classmethod
    def shown(cls, row: Row[Any], progress: SweepProgress, **more: object) -> Self:
        parameters = parameters_of(row.spec)
        design: Mapping[str, Any] = row.design or {}
        return cls.of(
            row,
            progress,
            parameters,
            factors=factors_of(row.design, parameters),
            design=design.get("design"),
            replications=design.get("replications", 1),
            **more,
        )


class ExperimentPage(AnswerModel):
    items: list[ExperimentOut]
    next: str | None = Field(description="give it as `cursor` for the next page; null on the last")


class TrialOut(RunOut):
    results: dict[str, float] | None = Field(
        description="what it came to, by name; null: it has not ended; empty: it did not succeed"
    )


class ExperimentDetail(ExperimentOut):
    responses: list[str] = Field(description="what the runs of this page were measured by")
    table: list[TrialOut]
    next: int | None = Field(description="give it as `after` for the next page of the table; null on the last")


class CellOut(AnswerModel):
    levels: dict[str, Level]
    runs: int
    mean: float
    low: float | None = Field(description="of the interval of the mean; null: one run tells nothing of its spread")
    high: float | None


class TermOut(AnswerModel):
    factors: list[str] = Field(description="several: they act together")
    df: int = Field(description="degrees of freedom")
    sum_of_squares: float
    share: float = Field(description="of all variation")
    f: float | None = Field(description="null: there is no noise to compare with")
    p: float | None = Field(description="how likely so large a share is by chance alone")
    effect: float | None = Field(
        description="half the difference that two levels make; null: not a complete 2^k design"
    )
    effect_low: float | None
    effect_high: float | None


class AnalysisOut(AnswerModel):
    """An analysis of variance with sums of squares of type II, and the mean of each point."""

    response: str
    responses: list[str] = Field(description="what else could be asked for")
    runs: int = Field(description="that have this response")
    mean: float
    total: float = Field(description="sum of squares around the mean")
    error: float = Field(description="the part of it that no term explains")
    error_df: int
    r2: float
    confidence: float
    cells: list[CellOut]
    terms: list[TermOut]

    @classmethod
    def of(cls, response: str, responses: Sequence[str], found: Analysis) -> Self:
        return cls.model_validate({**found._asdict(), "response": response, "responses": responses})
