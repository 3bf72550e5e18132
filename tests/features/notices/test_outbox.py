"""The outbox of notices: nothing lost and nothing twice, wherever the service is killed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from apis import FIVE_KEYS
from clusters import wait_for
from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.features import load_tables
from schedulearn.features.notices import outbox
from schedulearn.features.notices.addresses import Address
from schedulearn.features.notices.delivery import NoticeMessage, NoticeTry, Sender
from schedulearn.features.notices.mail import MailServer
from schedulearn.features.notices.worker import AT_ONCE, Notices
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.job_rows import insert_jobs, job_row
from schedulearn.scheduler.store.people.notices import Notice
from schedulearn.scheduler.store.repository import add_event


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    load_tables()
    made = Database(database_url)
    yield made
    made.close()


class Recorder(Sender):
    """Sender that records what it is given. `answers`: by address, the error of each try; the last one for ever."""

    def __init__(self) -> None:
        super().__init__(MailServer("", 25, "off", "schedulearn@lab.org"))
        self.got: list[tuple[str, NoticeMessage]] = []
        self.answers: dict[str, list[str]] = {}
        self.before: Callable[[str], None] = lambda address: None
        self.after: Callable[[], None] = lambda: None

    def send(self, address: Address, message: NoticeMessage) -> NoticeTry:
        self.before(address.text)
        answers = self.answers.get(address.text, [""])
        error = answers.pop(0) if len(answers) > 1 else answers[0]
        self.got.append((address.text, message))
        self.after()
        return NoticeTry(error, 0.0)


class Killed(Exception):
    """The service is gone: nothing is stored or sent any more."""


class Mortal:
    """Database and sender of a service that is killed at its side effect number `at`, before or after it."""

    def __init__(self, database: Database, at: int, *, is_done: bool) -> None:
        self.dead = threading.Event()
        self.killed_after_sending = False
        self._database = database
        self._at, self._is_done = at, is_done
        self._count = 0
        self._lock = threading.Lock()
        self.sender = Recorder()
        self.sender.before = lambda address: self._enter()
        self.sender.after = lambda: self._leave(sends=True)
        self.read = database.read

    def write(self, change: Callable[[Connection], Any]) -> Any:
        self._enter()
        found = self._database.write(change)
        self._leave(sends=False)
        return found

    def _enter(self) -> None:
        with self._lock:
            self._count += 1
            if self.dead.is_set() or (self._count == self._at and not self._is_done):
                self.dead.set()
                raise Killed

    def _leave(self, *, sends: bool) -> None:
        with self._lock:
            if self._count == self._at and self._is_done:
                self.killed_after_sending = sends
                self.dead.set()
                raise Killed


def submit(database: Database, job_id: str, *, ended: Reason | None = Reason.COMPLETED, **keys: Any) -> None:
    """Store a job that has run, and its events."""

    def change(conn: Connection) -> None:
        spec = JobSpec(**{**FIVE_KEYS, "user": "ada", **keys})
        insert_jobs(conn, [({**job_row(spec, 0.0), "id": job_id}, spec.user)])
        add_event(conn, 1.0, "job.running", code="container_running", message="It runs.", job_id=job_id)
        if ended is not None:
            add_event(conn, 2.0, f"job.{ended.to_state()}", code=ended, message="It ended.", job_id=job_id)

    database.write(change)


def states(database: Database) -> Counter[str]:
    with database.read() as conn:
        return Counter(conn.execute(select(col(Notice.state))).scalars())


def served(database: Any, sender: Sender, **more: Any) -> Notices:
    return Notices(database, sender, lambda stored: stored, **more)


SIDE_EFFECTS = 6
"""At the start one deletes old notices, one fills the outbox; then two notices are sent and recorded."""


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, SIDE_EFFECTS + 1))
def test_a_kill_at_any_side_effect_loses_nothing(database: Database, at: int, is_done: bool) -> None:
    """Twice, with the same id, comes only what was sent and not recorded."""
    submit(database, "one", notify=["ada@lab.org"], notify_on=["start", "end"])
    mortal = Mortal(database, at, is_done=is_done)
    first = served(mortal, mortal.sender)
    first.start()
    wait_for(mortal.dead.is_set, what="the kill")
    first.close()
    second_sender = Recorder()
    second = served(database, second_sender)
    second.start()
    wait_for(lambda: states(database) == {"sent": 2}, what="both to be sent")
    second.close()
    ids = Counter(message.id for _, message in mortal.sender.got + second_sender.got)
    assert len(ids) == 2
    # The receiver had it in these cases, and the service no record of it.
    sent_and_not_recorded = mortal.killed_after_sending or (not is_done and at in (4, 6))
    assert sorted(ids.values()) == ([1, 2] if sent_and_not_recorded else [1, 1])


def test_failures_are_tried_again_in_order_and_given_up(database: Database) -> None:
    sender = Recorder()
    sender.answers["ada@lab.org"] = ["busy", "busy", "busy", ""]
    submit(database, "one", notify=["ada@lab.org"], notify_on=["start", "end"])
    notices = served(database, sender, backoff_s=(0.01, 0.01))
    notices.start()
    wait_for(lambda: states(database) == {"failed": 1, "sent": 1}, what="one given up, one sent")
    notices.close()
    kinds = [message.payload["notice"] for _, message in sender.got]
    assert kinds == ["start", "start", "start", "end"]
    with database.read() as conn:
        events = [event for event in outbox.repository.list_events(conn, job_id="one") if event.kind == "job.notice"]
    assert [(event.code, "not accepted in 3 tries" in event.message) for event in events] == [("notice_failed", True)]


def test_an_event_names_no_recipient_and_no_answer_of_its_server(database: Database) -> None:
    """Other users read the events of a job, but not its recipients."""
    sender = Recorder()
    sender.answers["ada@lab.org"] = ["the mail server answered 550 <ada@lab.org>: User unknown"]
    submit(database, "one", notify=["ada@lab.org"])
    notices = served(database, sender, backoff_s=())
    notices.start()
    wait_for(lambda: states(database) == {"failed": 1}, what="the notice to be given up")
    notices.close()
    with database.read() as conn:
        events = outbox.repository.list_events(conn, job_id="one")
        (given_up,) = outbox.notices_of_job(conn, "one", 10)
    assert "notice_failed" in {event.code for event in events}
    assert not [event for event in events if "ada@lab.org" in event.message or "550" in event.message]
    assert "550" in given_up.last_error, "its user sees it"


def test_recipients_that_hang_leave_room_for_others(database: Database) -> None:
    sender, release = Recorder(), threading.Event()

    def hang(address: str) -> None:
        if address.startswith("hang"):
            release.wait(60)

    sender.before = hang
    for number in range(AT_ONCE // 2 - 1):
        for job in ("a", "b", "c"):
            recipients = [f"hang-{job}@lab.org"]
            submit(database, f"{job}{number}", user=f"user-{number}", notify=recipients)
    submit(database, "fine", user="fine", notify=["fine@lab.org"])
    notices = served(database, sender)
    notices.start()
    wait_for(lambda: states(database)["sent"] == 1, what="the one that works")
    release.set()
    wait_for(lambda: set(states(database)) == {"sent"}, what="all")
    notices.close()


def test_many_recipients_of_an_account_all_get_theirs_and_few_are_read_at_once(database: Database) -> None:
    """Otherwise one user's batch makes each delivery read all that wait."""
    sender = Recorder()
    for number in range(6):
        addresses = [f"{way}-{number}-{place}@lab.org" for place, way in enumerate(("works", "works", "later"))]
        sender.answers |= {address: ["busy", ""] for address in addresses if address.startswith("later")}
        submit(database, f"job-{number}", notify=addresses)
    now = time.time()
    with database.read() as conn:
        found = outbox.find_notices(conn, 0, now, lambda job_id: "")
    database.write(lambda conn: outbox.store(conn, found, now))
    with database.read() as conn:
        assert [row.id for row in outbox.next_of_each(conn, 4)] == [1, 2, 3, 4]
    notices = served(database, sender, backoff_s=(0.01, 0.01))
    notices.start()
    wait_for(lambda: states(database) == {"sent": 18}, what="all")
    notices.close()


def test_the_notices_of_a_job_are_bounded_and_its_end_is_always_told(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_PER_JOB", 5)
    submit(database, "one", ended=None, notify=["ada@lab.org"], notify_on=["hang", "end"])

    def hangs(conn: Connection) -> None:
        for number in range(outbox.MAX_PER_JOB + 50):
            add_event(conn, 2.0 + number, "job.hung", message="It hangs.", job_id="one")
        add_event(conn, 999.0, "job.failed", code="command_failed", message="It failed.", job_id="one")

    database.write(hangs)
    sender = Recorder()
    notices = served(database, sender)
    notices.start()
    wait_for(lambda: states(database) == {"sent": outbox.MAX_PER_JOB + 1}, what="all that there may be")
    notices.close()
    assert sender.got[-1][1].payload["notice"] == "failure"
    with database.read() as conn:
        limits = [each for each in outbox.repository.list_events(conn, job_id="one") if each.code == "notice_limit"]
    assert len(limits) == 1


EVENTS: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("job.succeeded", "completed", {}, ["end"]),
    ("job.failed", "command_failed", {}, ["failure"]),
    ("job.timeout", "time_limit", {}, ["failure"]),
    ("job.cancelled", "cancelled", {}, ["end"]),
    ("job.hung", "idle", {}, ["hang"]),
    ("job.queued", "preempted", {}, ["preemption"]),
    ("job.queued", "host_lost", {}, ["preemption"]),
    ("job.queued", "retry", {}, []),
    ("job.queued", "submitted", {}, []),
    ("job.resizing", "evicted", {}, ["preemption"]),
    ("job.resizing", "resize_requested", {"allocation": {}}, ["preemption"]),
    ("job.resizing", "resize_requested", {"allocation": {"local": 1}}, []),
    ("job.running", "container_running", {}, []),
    ("job.priority", "", {}, []),
]


@pytest.mark.parametrize(("kind", "code", "data", "names"), EVENTS)
def test_which_event_is_which_notice(
    database: Database, kind: str, code: str, data: dict[str, Any], names: list[str]
) -> None:
    """The job ran before, so this is not its first start."""
    everything = ["end", "failure", "hang", "start", "preemption"]
    submit(database, "one", ended=None, notify=["ada@lab.org"], notify_on=everything)
    with database.read() as conn:
        seen = outbox.repository.last_event_id(conn)
    database.write(lambda conn: add_event(conn, 2.0, kind, code=code, message="So.", job_id="one", data=data))
    with database.read() as conn:
        found = outbox.find_notices(conn, seen, 3.0, lambda job_id: "")
    assert [row["event"] for row in found.rows] == names
