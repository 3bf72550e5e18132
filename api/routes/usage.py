"""Who used how much."""

from __future__ import annotations

import csv
import io
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from schedulearn.api.answers.model import AnswerModel
from schedulearn.api.answers.problem import problems
from schedulearn.api.instants import epoch
from schedulearn.api.state import cluster_of
from schedulearn.scheduler.core.instants import Instant
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.store.usage import Usage, usage

router = APIRouter(prefix="/api/v1", tags=["usage"])
_MONTH_S = 30 * 86_400


class UsageOut(AnswerModel):
    """Parts that the report is not grouped by are empty."""

    day: str = Field(description="UTC")
    user: str
    label: str
    gpu_hours: float
    energy_kwh: float = Field(description="as far as GPUs measure it")
    cost: float = Field(description="gpu_hours x `gpu_hour_price` of the request")
    jobs: int


_CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}


@router.get("/usage", response_model=list[UsageOut], responses=problems(422) | _CSV)
def get_usage(
    request: Request,
    since: Annotated[Instant | None, Query(description="default: 30 days ago")] = None,
    until: Annotated[Instant | None, Query(description="default: now")] = None,
    by: Annotated[list[Literal["day", "user", "label"]] | None, Query(description="default: user")] = None,
    label: Annotated[str, Query(description="which label `by=label` goes by")] = "",
    gpu_hour_price: Annotated[float, Query(ge=0, le=1e6, allow_inf_nan=False)] = 0.0,
    format: Annotated[Literal["json", "csv"], Query()] = "json",  # noqa: A002 - the name of the parameter
) -> list[UsageOut] | Response:
    """GPU-hours, energy and cost of all jobs, running ones up to now."""
    now = time.time()
    end = epoch(until, now)
    begin = epoch(since, end - _MONTH_S)
    if begin >= end:
        raise InvalidError("since must be before until", field="since")
    by = by or ["user"]
    if ("label" in by) != bool(label):
        raise InvalidError("by=label needs `label`, the name of one, and `label` needs by=label", field="label")
    with cluster_of(request).db.read() as db:
        rows = [_priced(row, gpu_hour_price) for row in usage(db, begin, end, now, by=by, label=label)]
    if format == "json":
        return rows
    table = io.StringIO()
    writer = csv.DictWriter(table, list(UsageOut.model_fields))
    writer.writeheader()
    writer.writerows({key: _harmless(value) for key, value in row} for row in rows)
    return Response(table.getvalue(), media_type="text/csv")


def _priced(row: Usage, price: float) -> UsageOut:
    return UsageOut(
        day=row.day,
        user=row.user,
        label=row.label,
        gpu_hours=round(row.gpu_hours, 6),
        energy_kwh=round(row.energy_kwh, 6),
        cost=round(row.gpu_hours * price, 4),
        jobs=row.jobs,
    )


def _harmless(value: object) -> object:
    """A spreadsheet takes text that begins like this for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
