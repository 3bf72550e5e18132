"""Webhook table and queries, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, Text, delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.features.webhooks.spec import WebhookSpec, kinds_of
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.columns import InstantColumn, json_column
from schedulearn.scheduler.store.models import Event

MAX = 50  # each has a thread of its own


class Webhook(SQLModel, table=True):
    """Receiver of events, and the progress of its deliveries."""

    __table_args__ = ({"sqlite_autoincrement": True},)

    id: int | None = Field(default=None, primary_key=True)
    url: str = Field(sa_type=Text)
    events: list[str] = Field(sa_column=json_column())
    """Names in `spec.EVENTS`."""
    secret: str = Field(default="", sa_type=Text)
    """Key that signs deliveries; empty: they are not signed."""
    active: bool = True
    created_at: float = Field(sa_type=InstantColumn)
    position: int
    """ID of the last event that was delivered or given up. Delivery continues there after a restart."""
    tries: int = 0
    """Failed tries of the next event."""
    delivered: int = 0
    given_up: int = 0
    last_at: float | None = Field(default=None, sa_type=InstantColumn)
    last_event: str = ""
    last_status: int | None = None
    """HTTP status; None: there was no answer."""
    last_error: str = Field(default="", sa_type=Text)
    """Reason why the last try failed; empty: it succeeded."""


WebhookRow = Row[Any]
EventRow = Row[Any]


def list_webhooks(db: Connection) -> Sequence[WebhookRow]:
    return db.execute(select(Webhook).order_by(col(Webhook.id))).all()


def get_webhook(db: Connection, webhook_id: int) -> WebhookRow:
    """Raises NotFoundError."""
    row = db.execute(select(Webhook).where(col(Webhook.id) == webhook_id)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no webhook {webhook_id}")
    return row


def add_webhook(db: Connection, spec: WebhookSpec, now: float) -> WebhookRow:
    """Add a webhook, which gets events from now on. Raises ConflictError if there are `MAX` already."""
    if len(list_webhooks(db)) >= MAX:
        raise ConflictError(f"there are {MAX} webhooks already: remove one first")
    added = db.execute(
        insert(Webhook).values(**spec.model_dump(), created_at=now, position=repository.last_event_id(db))
    )
    [webhook_id] = added.inserted_primary_key or (0,)
    repository.add_event(
        db, now, "webhook.added", message=f"Webhook {webhook_id} was added.", about=f"webhook:{webhook_id}"
    )
    return get_webhook(db, webhook_id)


def set_active(db: Connection, webhook_id: int, active: bool, now: float) -> WebhookRow:
    """Pause or resume a webhook. A resumed one gets events from now on. Raises NotFoundError."""
    row = get_webhook(db, webhook_id)
    if row.active == active:
        return row
    begin = {"position": repository.last_event_id(db), "tries": 0} if active else {}
    db.execute(update(Webhook).where(col(Webhook.id) == webhook_id).values(active=active, **begin))
    what = "goes on" if active else "is paused"
    repository.add_event(
        db, now, "webhook.changed", message=f"Webhook {webhook_id} {what}.", about=f"webhook:{webhook_id}"
    )
    return get_webhook(db, webhook_id)


def remove_webhook(db: Connection, webhook_id: int, now: float) -> None:
    """Raises NotFoundError."""
    get_webhook(db, webhook_id)
    db.execute(delete(Webhook).where(col(Webhook.id) == webhook_id))
    repository.add_event(
        db, now, "webhook.removed", message=f"Webhook {webhook_id} was removed.", about=f"webhook:{webhook_id}"
    )


def next_event(db: Connection, after: int, events: Sequence[str]) -> tuple[EventRow | None, int]:
    """Return the first event after this ID that `events` select, and up to which ID there is no other.

    Without such an event: None, and the ID of the last event."""
    last = repository.last_event_id(db)
    query = select(Event).where(col(Event.id) > after, col(Event.id) <= last, col(Event.kind).in_(kinds_of(events)))
    found = db.execute(query.order_by(col(Event.id)).limit(1)).one_or_none()
    return found, last if found is None else found.id


def note_try(
    db: Connection, webhook_id: int, event: str, now: float, *, status: int | None, error: str, **values: Any
) -> None:
    """Store the outcome of one try, unless the webhook was removed meanwhile. `values`: further columns."""
    last = {"last_at": now, "last_event": event, "last_status": status, "last_error": error}
    db.execute(update(Webhook).where(col(Webhook.id) == webhook_id).values(**last, **values))
