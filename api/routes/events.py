"""Everything that happens, as pages or as a stream that resumes by id."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from schedulearn.api.answers.event import EventPage, FoundEvents
from schedulearn.api.requests import RowId
from schedulearn.api.state import broadcaster_of, cluster_of
from schedulearn.api.stream import event_stream, last_event_id, sse_response, wants_sse
from schedulearn.scheduler.store import history, repository

router = APIRouter(prefix="/api/v1", tags=["events"])


@router.get("/events", response_model=EventPage)
async def list_events(
    request: Request,
    after: Annotated[RowId | None, Query(description="only events with a larger ID")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> EventPage | Response:
    """Return the newest events, or those after an ID, oldest first.

    A client that accepts server-sent events gets a stream. It begins after `Last-Event-ID` or `after`, else now."""
    db = cluster_of(request).db
    if wants_sse(request):
        newest = await db.aread(repository.last_event_id) if after is None else after
        return sse_response(event_stream(db, broadcaster_of(request), last_event_id(request, newest)))
    rows = await db.aread(lambda c: repository.list_events(c, after=after or 0, limit=limit, newest=after is None))
    return EventPage.of(rows)


@router.get("/events:search")
def search(
    request: Request,
    q: Annotated[str, Query(max_length=200, description="text in the message, or a code")] = "",
    kind: Annotated[
        list[str] | None, Query(max_length=20, description="beginnings of kinds of events, e.g. `job.`")
    ] = None,
    job: Annotated[str | None, Query(description="ID of a job")] = None,
    host: str | None = None,
    before: Annotated[RowId | None, Query(description="only events with a smaller ID")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> FoundEvents:
    """Search events, newest first.

    An event must match all given criteria. Without `job`, only the last 100,000 events are searched."""
    with cluster_of(request).db.read() as db:
        rows = history.search_events(
            db, before=before, kinds=kind or (), job_id=job, host_id=host, text=q.strip(), limit=limit
        )
        names = history.job_names(db, {row.job_id for row in rows if row.job_id})
    return FoundEvents(items=EventPage.of(rows).items, names=names)
