"""Parameters and bodies of requests.

`scheduler.specs` has those that users also write into files.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from starlette.requests import Request

from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.specs.texts import Text, whole
from schedulearn.scheduler.specs.where import MAX_LABELS, check_label

_KEY = {"type": "string", "minLength": 1, "maxLength": 200}
WITH_KEY: dict[str, Any] = {
    "parameters": [{"name": "Idempotency-Key", "in": "header", "required": False, "schema": _KEY}]
}
"""OpenAPI part of a route that uses the `idempotency_key` of a request."""
RowId = Annotated[int, Field(ge=0, le=(1 << 63) - 1)]
"""ID that the database may have assigned."""


def idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key of a request. Raises InvalidError if it is empty or too long."""
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= 200:
        raise InvalidError("an Idempotency-Key has 1 to 200 characters", field="Idempotency-Key")
    return key


class PolicyIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    algorithm: str = Field(max_length=200)
    metric: str = Field(default="default", max_length=200)
    params: dict[str, object] = Field(default_factory=dict)


class DrainIn(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    deadline_s: float = Field(default=3600.0, ge=0, le=3.2e7, description="seconds until rigid jobs are stopped too")


class HostLabelsIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    labels: dict[Text, Text | None] = Field(
        min_length=1, max_length=MAX_LABELS, description="labels to set; null removes one"
    )

    @field_validator("labels")
    @classmethod
    def _named(cls, labels: dict[str, str | None]) -> dict[str, str | None]:
        for key, value in labels.items():
            if value is not None:
                check_label(key, value)
        return labels


class PriorityIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    priority: Annotated[int, Field(ge=0, le=100), BeforeValidator(whole)]
