"""Routes for webhooks."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import Answer, AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.outgoing.urls import shown_url
from schedulearn.api.requests import RowId
from schedulearn.api.state import cluster_of
from schedulearn.features.webhooks import table as store
from schedulearn.features.webhooks.spec import MEANINGS, WebhookSpec
from schedulearn.features.webhooks.worker import Webhooks

router = APIRouter(prefix="/api/v1", tags=["webhooks"])


class LastTry(AnswerModel):
    at: At
    event: str = Field(description="kind of the event, or `test`")
    status: int | None = Field(description="HTTP status of the response; null: no response")
    error: str = Field(description="error; empty: the receiver accepted the event")


class WebhookOut(AnswerModel):
    id: int
    url: str = Field(description="URL without its query and long parts of its path, which may be secrets")
    events: list[str]
    signed: bool = Field(description="whether it has a secret, which is never shown")
    active: bool
    created_at: At
    delivered: int
    given_up: int = Field(description="events that were not accepted after all retries")
    failing: int = Field(description="failed deliveries of the next event, which will be retried")
    last: LastTry | None = Field(description="latest delivery; null: nothing was sent yet")


class WebhookList(AnswerModel):
    events: dict[str, str] = Field(description="event -> description, for all events that a webhook can select")
    items: list[WebhookOut]


class WebhookChange(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    active: bool = Field(description="false pauses the webhook; true resumes it, from the next event on")


class DeliveryOut(AnswerModel):
    ok: bool
    status: int | None = Field(description="HTTP status of the response; null: no response")
    error: str
    seconds: float


@router.get("/webhooks")
@needs(Access.ADMIN)
def list_webhooks(request: Request) -> WebhookList:
    """Return all webhooks, each with the result of its last delivery."""
    with cluster_of(request).db.read() as db:
        items = [_shown(row) for row in store.list_webhooks(db)]
    return WebhookList(events=MEANINGS, items=items)


@router.post("/webhooks", status_code=201, response_model=WebhookOut, responses=problems(409, 422))
def add_webhook(request: Request, body: WebhookSpec) -> Response:
    """Create a webhook.

    Its URL receives future events at least once and in order. See docs/webhooks.md."""
    cluster = cluster_of(request)
    answer = cluster.db.write(lambda db: Answer(_shown(store.add_webhook(db, body, time.time())), 201))
    cluster.worker(Webhooks).refresh()
    return answer


@router.patch("/webhooks/{webhook_id}", response_model=WebhookOut, responses=problems(404, 422))
def change_webhook(request: Request, webhook_id: RowId, body: WebhookChange) -> Response:
    """Pause or resume a webhook.

    Events during a pause are never sent."""
    cluster = cluster_of(request)
    answer = cluster.db.write(lambda db: Answer(_shown(store.set_active(db, webhook_id, body.active, time.time()))))
    cluster.worker(Webhooks).refresh()
    return answer


@router.delete("/webhooks/{webhook_id}", status_code=204, responses=problems(404))
def remove_webhook(request: Request, webhook_id: RowId) -> Response:
    cluster = cluster_of(request)
    cluster.db.write(lambda db: store.remove_webhook(db, webhook_id, time.time()))
    cluster.worker(Webhooks).refresh()
    return Response(status_code=204)


@router.post("/webhooks/{webhook_id}/test", responses=problems(404))
def test_webhook(request: Request, webhook_id: RowId) -> DeliveryOut:
    """Send a test event now, and return the response of the receiver.

    This works for a paused webhook too."""
    delivery = cluster_of(request).worker(Webhooks).test(webhook_id)
    return DeliveryOut(
        ok=not delivery.error, status=delivery.status, error=delivery.error, seconds=round(delivery.seconds, 3)
    )


def _shown(row: store.WebhookRow) -> WebhookOut:
    last = {"at": row.last_at, "event": row.last_event, "status": row.last_status, "error": row.last_error}
    return WebhookOut.model_validate(
        {
            "id": row.id,
            "url": shown_url(row.url),
            "events": row.events,
            "signed": bool(row.secret),
            "active": row.active,
            "created_at": row.created_at,
            "delivered": row.delivered,
            "given_up": row.given_up,
            "failing": row.tries,
            "last": last if row.last_at is not None else None,
        }
    )
