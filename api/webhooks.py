"""Webhooks: list, add, pause, remove, test."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from schedulearn.api.answers import JsonResponse
from schedulearn.api.instants import iso
from schedulearn.api.schemas import Problem, RowId
from schedulearn.api.state import cluster_of
from schedulearn.scheduler.specs.webhook import MEANINGS, WebhookSpec, shown_url
from schedulearn.scheduler.store import webhooks as store

router = APIRouter(prefix="/api/v1", tags=["webhooks"])
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": Problem}}
_REFUSED: dict[int | str, dict[str, Any]] = {409: {"model": Problem}, 422: {"model": Problem}}


class LastTry(BaseModel):
    at: str
    event: str = Field(description="kind of the event, or `test`")
    status: int | None = Field(description="of HTTP; null: there was no answer")
    error: str = Field(description="empty: the receiver took it")


class WebhookOut(BaseModel):
    id: int
    url: str = Field(description="without its query and without long parts of its path: those may be secrets")
    events: list[str]
    signed: bool = Field(description="whether it has a secret, which is never shown")
    active: bool
    created_at: str
    delivered: int
    given_up: int = Field(description="events that it did not take, however often they were sent")
    failing: int = Field(description="tries of the next event that have failed; it is tried again later")
    last: LastTry | None = Field(description="null: nothing was sent yet")


class WebhookList(BaseModel):
    events: dict[str, str] = Field(description="what can be asked for, and what it means")
    items: list[WebhookOut]


class WebhookChange(BaseModel):
    model_config = ConfigDict(extra="forbid")

    active: bool = Field(description="false: nothing is sent. True: what happens from now on is")


class DeliveryOut(BaseModel):
    ok: bool
    status: int | None = Field(description="of HTTP; null: there was no answer")
    error: str
    seconds: float


@router.get("/webhooks", response_model=WebhookList)
def list_webhooks(request: Request) -> Response:
    """All, with what became of the last try of each."""
    with cluster_of(request).db.read() as db:
        items = [_view(row) for row in store.list_webhooks(db)]
    return JsonResponse({"events": MEANINGS, "items": items})


@router.post("/webhooks", status_code=201, response_model=WebhookOut, responses=_REFUSED)
def add_webhook(request: Request, body: WebhookSpec) -> Response:
    """From now on its URL gets what happens, at least once and in order. See docs/webhooks.md."""
    cluster = cluster_of(request)
    answer = cluster.db.write(lambda db: JsonResponse(_view(store.add_webhook(db, body, time.time())), status_code=201))
    cluster.webhooks.refresh()
    return answer


@router.patch("/webhooks/{webhook_id}", response_model=WebhookOut, responses={**_UNKNOWN, 422: {"model": Problem}})
def change_webhook(request: Request, webhook_id: RowId, body: WebhookChange) -> Response:
    """Pauses it, or takes it up again; what happens in between is not sent."""
    cluster = cluster_of(request)
    answer = cluster.db.write(
        lambda db: JsonResponse(_view(store.set_active(db, webhook_id, body.active, time.time())))
    )
    cluster.webhooks.refresh()
    return answer


@router.delete("/webhooks/{webhook_id}", status_code=204, responses=_UNKNOWN)
def remove_webhook(request: Request, webhook_id: RowId) -> Response:
    cluster = cluster_of(request)
    cluster.db.write(lambda db: store.remove_webhook(db, webhook_id, time.time()))
    cluster.webhooks.refresh()
    return Response(status_code=204)


@router.post("/webhooks/{webhook_id}/test", response_model=DeliveryOut, responses=_UNKNOWN)
def test_webhook(request: Request, webhook_id: RowId) -> Response:
    """Sends a made-up event at once, also to one that is paused, and tells what the receiver said."""
    delivery = cluster_of(request).webhooks.test(webhook_id)
    ok, seconds = not delivery.error, round(delivery.seconds, 3)
    return JsonResponse({"ok": ok, "status": delivery.status, "error": delivery.error, "seconds": seconds})


def _view(row: Any) -> dict[str, Any]:
    last = {"at": iso(row.last_at), "event": row.last_event, "status": row.last_status, "error": row.last_error}
    return {
        "id": row.id,
        "url": shown_url(row.url),
        "events": row.events,
        "signed": bool(row.secret),
        "active": row.active,
        "created_at": iso(row.created_at),
        "delivered": row.delivered,
        "given_up": row.given_up,
        "failing": row.tries,
        "last": last if row.last_at is not None else None,
    }
