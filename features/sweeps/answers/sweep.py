"""Responses with sweeps and their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field
from sqlalchemy import Row

from schedulearn.api.answers.model import AnswerModel, At
from schedulearn.features.sweeps.experiment_spec import Design
from schedulearn.features.sweeps.spec import Kind, PruneMethod
from schedulearn.features.sweeps.steps import SweepProgress, SweepReason, SweepState
from schedulearn.scheduler.core.states import JobState


class SweepCounts(AnswerModel):
    """Number of runs in each state."""

    pending: int = Field(description="runs without a job yet")
    active: int = Field(description="runs whose job waits or runs")
    succeeded: int
    failed: int = Field(description="runs that failed or reached a time limit")
    cancelled: int
    pruned: int = Field(description="runs that ended early because of their metric")


class ObjectiveOut(AnswerModel):
    name: str
    goal: Literal["min", "max"]


class SweepOut(AnswerModel):
    id: str
    name: str
    user: str
    state: SweepState
    reason: SweepReason
    message: str = Field(description="reason for its state, as a sentence")
    parameters: list[str]
    runs: int = Field(description="number of runs")
    trials: int = Field(description="number of runs once a search has added all")
    search: Kind | None = Field(description="how runs choose their parameters; null: as the grid, list or seed says")
    prune: PruneMethod | None = Field(description="rule that ends runs early; null: none")
    counts: SweepCounts
    max_parallel: int
    max_failures: int | None
    metric: ObjectiveOut
    design: Design | Literal["search"] | None = Field(description="null: an ordinary sweep")
    replications: int = Field(description="number of runs of each point")
    created_at: At
    finished_at: At | None

    @classmethod
    def of(cls, row: Row[Any], progress: SweepProgress, parameters: Sequence[str], **more: object) -> Self:
        design: Mapping[str, Any] = row.design or {}
        return cls.model_validate(
            {
                **{name: getattr(row, name) for name in _AS_STORED},
                "design": design.get("design"),
                "replications": design.get("replications", 1),
                "state": row.state,
                "trials": row.spec.get("trials", row.runs),
                "parameters": parameters,
                "counts": SweepCounts.model_validate(progress),
                "metric": row.spec["metric"],
                **more,
            }
        )


_AS_STORED = (
    *("id", "name", "user", "reason", "message", "runs", "max_parallel", "max_failures", "search", "prune"),
    *("created_at", "finished_at"),
)


class SweepPage(AnswerModel):
    items: list[SweepOut]
    next: str | None = Field(description="value of `cursor` for the next page; null on the last")


class RunOut(AnswerModel):
    number: int
    params: dict[str, bool | int | float | str]
    job: str | None = Field(description="ID of the job; null: none yet")
    tries: int = Field(description="number of jobs so far")
    state: JobState | Literal["pending", "deleted", "pruned"] = Field(
        description="state of its job. pending: it has no job yet; deleted: its job was deleted; pruned: it ended "
        "early because of its metric"
    )
    message: str
    exit_code: int | None
    started_at: At | None
    finished_at: At | None
    last: float | None = Field(description="last logged value of the metric; null: none")
    best: float | None = Field(description="best logged value of the metric; null: none")

    @classmethod
    def of(cls, row: Row[Any], goal: str, sweep: SweepState, **more: object) -> Self:
        if row.job_id is None:
            state = "pending" if sweep is SweepState.RUNNING else JobState.CANCELLED.value
        else:
            state = "deleted" if row.state is None else row.state.value
            if row.pruned and row.state is JobState.CANCELLED:
                state = "pruned"
        return cls.model_validate(
            {
                "number": row.number,
                "params": row.params,
                "job": row.job_id,
                "tries": row.tries,
                "state": state,
                "message": row.message or "",
                "exit_code": row.exit_code,
                "started_at": row.started_at,
                "finished_at": row.finished_at,
                "last": row.last,
                "best": row.highest if goal == "max" else row.lowest,
                **more,
            }
        )


class SweepDetail(SweepOut):
    job: dict[str, object] = Field(description="keys shared by all runs; values in `env` are masked")
    best: RunOut | None = Field(description="best run; null: no run has logged the metric")
    logged: list[str] = Field(description="names of the metrics that the runs of this page have logged")
    table: list[RunOut]
    next: int | None = Field(description="value of `after` for the next page of the table; null on the last")
