"""Routes for usage and capacity reports."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from schedulearn.api.answers.model import AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.instants import epoch
from schedulearn.api.state import cluster_of
from schedulearn.features.usage.deadlines import Kept, kept_deadlines
from schedulearn.scheduler.core.instants import Instant
from schedulearn.scheduler.core.prices import ANY_TYPE, cost_of
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.store.accounting.capacity import capacity
from schedulearn.scheduler.store.accounting.usage import Usage, gpu_types, usage
from schedulearn.scheduler.store.people.visibility import seeing_all

router = APIRouter(prefix="/api/v1", tags=["usage"])
_MONTH_S = 30 * 86_400


class UsageOut(AnswerModel):
    """Row of a report. Properties that it is not grouped by are empty."""

    day: str = Field(description="day in UTC")
    user: str
    label: str
    gpu_hours: float
    energy_kwh: float | None = Field(description="energy as far as GPUs measure it; null: none does")
    cost: float | None = Field(
        description="cost by `gpu_hour_price` of the request, else by the setting gpu_prices; null: a price is missing"
    )
    currency: str = Field(description="currency of `cost`: the setting currency")
    jobs: int
    deadlines: int = Field(
        description="jobs whose deadline was met or missed in this period: they ended, or the deadline passed. "
        "Deleted jobs, and jobs cancelled before their deadline, do not count"
    )
    deadlines_met: int = Field(description="number of these jobs that succeeded before their deadline")


class DayOfCapacityOut(AnswerModel):
    day: str = Field(description="day in UTC")
    gpu_hours: float = Field(description="GPU-hours of all healthy GPUs on hosts that were neither lost nor parked")
    held_gpu_hours: float = Field(description="GPU-hours held by jobs; a shared GPU counts once")


class CapacityOut(AnswerModel):
    known_since: At | None = Field(description="start of the records of the number of GPUs; null: none yet")
    days: list[DayOfCapacityOut]


_CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}


@router.get("/usage", response_model=list[UsageOut], responses=problems(422) | _CSV)
def get_usage(
    request: Request,
    since: Annotated[Instant | None, Query(description="default: 30 days ago")] = None,
    until: Annotated[Instant | None, Query(description="default: now")] = None,
    by: Annotated[list[Literal["day", "user", "label"]] | None, Query(description="default: user")] = None,
    label: Annotated[str, Query(description="label to group by, with `by=label`")] = "",
    gpu_hour_price: Annotated[
        float | None,
        Query(ge=0, le=1e6, allow_inf_nan=False, description="price of a GPU-hour; default: the setting gpu_prices"),
    ] = None,
    format: Annotated[Literal["json", "csv"], Query()] = "json",  # noqa: A002 - the name of the parameter
) -> list[UsageOut] | Response:
    """Return GPU-hours, energy and cost of all jobs.

    Running jobs count up to now."""
    now = time.time()
    begin, end = _span(since, until, now)
    by = by or ["user"]
    if ("label" in by) != bool(label):
        raise InvalidError("by=label requires `label`, and `label` requires by=label", field="label")
    cluster = cluster_of(request)
    prices = cluster.settings.gpu_prices if gpu_hour_price is None else {ANY_TYPE: gpu_hour_price}
    with cluster.db.read() as db:
        found = usage(db, begin, end, now, by=by, label=label, types=gpu_types(db) if prices else None)
        kept = kept_deadlines(db, begin, end, now, by=by, label=label)
    keys = {(row.day, row.user, row.label): row for row in found}
    keys |= {key: Usage(*key) for key in kept.keys() - keys.keys()}
    rows = [_row(keys[key], kept.get(key, Kept()), prices, cluster.settings.currency) for key in sorted(keys)]
    if format == "json":
        return rows
    table = io.StringIO()
    writer = csv.DictWriter(table, list(UsageOut.model_fields))
    writer.writeheader()
    writer.writerows({key: _harmless(value) for key, value in row} for row in rows)
    return Response(table.getvalue(), media_type="text/csv")


@router.get("/usage/capacity", responses=problems(422))
def get_capacity(
    request: Request,
    since: Annotated[Instant | None, Query(description="default: 30 days ago")] = None,
    until: Annotated[Instant | None, Query(description="default: now")] = None,
) -> CapacityOut:
    """Return available and used GPU-hours per day. The rest was idle."""
    now = time.time()
    begin, end = _span(since, until, now)
    with seeing_all(), cluster_of(request).db.read() as db:
        known_since, days = capacity(db, begin, min(end, now))
    return CapacityOut.model_validate({"known_since": known_since, "days": days})


def _span(since: datetime | None, until: datetime | None, now: float) -> tuple[float, float]:
    end = epoch(until, now)
    begin = epoch(since, end - _MONTH_S)
    if begin >= end:
        raise InvalidError("since must be before until", field="since")
    return begin, end


def _row(row: Usage, kept: Kept, prices: Mapping[str, float], currency: str) -> UsageOut:
    cost = cost_of(row.hours_of, prices)
    return UsageOut(
        day=row.day,
        user=row.user,
        label=row.label,
        gpu_hours=round(row.gpu_hours, 6),
        energy_kwh=row.energy,
        cost=None if cost is None else round(cost, 4),
        currency=currency,
        jobs=row.jobs,
        deadlines=kept.deadlines,
        deadlines_met=kept.met,
    )


def _harmless(value: object) -> object:
    """Quote text that a spreadsheet would take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
