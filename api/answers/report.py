"""Responses to workers, and the profile of a job's speed."""

from __future__ import annotations

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel, At


class ReportAnswer(AnswerModel):
    models: dict[str, dict[str, float]] = Field(description="GPU type -> fitted step-time model; empty: none yet")
    gpu_type: str | None = Field(description="the one that the job was measured on last")
    use_efficiency: bool = Field(description="false under thesis-speed: the batch is chosen for throughput alone")


class RosterOut(AnswerModel):
    generation: int
    members: list[int] = Field(description="in the order of their ranks in training")
    meeting: str = Field(description="address:port where the first one waits for the others; empty: nowhere yet")


class ObservationOut(AnswerModel):
    gpu_type: str
    num_nodes: int
    num_gpus: int
    atomic_batch: int
    passes: int
    grad_time: float
    iter_time: float


class FitOut(AnswerModel):
    gpu_type: str
    parameters: dict[str, float]
    relative_error: float = Field(description="root mean square over the observations")


class PredictionOut(AnswerModel):
    num_gpus: int
    num_nodes: int
    throughput: float = Field(description="samples a second, at the best batch")
    goodput: float
    atomic_batch: int
    accumulation: int


class BatchOut(AnswerModel):
    init: int = Field(validation_alias="init_batch")
    max: int = Field(validation_alias="max_batch")
    min_local: int
    max_local: int | None
    accumulate: bool
    atomic: int = Field(validation_alias="atomic_batch")
    accumulation: int
    why: str


class ProgressOut(AnswerModel):
    epoch: int
    epochs: int | None
    position: int
    epoch_samples: int
    steps: int


class ProfileOut(AnswerModel):
    """What was measured of a job, and what follows from it. Empty lists and nulls until it has reported."""

    reported_at: At | None
    observations: list[ObservationOut]
    noise_scale: float | None
    fits: list[FitOut]
    predictions: list[PredictionOut]
    knee: int | None = Field(description="the last GPU that adds at least half of what the first one does")
    batch: BatchOut | None
    progress: ProgressOut | None
    metrics: dict[str, list[list[float]]] = Field(description="name -> [step, value, seconds since the epoch]")
