"""Webhooks against real receivers: what arrives, signed and in order; nothing lost over failures and restarts."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from apis import Api, serve_api
from clusters import wait_for
from matrices import each

from schedulearn.api.outgoing.http_post import TIMEOUT_S
from schedulearn.api.outgoing.targets import WebhookTargets
from schedulearn.features.webhooks import table as store
from schedulearn.features.webhooks.spec import EVENTS, MEANINGS, WebhookSpec
from schedulearn.features.webhooks.worker import Webhooks
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.repository import add_event

HERE = ["127.0.0.0/8"]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, webhook_networks=HERE) as served:
        yield served


class Receiver:
    """A real HTTP server. `answers`: statuses to give, the last one for ever; None: it never answers."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int | None] = [200]
        self.hang = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.got.append(({key.lower(): value for key, value in self.headers.items()}, body))
                status = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                if status is None:
                    outer.hang.wait(30)
                    return
                self.send_response(status)
                self.send_header("location", "http://127.0.0.1:1/")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook"

    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body in self.got]

    def close(self) -> None:
        self.hang.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def add(api: Api, url: str, **fields: Any) -> dict[str, Any]:
    answer = api.http.post("/api/v1/webhooks", json={"url": url, **fields})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def one(api: Api, webhook_id: int) -> dict[str, Any]:
    items = api.http.get("/api/v1/webhooks").json()["items"]
    return next(item for item in items if item["id"] == webhook_id)


def test_the_end_of_a_job_is_told_with_who_it_was_and_signed(api: Api, receiver: Receiver) -> None:
    job = api.submit(user="ada", labels={"team": "vision"})
    api.wait(job, "running")
    hook = add(api, receiver.url, events=["job.ended"], secret="hush hush")
    assert hook["signed"] is True
    assert "hush" not in api.http.get("/api/v1/webhooks").text
    api.http.post(f"/api/v1/jobs/{job}/cancel")
    wait_for(lambda: receiver.got, what="a delivery")
    headers, body = receiver.got[0]
    told = json.loads(body)
    assert (told["event"], told["webhook"], told["host"]) == ("job.cancelled", hook["id"], None)
    assert told["job"]["id"] == job
    assert (told["job"]["name"], told["job"]["user"], told["job"]["labels"]) == ("digits", "ada", {"team": "vision"})
    assert told["text"].startswith("Schedulearn: digits: ")
    expected = hmac.new(b"hush hush", body, hashlib.sha256).hexdigest()
    assert headers["x-schedulearn-signature"] == f"sha256={expected}"
    assert headers["x-schedulearn-event"] == "job.cancelled"
    assert headers["x-schedulearn-delivery"] == f"{hook['id']}-{told['id']}"
    wait_for(lambda: one(api, hook["id"])["delivered"] == 1)
    assert one(api, hook["id"])["last"]["status"] == 200
    assert len(receiver.got) == 1, "what came before it was added, and what it did not ask for, is not sent"


def test_a_dead_receiver_delays_nobody(api: Api, receiver: Receiver) -> None:
    dead = Receiver()
    dead.answers = [None]
    try:
        add(api, dead.url, events=["policy.changed"])
        add(api, receiver.url, events=["policy.changed"])
        for algorithm in ("las", "fifo", "las"):
            assert api.http.put("/api/v1/policy", json={"algorithm": algorithm}).status_code == 200
        began = time.monotonic()
        wait_for(lambda: len(receiver.got) == 3, what="all three")
        job = api.submit()
        api.wait(job, "running")
        assert time.monotonic() - began < TIMEOUT_S
        assert len(dead.got) == 1
        assert [told["data"]["algorithm"] for told in receiver.bodies()] == ["las", "fifo", "las"]
    finally:
        dead.close()


def test_a_test_is_sent_at_once_and_tells_what_was_answered(api: Api, receiver: Receiver) -> None:
    hook = add(api, receiver.url)
    path = f"/api/v1/webhooks/{hook['id']}"
    assert api.http.post(f"{path}/test").json()["ok"] is True
    assert receiver.bodies()[0]["event"] == "test"
    receiver.answers = [301]
    assert "redirections are not followed" in api.http.post(f"{path}/test").json()["error"]
    receiver.answers = [500]
    answer = api.http.post(f"{path}/test").json()
    assert (answer["ok"], answer["status"], answer["error"]) == (False, 500, "it answered 500")
    assert one(api, hook["id"])["last"]["error"] == "it answered 500"

    gone = add(api, "http://127.0.0.1:1/")
    answer = api.http.post(f"/api/v1/webhooks/{gone['id']}/test").json()
    assert (answer["ok"], answer["status"]) == (False, None)
    assert "refused" in answer["error"].lower()


def test_paused_it_gets_nothing_and_removed_it_is_gone(api: Api, receiver: Receiver) -> None:
    hook = add(api, receiver.url, events=["policy.changed"])
    path = f"/api/v1/webhooks/{hook['id']}"
    assert api.http.patch(path, json={"active": False}).json()["active"] is False
    api.http.put("/api/v1/policy", json={"algorithm": "las"})
    assert api.http.patch(path, json={"active": True}).json()["active"] is True
    api.http.put("/api/v1/policy", json={"algorithm": "fifo"})
    wait_for(lambda: receiver.got)
    assert [told["data"]["algorithm"] for told in receiver.bodies()] == ["fifo"]
    assert api.http.delete(path).status_code == 204
    for method, where in (("DELETE", path), ("PATCH", path), ("POST", f"{path}/test")):
        assert api.http.request(method, where, json={"active": True}).status_code == 404
    told = [event["kind"] for event in api.http.get("/api/v1/events:search?kind=webhook.").json()["items"]]
    assert told == ["webhook.removed", "webhook.changed", "webhook.changed", "webhook.added"]


@each(
    [
        ({"url": "ftp://x/"}, "url", "must begin with http"),
        ({"url": "chat.example.org/hook"}, "url", "must begin with http"),
        ({"url": "http://"}, "url", "names no host"),
        ({"url": "http://[::1/"}, "url", "is not a valid URL"),
        ({"url": "http://x:port/"}, "url", "is not a valid URL"),
        ({"url": "https://me:pw@chat.example.org/"}, "url", "user name or password"),
        ({"url": "https://chat.example.org/a b"}, "url", "%XX"),
        ({"url": "https://bücher.example/"}, "url", "%XX"),
        ({"url": "https://x/" + "a" * 2000}, "url", "2000"),
        ({"url": "https://x/", "events": []}, "events", "at least 1"),
        ({"url": "https://x/", "events": ["job.vanished"]}, "events", "choose from job.running, job.ended"),
        ({"url": "https://x/", "sekret": "x"}, "sekret", "did you mean 'secret'"),
        ({}, "url", "is missing"),
    ],
    "body",
    "field",
    "words",
)
def test_what_can_not_be_called_is_refused(api: Api, body: dict[str, Any], field: str, words: str) -> None:
    answer = api.http.post("/api/v1/webhooks", json=body)
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["field"] == field
    assert words in error["message"]
    assert api.http.get("/api/v1/webhooks").json()["items"] == []


def test_every_event_has_a_meaning() -> None:
    assert EVENTS.keys() == MEANINGS.keys()


def tell(db: Database, *words: str) -> None:
    db.write(lambda c: [add_event(c, time.time(), "policy.changed", message=word) for word in words])


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(sqlite_url(tmp_path))
    yield made
    made.close()


def messages(receiver: Receiver) -> list[str]:
    return [told["message"] for told in receiver.bodies()]


def test_what_failed_is_tried_again_in_order_and_given_up_after_a_while(database: Database, receiver: Receiver) -> None:
    receiver.answers = [500, 503, 200, 500, 500, 500, 500, 200]
    spec = WebhookSpec(url=receiver.url, events=["policy.changed"])
    hook = database.write(lambda c: store.add_webhook(c, spec, 0.0)).id
    sender = Webhooks(database, targets=WebhookTargets(HERE), backoff_s=(0.01, 0.01, 0.01))
    sender.start()
    tell(database, "one", "two", "three")
    sender.beat()
    wait_for(lambda: "three" in messages(receiver))
    assert messages(receiver) == ["one"] * 3 + ["two"] * 4 + ["three"]
    deliveries = [headers["x-schedulearn-delivery"] for headers, _ in receiver.got]
    assert len(set(deliveries)) == 3, "a try again is known by its id"
    wait_for(lambda: row(database, hook).delivered == 2)
    sender.close()
    assert (row(database, hook).given_up, row(database, hook).tries) == (1, 0)
    with database.read() as c:
        [event] = [e for e in c.exec_driver_sql("SELECT * FROM event") if e.kind == "webhook.gave_up"]
    assert "did not accept policy.changed (" in event.message
    assert "in 4 tries: it answered 500" in event.message


def test_nothing_is_lost_over_a_restart(database: Database, receiver: Receiver) -> None:
    receiver.answers = [500]
    spec = WebhookSpec(url=receiver.url, events=["policy.changed"])
    hook = database.write(lambda c: store.add_webhook(c, spec, 0.0)).id
    first = Webhooks(database, targets=WebhookTargets(HERE), backoff_s=(60.0,) * 5)
    first.start()
    tell(database, "one")
    first.beat()
    wait_for(lambda: row(database, hook).tries == 1)
    first.close()
    tell(database, "two")  # while nobody delivers
    receiver.answers = [200]
    second = Webhooks(database, targets=WebhookTargets(HERE), backoff_s=(60.0,) * 5)
    second.start()
    wait_for(lambda: row(database, hook).delivered == 2)
    second.close()
    assert messages(receiver) == ["one", "one", "two"]


def row(database: Database, webhook_id: int) -> Any:
    with database.read() as c:
        return store.get_webhook(c, webhook_id)


def test_webhooks_of_a_service_go_on_after_its_restart(tmp_path: Path, receiver: Receiver) -> None:
    with serve_api(tmp_path, webhook_networks=HERE) as api:
        add(api, receiver.url, events=["job.ended"])
    with serve_api(tmp_path, webhook_networks=HERE) as api:
        job = api.submit()
        api.http.post(f"/api/v1/jobs/{job}/cancel")
        wait_for(lambda: receiver.got)
    assert receiver.bodies()[0]["job"]["id"] == job
