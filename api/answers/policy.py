"""The policy in force, and what another would do."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schedulearn.api.answers.job import EtaOut
from schedulearn.api.answers.model import AnswerModel, At


class ParameterOut(AnswerModel):
    type: str
    default: object
    description: str


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
    mean_completion: float | None = Field(
        description="seconds from submission to end, over the jobs whose end is foreseen under both policies"
    )
    gpu_hours: float = Field(description="from now on")
    host_hours: float = Field(description="hours from now on for which hosts hold jobs, added up")
    ended: int = Field(description="jobs whose end is foreseen")
    until: At | None = Field(description="up to when it was looked at; null: to the end")
    cut: Literal["", "horizon", "time", "events"] = Field(
        description="why no further: a week is over, the time to compute is, or too much happens until then"
    )


class JobPreview(AnswerModel):
    job: str
    name: str
    now: EtaOut | None
    then: EtaOut | None


class PreviewOut(AnswerModel):
    """The policy in force (`now`) and the one asked for (`then`), played on from the present state."""

    algorithm: str
    metric: str
    changes: list[ChangeOut] = Field(description="what would happen at once")
    unchanged: int = Field(description="jobs to which nothing would")
    now: TotalsOut
    then: TotalsOut
    jobs: list[JobPreview]


class ReplayHost(AnswerModel):
    id: str
    gpus: int
    gpu_type: str


class ReplayOut(AnswerModel):
    """A trace, as docs/simulator.md describes it, and the hosts that there are."""

    applications: dict[str, dict[str, object]]
    jobs: list[dict[str, object]]
    hosts: list[ReplayHost]
