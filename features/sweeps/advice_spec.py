"""Specification of a request for advice: job, objective, and choices. Pure."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from schedulearn.features.sweeps.spec import Objective as MetricSpec
from schedulearn.scheduler.core.instants import Instant
from schedulearn.scheduler.core.plain_errors import first_fault
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.specs.job import MAX_BATCH, MAX_GPUS, JobSpec

BatchSize = Annotated[int, Field(ge=1, le=MAX_BATCH)]
GpuCount = Annotated[int, Field(ge=1, le=MAX_GPUS)]


class AdviceSpec(BaseModel):
    """Job, objective and choices of `POST /api/v1/advise`."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    job: dict[str, Any] = Field(description="keys of POST /jobs; the name may be left out")
    deadline: Instant | None = Field(
        default=None, description="time by which the job should end; default: the job's deadline"
    )
    max_response_time: float | None = Field(
        default=None, gt=0, le=3.2e8, description="maximum seconds from now to the end of the job"
    )
    metric: MetricSpec = Field(default_factory=lambda: MetricSpec(name="accuracy", goal="max"))
    target: float | None = Field(default=None, description="value that the metric should reach")
    batch_sizes: list[BatchSize] = Field(
        default_factory=list, max_length=50, description="allowed batch sizes; default: those that were tried"
    )
    gpus: list[GpuCount] = Field(
        default_factory=list,
        max_length=8,
        description="allowed numbers of GPUs; default: powers of two up to the largest number",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.deadline is not None and self.max_response_time is not None:
            raise ValueError("give a deadline or max_response_time, not both")
        return self

    def checked_job(self, **changes: object) -> JobSpec:
        """Return the job with `changes`. Raises InvalidError, which names the invalid key."""
        rigid = {"elastic", "min_gpus", "max_gpus", "resize"}  # advice is about the job's size
        keys = {key: value for key, value in self.job.items() if key not in rigid}
        try:
            return JobSpec.model_validate({"name": "advice", "required_gpus": 1, **keys, **changes})
        except ValidationError as error:
            fault = first_fault(error, JobSpec)
            field = f"job.{fault.field}" if fault.place else "job"
            raise InvalidError(f"{field}: {fault.message}", field=field) from error
