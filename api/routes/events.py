"""Everything that happens, as pages or as a stream that resumes by id."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from schedulearn.api.answers.event import EventPage, FoundEvents
from schedulearn.api.answers.problem import problems
from schedulearn.api.requests import RowId
from schedulearn.api.state import actor_of, broadcaster_of, cluster_of
from schedulearn.api.stream import event_stream, last_event_id, sse_response, wants_sse
from schedulearn.scheduler.core.instants import Instant
from schedulearn.scheduler.errors import InvalidError
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
        return sse_response(
            event_stream(db, broadcaster_of(request), last_event_id(request, newest), actor_of(request))
        )
    rows = await db.aread(lambda c: repository.list_events(c, after=after or 0, limit=limit, newest=after is None))
    return EventPage.of(rows, actor_of(request))


@router.get("/events:search", responses=problems(422))
def search(
    request: Request,
    q: Annotated[str, Query(max_length=200, description="text in the message, or a code")] = "",
    kind: Annotated[
        list[str] | None, Query(max_length=20, description="beginnings of kinds of events, e.g. `job.`")
    ] = None,
    job: Annotated[str | None, Query(description="ID of a job")] = None,
    host: str | None = None,
    actor: Annotated[
        str | None, Query(max_length=100, description="name of the user who caused it; `*`: any user")
    ] = None,
    about: Annotated[
        str | None, Query(max_length=200, description="changed thing: `user:ada`, `token:NAME`, `job:ID`, `host:NAME`")
    ] = None,
    since: Annotated[Instant | None, Query(description="only events from then on")] = None,
    until: Annotated[Instant | None, Query(description="only events before then")] = None,
    before: Annotated[RowId | None, Query(description="only events with a smaller ID")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> FoundEvents:
    """Search events, newest first.

    An event must match all given criteria. One request searches 100,000 events; `next_before` continues."""
    what, _, name = (about or "").partition(":")
    if what in ("job", "host"):
        if (job if what == "job" else host) is not None:
            raise InvalidError(f"name the {what} once: by `{what}`, or by `about`", field="about")
        job, host, about = (name, host, None) if what == "job" else (job, name, None)
    with cluster_of(request).db.read() as db:
        found = history.search_events(
            db,
            before=before,
            kinds=kind or (),
            job_id=job,
            host_id=host,
            actor=actor,
            about=about,
            since=since.timestamp() if since is not None else None,
            until=until.timestamp() if until is not None else None,
            text=q.strip(),
            limit=limit,
        )
        names = history.job_names(db, {row.job_id for row in found.rows if row.job_id})
    items = EventPage.of(found.rows, actor_of(request)).items
    return FoundEvents(items=items, names=names, next_before=found.next_before)
