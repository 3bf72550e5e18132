"""Responses about the policy in force, and what another would do."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schedulearn.api.answers.job import EtaOut
from schedulearn.api.answers.model import AnswerModel, At


class ParameterOut(AnswerModel):
    type: str
    default: object
    description: str
    choices: list[str] = Field(description="allowed values, if there are only a few; else empty")


class PolicyKind(AnswerModel):
    name: str
    metrics: list[str]
    description: str
    parameters: dict[str, ParameterOut]


class PolicyOut(AnswerModel):
    algorithm: str
    metric: str
    params: dict[str, object]
    since: At | None
    problem: str = Field(description="reason why the policy can't decide now; empty: none")
    available: list[PolicyKind]


class ChoiceOut(AnswerModel):
    at: At
    algorithm: str
    metric: str
    params: dict[str, object]


class ChangeOut(AnswerModel):
    job: str
    name: str
    action: Literal["start", "grow", "shrink", "move", "wait", "pause"]
    before: dict[str, int] = Field(description="host -> number of GPUs held now")
    after: dict[str, int]
    code: str
    reason: str


class TotalsOut(AnswerModel):
    """Figures of the current jobs that can run, from now to `until`."""

    mean_completion: float | None = Field(
        description="seconds from submission to end; unfinished jobs count up to the end of the simulation"
    )
    median_wait: float | None = Field(
        description="seconds from submission to start; jobs that did not start count up to the end of the simulation"
    )
    p90_wait: float | None = Field(description="90th percentile of the wait")
    gpu_hours: float | None = Field(description="null, as the other figures: not simulated so far, see `cut`")
    host_hours: float | None = Field(description="sum of the hours in which hosts hold jobs")
    ended: int | None = Field(description="jobs that end within the simulation")
    changes: int | None = Field(description="jobs that the policy would change at once")
    cut: Literal["", "horizon", "time", "events"] = Field(
        description="end of the simulation: empty: all jobs have ended; horizon: the requested hours were simulated; "
        "time: computing took too long; events: too many events. The last two leave no figures"
    )


class JobPreview(AnswerModel):
    job: str
    name: str
    now: EtaOut | None
    then: EtaOut | None


class PreviewOut(AnswerModel):
    """Simulations of the policy in force (`now`) and another (`then`).

    Both begin with the current state."""

    until: At = Field(description="end of the simulated period")
    algorithm: str
    metric: str
    changes: list[ChangeOut] = Field(description="changes at once")
    unchanged: int = Field(description="jobs without a change")
    now: TotalsOut
    then: TotalsOut
    jobs: list[JobPreview]


class ComparedPolicy(AnswerModel):
    algorithm: str
    metric: str
    params: dict[str, object]
    in_force: bool
    problem: str = Field(description="reason why the policy could not be simulated; empty: none")
    totals: TotalsOut | None


class ComparisonOut(AnswerModel):
    """Simulations of all policies, from the same state and over the same time."""

    until: At
    jobs: int = Field(description="number of simulated jobs")
    left_out: int = Field(
        description="jobs among them that can't run with this cluster and these quotas; the figures ignore them"
    )
    beyond: int = Field(description="jobs beyond the limit of 500, which are not simulated; jobs with GPUs always are")
    policies: list[ComparedPolicy] = Field(
        description="the policy in force first; the others with their default parameters"
    )


class ReplayHost(AnswerModel):
    id: str
    gpus: int
    gpu_type: str


class ReplayOut(AnswerModel):
    """Trace of past jobs, and the current hosts.

    docs/simulator.md describes the format."""

    applications: dict[str, dict[str, object]]
    jobs: list[dict[str, object]]
    hosts: list[ReplayHost]
