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
    choices: list[str] = Field(description="its values, where it has only a few; else empty")


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
    problem: str = Field(description="why the policy does not decide now; empty if all is well")
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
    before: dict[str, int] = Field(description="host -> GPUs held now")
    after: dict[str, int]
    code: str
    reason: str


class TotalsOut(AnswerModel):
    """Of the jobs that there are and can run, from now to `until`."""

    mean_completion: float | None = Field(
        description="seconds from submission to end; a job that has not ended by then counts up to then"
    )
    median_wait: float | None = Field(
        description="seconds from submission to start; a job that has not started by then counts up to then"
    )
    p90_wait: float | None = Field(description="the wait that nine jobs of ten do not exceed")
    gpu_hours: float | None = Field(description="null, like the other figures: not played so far, see `cut`")
    host_hours: float | None = Field(description="hours for which hosts hold jobs, added up")
    ended: int | None = Field(description="jobs that end by then")
    changes: int | None = Field(description="jobs to which it would do something at once")
    cut: Literal["", "horizon", "time", "events"] = Field(
        description="why it was played no further: empty: all jobs have ended; the horizon was reached; "
        "the time to compute was over, or too much happens: then there are no figures"
    )


class JobPreview(AnswerModel):
    job: str
    name: str
    now: EtaOut | None
    then: EtaOut | None


class PreviewOut(AnswerModel):
    """The policy in force (`now`) and the one asked for (`then`), played on from the present state."""

    until: At = Field(description="the end of the time that the figures of both are about")
    algorithm: str
    metric: str
    changes: list[ChangeOut] = Field(description="what would happen at once")
    unchanged: int = Field(description="jobs to which nothing would")
    now: TotalsOut
    then: TotalsOut
    jobs: list[JobPreview]


class ComparedPolicy(AnswerModel):
    algorithm: str
    metric: str
    params: dict[str, object]
    in_force: bool
    problem: str = Field(description="why it could not be played; empty: it could")
    totals: TotalsOut | None


class ComparisonOut(AnswerModel):
    """All policies, played on from the same state for the same time."""

    until: At
    jobs: int = Field(description="how many there are")
    left_out: int = Field(
        description="of them, that can't run as the cluster and the quotas are: no figure counts them"
    )
    beyond: int = Field(description="further jobs, which are not played on: 500 are, and those that have GPUs")
    policies: list[ComparedPolicy] = Field(description="the one in force first; the others with their defaults")


class ReplayHost(AnswerModel):
    id: str
    gpus: int
    gpu_type: str


class ReplayOut(AnswerModel):
    """A trace, as docs/simulator.md describes it, and the hosts that there are."""

    applications: dict[str, dict[str, object]]
    jobs: list[dict[str, object]]
    hosts: list[ReplayHost]
