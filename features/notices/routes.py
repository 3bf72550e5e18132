"""Routes for notices: one's own addresses, and the notices of a job."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Row
from sqlalchemy.engine import Connection
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import Answer, AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.state import actor_of, cluster_of
from schedulearn.features.notices import channels, outbox
from schedulearn.features.notices.addresses import CHATS, MAX_ADDRESS, parse_address
from schedulearn.features.notices.worker import Notices
from schedulearn.scheduler.core.notices import ME, MEANINGS, USUAL
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.specs.notify import NoticeEvents
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.people.notices import channels_of

router = APIRouter(prefix="/api/v1", tags=["notices"])

AddressName = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
_SHOWN = 100


class AddressIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, str_strip_whitespace=True)

    address: str = Field(
        min_length=1,
        max_length=MAX_ADDRESS,
        description="e-mail address, http(s) URL that gets JSON, or address of a chat as Apprise writes it, e.g. "
        "ntfy://ntfy.sh/topic. It is stored encrypted, and shown without its secrets",
    )
    events: NoticeEvents = Field(
        default_factory=lambda: list(USUAL), min_length=1, max_length=5, description=f"any of {', '.join(MEANINGS)}"
    )
    every_job: bool = Field(default=False, description="send notices about all your jobs, without the key `notify`")


class AddressOut(AnswerModel):
    name: str
    address: str = Field(description="address without its secrets")
    events: list[str]
    every_job: bool
    created_at: At
    delivered: int
    given_up: int = Field(description="notices that were not accepted after all tries")
    waiting: int = Field(description="notices that are not delivered yet")
    last_at: At | None = Field(description="time of the last try; null: there was none")
    last_error: str = Field(description="why the last try failed; empty: it was accepted")


class AddressList(AnswerModel):
    items: list[AddressOut]
    events: dict[str, str] = Field(description="event -> description, for all events that an address can select")
    schemes: list[str] = Field(description="schemes of addresses of chats and push services")
    has_mail: bool = Field(description="whether the service sends e-mail")


class TrialNoticeOut(AnswerModel):
    ok: bool = Field(description="whether the mail server or the service at the address accepted the notice")
    error: str
    seconds: float


class NoticeOut(AnswerModel):
    id: int
    event: str
    to: str = Field(description="name of the address, or e-mail address")
    state: str = Field(description="waiting, sent or failed")
    tries: int
    created_at: At
    last_at: At | None
    next_at: At | None = Field(description="time of the next try; null: there is none")
    error: str = Field(description="why the last try failed; empty: it did not")


class NoticeList(AnswerModel):
    items: list[NoticeOut]


@router.get("/notify")
@needs(Access.USER)
def list_addresses(request: Request) -> AddressList:
    """Return your addresses for notices, each with the result of its last try."""
    owner, cluster = actor_of(request).name, cluster_of(request)
    with cluster.db.read() as db:
        waiting = channels.waiting_by_target(db, owner)
        items = [_shown(row, waiting.get(f"channel:{row.id}", 0)) for row in channels_of(db, owner)]
    has_mail = bool(cluster.settings.smtp_host)
    return AddressList(items=items, events=dict(MEANINGS), schemes=list(CHATS), has_mail=has_mail)


@router.put("/notify/{name}", response_model=AddressOut, responses=problems(409, 422, 429))
@needs(Access.USER)
def set_address(request: Request, name: AddressName, body: AddressIn) -> Response:
    """Add or change one of your addresses. Jobs name it in their key `notify`."""
    owner, cluster = actor_of(request).name, cluster_of(request)
    if name == ME:
        raise InvalidError("`me` means all of your addresses: choose another name", field="name")
    try:
        address = parse_address(body.address)
    except ValueError as error:
        raise InvalidError(f"address: {error}", field="address") from error
    cluster.worker(Notices).check(owner, address)
    stored, now = cluster.secrets.encrypt(address.text), time.time()

    def change(db: Connection) -> Answer:
        row = channels.set_channel(db, owner, name, address, stored, body.events, body.every_job, now)
        return Answer(_shown(row, channels.waiting_by_target(db, owner).get(f"channel:{row.id}", 0)))

    return cluster.db.write(change)


@router.delete("/notify/{name}", status_code=204, responses=problems(404))
@needs(Access.USER)
def remove_address(request: Request, name: AddressName) -> Response:
    """Remove one of your addresses. Its waiting notices are given up."""
    owner = actor_of(request).name
    cluster_of(request).db.write(lambda db: channels.remove_channel(db, owner, name, time.time()))
    return Response(status_code=204)


@router.post("/notify/{name}/test", responses=problems(404, 429))
@needs(Access.USER)
def test_address(request: Request, name: AddressName) -> TrialNoticeOut:
    """Send a trial notice now, and return whether it was accepted."""
    owner, cluster = actor_of(request).name, cluster_of(request)
    with cluster.db.read() as db:
        row = channels.get_channel(db, owner, name)
    address = parse_address(cluster.secrets.decrypt(row.address))
    delivery = cluster.worker(Notices).try_address(owner, address, name)
    cluster.db.write(lambda db: channels.note_trial(db, row.id, delivery.error, time.time()))
    return TrialNoticeOut(ok=not delivery.error, error=delivery.error, seconds=round(delivery.seconds, 3))


@router.get("/jobs/{job_id}/notices", responses=problems(404))
@needs(Access.OWN)
def list_notices(request: Request, job_id: str) -> NoticeList:
    """Return the notices about a job, newest first. Only its user and admins may read them."""
    with cluster_of(request).db.read() as db:
        repository.get_job(db, job_id)
        rows = outbox.notices_of_job(db, job_id, _SHOWN)
    return NoticeList(items=[_notice(row) for row in rows])


def _shown(row: Row[Any], waiting: int) -> AddressOut:
    return AddressOut.model_validate({**row._asdict(), "address": row.shown, "waiting": waiting})


def _notice(row: Row[Any]) -> NoticeOut:
    next_at = row.next_at if row.state == "waiting" else None
    return NoticeOut.model_validate({**row._asdict(), "to": row.shown, "next_at": next_at, "error": row.last_error})
