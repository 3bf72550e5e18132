"""Responses to workers, and the profile of a job's speed."""

from __future__ import annotations

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel, At


class ReportAnswer(AnswerModel):
    models: dict[str, dict[str, float]] = Field(description="GPU type -> fitted step-time model; empty: none yet")
    gpu_type: str | None = Field(description="GPU type of the latest measurement of the job")
    use_efficiency: bool = Field(
        description="false under thesis-speed, which chooses the batch size for throughput alone"
    )


class RosterOut(AnswerModel):
    generation: int
    members: list[int] = Field(description="members in the order of their ranks in training")
    meeting: str = Field(description="rendezvous, as address:port; empty: not known yet")


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
    relative_error: float = Field(description="root mean square relative error over the observations")


class PredictionOut(AnswerModel):
    num_gpus: int
    num_nodes: int
    throughput: float = Field(description="samples per second at the best batch size")
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


class LoggedProgressOut(AnswerModel):
    """Progress that the service read from the job's log."""

    epoch: int = Field(description="completed epochs")
    epochs: int = Field(description="1: the script counts only steps")
    position: int = Field(description="completed steps of this epoch")
    epoch_steps: int = Field(description="0: the script counts only epochs")
    fraction: float = Field(description="progress from 0 to 1")


class ProfileOut(AnswerModel):
    """Measurements of a job, and derived values.

    Lists are empty and values null before the first report."""

    reported_at: At | None
    observations: list[ObservationOut]
    noise_scale: float | None
    fits: list[FitOut]
    predictions: list[PredictionOut]
    knee: int | None = Field(
        description="maximum GPUs of which the last adds at least half of the throughput of the first"
    )
    batch: BatchOut | None
    progress: ProgressOut | None
    logged_progress: LoggedProgressOut | None = Field(
        description="progress in the log of the current attempt; null: none, or its workers report it"
    )
    metrics: dict[str, list[list[float]]] = Field(description="name -> [step, value, seconds since the epoch]")
    metrics_from_log: list[str] = Field(description="names of the metrics that were read from the job's log")
