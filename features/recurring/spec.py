"""Specification of a schedule: a job, and when it is submitted."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schedulearn.scheduler.core.plain_errors import first_fault
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.specs.cron import CronText, ZoneName
from schedulearn.scheduler.specs.job import JobSpec

_ONCE = ("after", "deadline", "start_after")
"""Keys that name jobs or times of one run."""


class Overlap(StrEnum):
    """What happens at a time when the previous run has not ended."""

    SKIP = "skip"
    QUEUE = "queue"


class ScheduleSpec(BaseModel):
    """Schedule of `POST /api/v1/schedules`."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    every: CronText = Field(
        description='cron expression of five fields: minute, hour, day of the month, month, day of the week. "0 3 * * '
        '*": each day at 3:00'
    )
    time_zone: ZoneName | None = Field(
        default=None, description="time zone of the expression, as in Europe/Berlin; default: that of the service"
    )
    overlap: Overlap = Field(
        default=Overlap.SKIP,
        description="if the previous run has not ended. skip: the run is missed; queue: it waits for that end, and "
        "further runs are missed meanwhile",
    )
    job: dict[str, Any] = Field(
        description="keys of POST /jobs. `after`, `deadline` and `start_after` are not allowed, since they name one run"
    )


def job_of(keys: Mapping[str, Any], user: str) -> JobSpec:
    """Return the job of a run. Raises InvalidError."""
    if given := [name for name in _ONCE if name in keys]:
        raise InvalidError(
            f"a recurring job can't have {given[0]}, which is good for one run: leave it out", field=f"job.{given[0]}"
        )
    try:
        return JobSpec.model_validate({**keys, "user": user})
    except ValidationError as error:
        fault = first_fault(error, JobSpec)
        where = f"job.{fault.field}" if fault.field else "job"
        raise InvalidError(f"{where}: {fault.message}", field=where) from error
