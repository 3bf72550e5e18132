"""Responses with events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import Field
from sqlalchemy import Row

from schedulearn.api.answers.model import AnswerModel, At, unchecked, values_of
from schedulearn.scheduler.core.instants import shown
from schedulearn.scheduler.core.people import Actor


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
    address: str = Field(description="address of the actor, for admins and the actor; empty: hidden or unknown")
    about: str = Field(description="changed thing that is neither a job nor a host, as `user:ada`; empty: none")


def event_out(row: dict[str, Any], reader: Actor) -> EventOut:
    """Return the event of a row, given by its columns, as a user may see it."""
    address = row["address"] if reader.is_admin or row["actor"] == reader.name else ""
    return unchecked(EventOut, {**row, "at": shown(row["at"]), "address": address})


class EventPage(AnswerModel):
    items: list[EventOut]

    @classmethod
    def of(cls, rows: Sequence[Row[Any]], reader: Actor) -> Self:
        return cls(items=[event_out(values, reader) for values in values_of(rows)])


class FoundEvents(EventPage):
    names: dict[str, str] = Field(description="job ID -> name, for the jobs of the events; without deleted jobs")
    next_before: int | None = Field(
        description="`before` of a request that continues the search; null: all events were searched"
    )
