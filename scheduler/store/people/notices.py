"""Tables of notices: addresses of accounts, and the outbox. A notice is a row until it is delivered or given up.

A change of the tables needs a migration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Index, Text, UniqueConstraint, delete, select, update
from sqlalchemy.engine import Connection
from sqlmodel import Field, SQLModel, col

from schedulearn.scheduler.core.notices import ME, mail_address
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.store.columns import InstantColumn, json_column

WAITING, SENT, FAILED = "waiting", "sent", "failed"


class NoticeChannel(SQLModel, table=True):
    """Named address of an account."""

    __tablename__ = "notice_channel"
    __table_args__ = (UniqueConstraint("owner", "name"), {"sqlite_autoincrement": True})

    id: int | None = Field(default=None, primary_key=True)
    owner: str
    name: str
    address: str = Field(sa_type=Text)
    """Encrypted with the key of the secrets."""
    shown: str = Field(sa_type=Text)
    """Address without its secrets."""
    events: list[str] = Field(sa_column=json_column())
    every_job: bool = False
    """Whether it gets notices about all jobs of the account."""
    created_at: float = Field(sa_type=InstantColumn)
    after_event: int
    """ID of the last event before it was created. `every_job` begins after it."""
    delivered: int = 0
    given_up: int = 0
    last_at: float | None = Field(default=None, sa_type=InstantColumn)
    last_error: str = Field(default="", sa_type=Text)
    """Reason why the last try failed; empty: it succeeded."""


class Notice(SQLModel, table=True):
    """Message about one event to one recipient."""

    __tablename__ = "notice"
    __table_args__ = (
        UniqueConstraint("event_id", "target"),
        Index("notice_by_state", "state", "owner", "target", "id"),
        Index("notice_by_job", "job_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: int | None = Field(default=None, primary_key=True)
    event_id: int
    event: str
    """A name in `core.notices.MEANINGS`."""
    job_id: str
    owner: str
    """User of the job."""
    target: str
    """Recipient: `channel:ID`, `mail:ADDRESS`, or `missing:NAME`."""
    shown: str = Field(sa_type=Text)
    """Recipient without secrets."""
    content: dict[str, Any] = Field(sa_column=json_column())
    """Payload, as it was when the event was read."""
    created_at: float = Field(sa_type=InstantColumn)
    state: str
    tries: int = 0
    next_at: float = Field(sa_type=InstantColumn)
    last_at: float | None = Field(default=None, sa_type=InstantColumn)
    last_error: str = Field(default="", sa_type=Text)


class NoticePosition(SQLModel, table=True):
    """Event up to which all notices are in the outbox. One row; none: no event was read yet."""

    __tablename__ = "notice_position"

    id: int = Field(default=1, primary_key=True)
    position: int


def channels_of(db: Connection, owner: str) -> Sequence[Any]:
    query = select(NoticeChannel).where(col(NoticeChannel.owner) == owner)
    return db.execute(query.order_by(col(NoticeChannel.name))).all()


def check_recipients(db: Connection, user: str, recipients: Sequence[str], mail_refusal: Callable[[str], str]) -> None:
    """Raise InvalidError for a recipient that can't get a notice.

    `mail_refusal`: why none can go to an e-mail address."""
    names = {row.name for row in channels_of(db, user)}
    for recipient in recipients:
        if recipient == ME and not names:
            raise InvalidError(
                f"{user} has no address for notices: add one with `schedulearn notify add`", field="notify"
            )
        if mail_address(recipient) is not None:
            if refusal := mail_refusal(recipient):
                raise InvalidError(refusal, field="notify")
        elif recipient != ME and recipient not in names:
            known = ", ".join(sorted(names)) or "none"
            raise InvalidError(
                f"{user} has no address {recipient!r} for notices, only: {known}. Add it with `schedulearn notify add`",
                field="notify",
            )


def forget_addresses(db: Connection, owner: str, now: float) -> None:
    """Remove the addresses of an account. Its waiting notices are given up."""
    db.execute(delete(NoticeChannel).where(col(NoticeChannel.owner) == owner))
    waiting = update(Notice).where(col(Notice.owner) == owner, col(Notice.state) == WAITING)
    db.execute(waiting.values(state=FAILED, last_at=now, last_error="the account was removed"))
