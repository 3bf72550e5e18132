"""Delivery of notices: at least once, in order for each recipient, and never twice without a kill in between.

One thread moves events to the outbox and starts deliveries. Each delivery has a thread of its own, and they are few.
A recipient that fails delays only itself: recipients that failed before use at most half of the threads, and each
account a quarter.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection

from schedulearn.api.outgoing.events import BACKOFF_S
from schedulearn.api.settings import Settings
from schedulearn.features.notices import outbox
from schedulearn.features.notices.addresses import Address, AddressKind, parse_address
from schedulearn.features.notices.delivery import NoticeMessage, NoticeTry, Sender
from schedulearn.scheduler.background import TROUBLE_S, Background
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.errors import InvalidError, QuotaError, StoreError
from schedulearn.scheduler.store.db import Database

log = logging.getLogger(__name__)

MAX_AGE_S = 86_400.0
"""Age at which a notice is given up, so that a dead recipient does not collect notices for ever."""
AT_ONCE = 8
_OF_FAILING = 4
_OF_OWNER = 2
_READ_OF_OWNER = 2 * _OF_OWNER
"""Maximum notices of an account to read: those in progress, and as many that may follow."""
TRIALS = 20
TRIALS_S = 3600.0
_TRIALS_AT_ONCE = 4
"""Maximum trial notices and new addresses of an account, and the time that they count for."""
_IDLE_S = 300.0
_STORE_AGAIN_S = 1.0
_DAY_S = 86_400.0
_CLEANUP_S = 3600.0
_PAUSE_S = 0.1
"""Commits within this time share one query for new events."""
_UNSAVED = 1000
"""Events without notices after which the position is stored, to save reading them after a restart."""


class Notices:
    """Delivery of notices while it is started. Call `beat` after a commit."""

    def __init__(
        self,
        db: Database,
        sender: Sender,
        decrypt: Callable[[str], str],
        *,
        link: Callable[[str], str] = lambda job_id: "",
        mail_refusal: Callable[[str], str] = lambda address: "",
        backoff_s: Sequence[float] = BACKOFF_S,
        keep_s: float = 30 * _DAY_S,
    ) -> None:
        """`keep_s`: time for which finished notices stay, to be shown."""
        self.sender = sender
        self._db = db
        self._decrypt = decrypt
        self._link = link
        self._mail_refusal = mail_refusal
        self._backoff_s = backoff_s
        self._keep_s = keep_s
        self._seen = 0
        """ID of the last event that was read. It may be ahead of the stored position."""
        self._lock = threading.Lock()
        self._cleaned_at = -math.inf
        self._flying: dict[tuple[str, str], bool] = {}
        """Owner and target of each delivery in progress, and whether the recipient failed before."""
        self._trials: dict[str, deque[float]] = {}
        self._slots = threading.BoundedSemaphore(_TRIALS_AT_ONCE)
        self._thread = Background("notices", self._turn, trouble="notices could not be sent")

    @classmethod
    def of(cls, cluster: Cluster) -> Notices:
        settings = cluster.settings
        base = settings.public_url if isinstance(settings, Settings) else None

        def link(job_id: str) -> str:
            return f"{base.rstrip('/')}/jobs/{job_id}" if base else ""

        found = cls(
            cluster.db,
            Sender.of(settings, cluster.own_port),
            cluster.secrets.decrypt,
            link=link,
            mail_refusal=settings.mail_refusal,
            keep_s=settings.keep_notices * _DAY_S,
        )
        cluster.after_commit.append(found.beat)
        return found

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop. A delivery in progress may still arrive; it is sent again after the next start."""
        self._thread.close(timeout=1)

    def beat(self) -> None:
        self._thread.wake()

    def try_address(self, owner: str, address: Address, name: str) -> NoticeTry:
        """Send a trial notice now, once. Raises QuotaError."""
        self._count_trial(owner)
        text = f"This is a trial of {name}: no job has changed."
        payload = {"event": "test", "notice": "test", "id": 0, "job": None, "message": text, "text": text}
        with self._slot():
            return self._send(address, NoticeMessage(f"trial-{time.time_ns()}", "Schedulearn: trial", text, payload))

    def check(self, owner: str, address: Address) -> None:
        """Check an address without sending anything. Raises InvalidError and QuotaError."""
        self._count_trial(owner)
        if address.kind is AddressKind.MAIL:
            error = self._mail_refusal(address.text)
        else:
            with self._slot():
                error = self.sender.check(address)
        if error:
            raise InvalidError(error, field="address")

    def _count_trial(self, owner: str) -> None:
        """Count a request of an account that lets the service start a process or send something. Raises QuotaError."""
        now = time.monotonic()
        with self._lock:
            recent = self._trials.setdefault(owner, deque())
            while recent and recent[0] <= now - TRIALS_S:
                recent.popleft()
            if len(recent) >= TRIALS:
                raise QuotaError(
                    f"there were {TRIALS} trials and changes of addresses within an hour: wait, then try again",
                    retry_after=recent[0] + TRIALS_S - now,
                )
            recent.append(now)

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Limit the trials at once: each holds a thread of the API. Raises QuotaError."""
        if not self._slots.acquire(blocking=False):
            raise QuotaError("other trials are under way: try again in a few seconds", retry_after=5.0)
        try:
            yield
        finally:
            self._slots.release()

    def _turn(self) -> float | None:
        self._thread.rest(_PAUSE_S)
        if time.monotonic() - self._cleaned_at >= _CLEANUP_S and not self._db.write(
            partial(outbox.delete_old, before=time.time() - self._keep_s)
        ):
            self._cleaned_at = time.monotonic()
        more = self._queue()
        waits_s = self._launch()
        return 0.0 if more else waits_s

    def _queue(self) -> bool:
        """Move the next events to the outbox. Return whether there are more."""
        now = time.time()
        with self._db.read() as conn:
            stored = outbox.position(conn)
            found = outbox.find_notices(conn, max(stored, self._seen), now, self._link)
        found = found._replace(after=stored)
        if found.rows or found.until - stored > _UNSAVED:
            self._db.write(partial(outbox.store, found=found, now=now))
        self._seen = found.until
        return found.more

    def _launch(self) -> float:
        """Start deliveries that are due. Return the seconds until the next one is."""
        with self._db.read() as conn:
            rows = outbox.next_of_each(conn, _READ_OF_OWNER)
        now = time.time()
        for row in rows:
            if row.next_at <= now:
                self._fly(row)
        later = [row.next_at - now for row in rows if row.next_at > now]
        return float(min([_IDLE_S, *later]))

    def _fly(self, row: outbox.NoticeRow) -> None:
        """Deliver a notice in a thread, if there is room. The end of another delivery leads here again."""
        key, failing = (row.owner, row.target), row.tries > 0
        with self._lock:
            owners = Counter(owner for owner, _ in self._flying)
            full = len(self._flying) >= AT_ONCE or owners[row.owner] >= _OF_OWNER
            if full or key in self._flying or (failing and sum(self._flying.values()) >= _OF_FAILING):
                return
            self._flying[key] = failing
        threading.Thread(target=self._deliver, args=(key, row), name=f"notice-{row.id}", daemon=True).start()

    def _deliver(self, key: tuple[str, str], row: outbox.NoticeRow) -> None:
        try:
            try:
                error, is_final = self._try(row)
            except Exception:
                log.exception("notice %s could not be delivered", row.id)
                error, is_final = "it could not be sent: see the log of the service", False
            self._note(row, error, is_final)
        except Exception:
            if not self._thread.rest(TROUBLE_S):
                log.exception("the outcome of notice %s could not be stored", row.id)
        finally:
            with self._lock:
                self._flying.pop(key, None)
            self._thread.wake()

    def _try(self, row: outbox.NoticeRow) -> tuple[str, bool]:
        """Send a notice once. Return the error, and whether another try is useless."""
        if row.created_at < time.time() - MAX_AGE_S:
            return row.last_error or "it waited for a day", True
        kind, _, rest = row.target.partition(":")
        if kind == "mail":
            address = Address(AddressKind.MAIL, rest, rest)
        else:
            with self._db.read() as conn:
                channel = outbox.channel_by_id(conn, int(rest))
            if channel is None:
                return "the address was removed", True
            try:
                address = parse_address(self._decrypt(channel.address))
            except (StoreError, ValueError):
                return "its stored address can't be read: set it again", False
        return self._send(address, message_of(row)).error, False

    def _send(self, address: Address, message: NoticeMessage) -> NoticeTry:
        if address.kind is AddressKind.MAIL and (refusal := self._mail_refusal(address.text)):
            return NoticeTry(refusal, 0.0)
        return self.sender.send(address, message)

    def _note(self, row: outbox.NoticeRow, error: str, is_final: bool) -> None:
        now = time.time()
        is_last = is_final or row.tries >= len(self._backoff_s)
        again_at = None if not error or is_last else now + self._backoff_s[row.tries]

        def change(conn: Connection) -> None:
            outbox.note_try(conn, row, error, now, again_at=again_at, tries=row.tries + 1)

        while True:  # another try instead would deliver it twice
            try:
                return self._db.write(change)
            except StoreError:
                if self._thread.rest(_STORE_AGAIN_S):
                    return None
                log.exception("the outcome of notice %s could not be stored", row.id)


def message_of(row: outbox.NoticeRow) -> NoticeMessage:
    """Return what a recipient gets."""
    content: dict[str, Any] = row.content
    job = content["job"] or {}
    what = {"start": "has started", "hang": "seems to hang", "preemption": "lost its GPUs"}
    happened = what.get(row.event) or str(content["event"]).removeprefix("job.")
    if content["event"] == "job.maintenance":
        happened = "will lose its host to maintenance"
    name = job.get("name", row.job_id)
    lines = [f"Job {name} ({row.job_id}): {happened}.", content["message"], content["url"]]
    text = "\n".join([*filter(None, lines), "", f"Notice {row.id}, about event {row.event_id}"])
    delivery = f"notice-{row.id}-{row.created_at:.0f}"
    payload = {key: value for key, value in content.items() if key != "url"} | {"delivery": delivery}
    return NoticeMessage(delivery, f"Schedulearn: {name} {happened}", text, payload)
