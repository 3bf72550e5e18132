"""Outbox of notices: from events of jobs to rows that wait for delivery, and the outcomes of tries.

Queries are inside the caller's transaction. The rows of an event and the position after it are stored together, so a
kill loses no notice and makes none twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python
from sqlalchemy import Row, and_, delete, func, insert, or_, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.api.outgoing.events import EventRow, told_event
from schedulearn.scheduler.core.notices import ME, USUAL, mail_address
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.models import Event, Job
from schedulearn.scheduler.store.people.notices import (
    FAILED,
    SENT,
    WAITING,
    Notice,
    NoticeChannel,
    NoticePosition,
    channels_of,
)

_DELETED = 2_000  # notices in one transaction
MAX_PER_JOB = 100
"""Maximum notices of a job, without those about its end."""
EVENTS_AT_ONCE = 200
_ENDED = ("job.succeeded", "job.failed", "job.timeout", "job.cancelled")
_FAILED = ("job.failed", "job.timeout")
_KINDS = (*_ENDED, "job.hung", "job.running", "job.maintenance")
_TAKEN = (Reason.PREEMPTED, Reason.LOST, Reason.HOST_LOST, Reason.GPU_LOST, Reason.HOST_FAULT)
_SAME_ROW = col(NoticePosition.id) == 1

NoticeRow = Row[Any]


class Queued(NamedTuple):
    """Notices to store, and the events up to which they are complete."""

    rows: Sequence[dict[str, Any]]
    after: int
    until: int
    more: bool
    """Whether there are further events."""


def position(db: Connection) -> int:
    return db.execute(select(col(NoticePosition.position)).where(_SAME_ROW)).scalar() or 0


def find_notices(db: Connection, after: int, now: float, link: Callable[[str], str]) -> Queued:
    """Return the notices of the next events after an id. `link`: URL of a job's page, or an empty text."""
    last = repository.last_event_id(db)
    if last <= after:
        return Queued([], after, after, more=False)
    taken = and_(col(Event.kind) == "job.queued", col(Event.code).in_([each.value for each in _TAKEN]))
    chosen = or_(col(Event.kind).in_(_KINDS), taken, col(Event.kind) == "job.resizing")
    query = select(Event).where(col(Event.id) > after, col(Event.id) <= last, chosen)
    events = db.execute(query.order_by(col(Event.id)).limit(EVENTS_AT_ONCE)).all()
    more = len(events) == EVENTS_AT_ONCE
    rows = [row for event in events for row in _notices_of(db, event, now, link)]
    return Queued(rows, after, events[-1].id if more else last, more)


def store(db: Connection, found: Queued, now: float) -> bool:
    """Store notices with the position after their events. Returns False, without any change, if others were faster."""
    if position(db) > found.after:
        return False
    moved = db.execute(update(NoticePosition).where(_SAME_ROW).values(position=found.until))
    if not moved.rowcount:
        db.execute(insert(NoticePosition).values(id=1, position=found.until))
    counts: dict[str, int] = {}
    for row in found.rows:
        job_id, ends = row["job_id"], row["event"] in ("end", "failure")
        if job_id not in counts:
            mine = select(func.count()).select_from(Notice).where(col(Notice.job_id) == job_id)
            counts[job_id] = db.execute(mine).scalar() or 0
        if counts[job_id] >= MAX_PER_JOB and not ends:
            continue
        counts[job_id] += 1
        db.execute(insert(Notice).values(**row))
        if counts[job_id] == MAX_PER_JOB:
            message = f"There were {MAX_PER_JOB} notices about this job, the maximum: only its end is still reported."
            repository.add_event(db, now, "job.notice", code="notice_limit", message=message, job_id=job_id)
    return True


def _notices_of(db: Connection, event: EventRow, now: float, link: Callable[[str], str]) -> Iterable[dict[str, Any]]:
    names = _names_of(event)
    query = select(col(Job.id), col(Job.user), col(Job.name), col(Job.spec)).where(col(Job.id) == event.job_id)
    job = db.execute(query).one_or_none() if names else None
    if job is None:
        return
    wanted = _recipients(db, job, event, names)
    if not wanted or ("start" in names and _ran_before(db, event)):
        return
    told = told_event(db, event).payload()
    payload = {**to_jsonable_python(told, inf_nan_mode="null"), "notice": names[-1], "url": link(job.id)}
    for target, shown in wanted.items():
        missing = target.startswith("missing:")
        yield {
            "event_id": event.id,
            "event": names[-1],
            "job_id": job.id,
            "owner": job.user,
            "target": target,
            "shown": shown,
            "content": payload,
            "created_at": now,
            "next_at": now,
            "state": FAILED if missing else WAITING,
            "last_error": "there is no address of this name any more" if missing else "",
        }


def _names_of(event: EventRow) -> list[str]:
    """Return the events of notices that an event stands for; the most specific is last."""
    if event.kind in _ENDED:
        return ["end", "failure"] if event.kind in _FAILED else ["end"]
    if event.kind == "job.resizing":
        gone = event.code == Reason.EVICTED.value or event.data.get("allocation") == {}
        return ["preemption"] if gone and event.code != Reason.HANG_RESTART.value else []
    return {"job.hung": ["hang"], "job.running": ["start"]}.get(event.kind, ["preemption"])


def _recipients(db: Connection, job: Row[Any], event: EventRow, names: Sequence[str]) -> dict[str, str]:
    """Return the target of each recipient that wants the event, and how it is shown."""
    keys: Mapping[str, Any] = job.spec
    chosen: Sequence[str] | None = keys.get("notify_on")
    channels = {row.name: row for row in channels_of(db, job.user)}
    found: dict[str, str] = {}

    def wants(events: Sequence[str]) -> bool:
        return not set(names).isdisjoint(events)

    for recipient in keys.get("notify", ()):
        if recipient == ME:
            mine = [row for row in channels.values() if wants(chosen or row.events)]
            found |= {f"channel:{row.id}": row.name for row in mine}
        elif mail_address(recipient) is not None:
            found |= {f"mail:{recipient}": recipient} if wants(chosen or USUAL) else {}
        elif (row := channels.get(recipient)) is not None:
            found |= {f"channel:{row.id}": row.name} if wants(chosen or row.events) else {}
        elif wants(chosen or USUAL):
            found[f"missing:{recipient}"] = recipient
    every = [row for row in channels.values() if row.every_job and row.after_event < event.id and wants(row.events)]
    return found | {f"channel:{row.id}": row.name for row in every}


def _ran_before(db: Connection, event: EventRow) -> bool:
    earlier = select(col(Event.id)).where(col(Event.job_id) == event.job_id, col(Event.id) < event.id)
    return db.execute(earlier.where(col(Event.kind) == "job.running").limit(1)).first() is not None


def next_of_each(db: Connection, of_owner: int) -> Sequence[NoticeRow]:
    """Return the oldest waiting notice of each recipient: a recipient gets its notices in order.

    Of each account come only the next `of_owner` to recipients that failed before, and as many to others."""
    oldest = select(func.min(col(Notice.id))).where(col(Notice.state) == WAITING)
    oldest = oldest.group_by(col(Notice.owner), col(Notice.target))
    kind = (col(Notice.owner), col(Notice.tries) > 0)
    place = func.row_number().over(partition_by=kind, order_by=(col(Notice.next_at), col(Notice.id)))
    ranked = select(col(Notice.id), place.label("place")).where(col(Notice.id).in_(oldest)).subquery()
    query = select(Notice).where(col(Notice.id).in_(select(ranked.c.id).where(ranked.c.place <= of_owner)))
    return db.execute(query.order_by(col(Notice.id))).all()


def channel_by_id(db: Connection, channel_id: int) -> Row[Any] | None:
    return db.execute(select(NoticeChannel).where(col(NoticeChannel.id) == channel_id)).one_or_none()


def note_try(db: Connection, notice: NoticeRow, error: str, now: float, *, again_at: float | None, tries: int) -> None:
    """Store the outcome of one try. `again_at`: time of the next try; None: there is none."""
    state = SENT if not error else WAITING if again_at is not None else FAILED
    still = (col(Notice.id) == notice.id, col(Notice.state) == WAITING)
    values = {"state": state, "tries": tries, "last_at": now, "last_error": error, "next_at": again_at or now}
    if not db.execute(update(Notice).where(*still).values(**values)).rowcount:
        return
    kind, _, channel_id = notice.target.partition(":")
    if kind == "channel":
        count = {SENT: "delivered", FAILED: "given_up"}.get(state)
        more = {count: getattr(NoticeChannel, count) + 1} if count else {}
        mine = update(NoticeChannel).where(col(NoticeChannel.id) == int(channel_id))
        db.execute(mine.values(last_at=now, last_error=error, **more))
    if state == FAILED:
        # All who may see the job read its events. The error may quote the recipient, or tell what is in the network.
        message = (
            f"A notice about this job ({notice.event}) was not accepted in {tries} tries. Its user sees the reason by "
            f"`schedulearn notify log {notice.job_id}`."
        )
        repository.add_event(db, now, "job.notice", code="notice_failed", message=message, job_id=notice.job_id)


def delete_old(db: Connection, before: float) -> bool:
    """Delete finished notices that were created before a time, at most `_DELETED`. Return whether there may be more."""
    old = select(col(Notice.id)).where(col(Notice.state) != WAITING, col(Notice.created_at) < before)
    return db.execute(delete(Notice).where(col(Notice.id).in_(old.limit(_DELETED)))).rowcount == _DELETED


def notices_of_job(db: Connection, job_id: str, limit: int) -> Sequence[NoticeRow]:
    """Return the newest notices of a job, newest first."""
    query = select(Notice).where(col(Notice.job_id) == job_id)
    return db.execute(query.order_by(col(Notice.id).desc()).limit(limit)).all()
