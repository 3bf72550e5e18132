"""Response to a request that fails."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class FieldError(BaseModel):
    field: str
    message: str
    type: str


class Problem(BaseModel):
    """RFC 9457 problem document. `code` is stable and for machines."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldError] | None = None
    reference: str | None = Field(
        default=None, description="reference of an internal error, which the service's log repeats"
    )


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route for these statuses."""
    return {status: {"model": Problem} for status in statuses}
