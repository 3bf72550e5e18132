"""Webhook delivery: at least once, in order.

Each receiver has a thread, so that a dead one delays no other. Its position is stored with the outcome of each attempt.
After a restart, delivery continues there. An event whose outcome was not stored is sent again with the same id.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic_core import to_json
from sqlalchemy.engine import Connection

from schedulearn.api.outgoing.events import BACKOFF_S, ToldEvent, refusal, told_event
from schedulearn.api.outgoing.targets import WebhookTargets
from schedulearn.features.webhooks import table as store
from schedulearn.features.webhooks.table import WebhookRow
from schedulearn.scheduler.background import Background
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.errors import NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database

_IDLE_S = 300.0  # commits wake a receiver; this is for those that were missed


@dataclass(frozen=True)
class Delivery:
    """Outcome of one try. `status`: HTTP status, None without an answer. `error`: empty if it was accepted."""

    status: int | None
    error: str
    seconds: float


class _Receiver:
    def __init__(self, webhook_id: int, turn: Callable[[_Receiver], float | None]) -> None:
        self.webhook_id = webhook_id
        self.seen = 0
        """ID up to which no event is left to deliver.

        It may be ahead of the stored position, so that each event is searched once."""
        self.thread = Background(
            f"webhook-{webhook_id}", lambda: turn(self), trouble=f"webhook {webhook_id} could not be served"
        )


class Webhooks:
    """Delivery of webhooks while it is started.

    Call `refresh` after a change of the rows, and `beat` after a commit."""

    def __init__(
        self,
        db: Database,
        *,
        targets: WebhookTargets | None = None,
        backoff_s: tuple[float, ...] = BACKOFF_S,
    ) -> None:
        self._db = db
        self._targets = targets or WebhookTargets()
        self._backoff_s = backoff_s
        self._lock = threading.Lock()
        self._receivers: dict[int, _Receiver] = {}
        self._open = False

    @classmethod
    def of(cls, cluster: Cluster) -> Webhooks:
        found = cls(cluster.db, targets=WebhookTargets(cluster.settings.webhook_networks, cluster.own_port))
        cluster.after_commit.append(found.beat)
        return found

    def start(self) -> None:
        self._open = True
        self.refresh()

    def close(self) -> None:
        """Stop. A delivery in progress may still arrive; it is sent again after the next start."""
        with self._lock:
            self._open = False
            receivers, self._receivers = list(self._receivers.values()), {}
        for receiver in receivers:
            receiver.thread.stop()
        for receiver in receivers:
            receiver.thread.close(timeout=1)

    def beat(self) -> None:
        """Wake all receivers. Any thread may call it; it costs nothing while there is no receiver."""
        for receiver in list(self._receivers.values()):
            receiver.thread.wake()

    def refresh(self) -> None:
        """Start receivers of new active webhooks; stop those of removed or paused ones."""
        with self._lock:
            if not self._open:
                return
            with self._db.read() as conn:
                active = {row.id for row in store.list_webhooks(conn) if row.active}
            for webhook_id in self._receivers.keys() - active:
                self._receivers.pop(webhook_id).thread.stop()
            for webhook_id in active - self._receivers.keys():
                receiver = self._receivers[webhook_id] = _Receiver(webhook_id, self._run)
                receiver.thread.start()

    def test(self, webhook_id: int) -> Delivery:
        """Send a made-up event now, once. Raises NotFoundError."""
        with self._db.read() as conn:
            receiver = store.get_webhook(conn, webhook_id)
        made_up = ToldEvent(0, "test", time.time(), "", "This is a test: nothing has happened.", {})
        delivery = self._send(receiver, made_up)
        now, status, error = time.time(), delivery.status, delivery.error
        self._db.write(lambda conn: store.note_try(conn, webhook_id, "test", now, status=status, error=error))
        return delivery

    def _run(self, receiver: _Receiver) -> float | None:
        try:
            wait_s = self._turn(receiver)
        except NotFoundError:  # it was removed
            receiver.thread.stop()
            return None
        if wait_s is None:
            return _IDLE_S
        receiver.thread.rest(wait_s)  # a commit does not end this wait
        return 0.0

    def _turn(self, receiver: _Receiver) -> float | None:
        """Deliver the next event, if any. Return the seconds until the next try; None: wait for an event."""
        with self._db.read() as conn:
            row = store.get_webhook(conn, receiver.webhook_id)
            found, receiver.seen = store.next_event(conn, max(row.position, receiver.seen), row.events)
            event = told_event(conn, found) if found is not None else None
        if event is None or not row.active:
            return None
        receiver.seen = event.id - 1  # until it is delivered
        delivery = self._send(row, event)
        if not delivery.error:
            self._note(row, event, delivery, position=event.id, tries=0, delivered=row.delivered + 1)
            return 0.0
        if row.tries < len(self._backoff_s):
            self._note(row, event, delivery, tries=row.tries + 1)
            return float(self._backoff_s[row.tries])
        self._note(row, event, delivery, position=event.id, tries=0, given_up=row.given_up + 1)
        return float(self._backoff_s[-1])

    def _note(self, row: WebhookRow, event: ToldEvent, delivery: Delivery, **progress: int) -> None:
        """Store the outcome of a try. `progress`: the columns that change.

        Other columns stay as they are: an admin may pause the webhook meanwhile."""
        now = time.time()

        def change(conn: Connection) -> None:
            status, error = delivery.status, delivery.error
            store.note_try(conn, row.id, event.kind, now, status=status, error=error, **progress)
            if "given_up" in progress:
                tries = len(self._backoff_s) + 1
                message = (
                    f"Webhook {row.id} did not accept {event.kind} ({event.id}) in {tries} tries: {delivery.error}"
                )
                repository.add_event(conn, now, "webhook.gave_up", message=message)

        self._db.write(change)

    def _deliver(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        from schedulearn.api.outgoing.http_post import post  # slow to import, and few services have webhooks

        return post(self._targets, url, body, headers)

    def _send(self, row: WebhookRow, event: ToldEvent) -> Delivery:
        data = to_json({**event.payload(), "webhook": row.id}, inf_nan_mode="null")
        headers = {
            "content-type": "application/json",
            "user-agent": "Schedulearn",
            "x-schedulearn-event": event.kind,
            "x-schedulearn-delivery": f"{row.id}-{event.id}",
        }
        if row.secret:
            headers["x-schedulearn-signature"] = signature(row.secret, data)
        began = time.monotonic()
        status: int | None = None
        try:
            status = self._deliver(row.url, data, headers)
            error = "" if 200 <= status < 300 else refusal(status)
        except (OSError, ValueError) as fault:
            error = str(fault) or type(fault).__name__
        return Delivery(status, error[:500], time.monotonic() - began)


def signature(secret: str, body: bytes) -> str:
    """Return the header x-schedulearn-signature of a body."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
