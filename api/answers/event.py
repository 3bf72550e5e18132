"""Responses with events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import Field
from sqlalchemy import Row

from schedulearn.api.answers.model import AnswerModel, At, unchecked, values_of
from schedulearn.scheduler.core.instants import shown


class EventOut(AnswerModel):
    id: int
    at: At
    kind: str
    job_id: str | None
    host_id: str | None
    code: str
    message: str
    data: dict[str, object]
    actor: str = Field(description="user who caused it; empty: the service itself")


def event_out(row: dict[str, Any]) -> EventOut:
    """Return the event of a row, given by its columns."""
    return unchecked(EventOut, {**row, "at": shown(row["at"])})


class EventPage(AnswerModel):
    items: list[EventOut]

    @classmethod
    def of(cls, rows: Sequence[Row[Any]]) -> Self:
        return cls(items=[event_out(values) for values in values_of(rows)])


class FoundEvents(EventPage):
    names: dict[str, str] = Field(description="job ID -> name, for the jobs of the events; without deleted jobs")
