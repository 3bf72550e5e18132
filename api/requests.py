"""What requests give, beside what users write into files (`scheduler.specs`)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from schedulearn.scheduler.specs.texts import whole

RowId = Annotated[int, Field(ge=0, le=(1 << 63) - 1)]
"""An id that the database may have given."""


class PolicyIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    algorithm: str = Field(max_length=200)
    metric: str = Field(default="default", max_length=200)
    params: dict[str, object] = Field(default_factory=dict)


class DrainIn(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    deadline_s: float = Field(default=3600.0, ge=0, le=3.2e7, description="seconds until rigid jobs are stopped too")


class PriorityIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    priority: Annotated[int, Field(ge=0, le=100), BeforeValidator(whole)]
