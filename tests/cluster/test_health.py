"""Whether the service does its work, as `/healthz` tells it."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import serve_api
from clusters import FakeCluster, wait_for
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.control import loop
from schedulearn.scheduler.control.loop import SchedulerLoop
from schedulearn.scheduler.errors import FailingError, StalledError, StartingError


@pytest.fixture
def c(tmp_path: Path) -> Iterator[FakeCluster]:
    with FakeCluster(tmp_path) as made:
        wait_for(lambda: made.cluster.trouble is None, what="the first cycle")
        yield made


def test_a_service_is_starting_until_its_first_cycle_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, turn = threading.Event(), SchedulerLoop.turn
    monkeypatch.setattr(SchedulerLoop, "turn", lambda self: gate.wait(60) and turn(self))
    with FakeCluster(tmp_path) as c:
        assert isinstance(c.cluster.trouble, StartingError)
        gate.set()
        wait_for(lambda: c.cluster.trouble is None, what="the first cycle")


def test_cycles_that_fail_are_told_until_one_succeeds(c: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_RETRY_S", 0.05)

    def fail() -> Any:
        raise RuntimeError("a secret of the engine")

    monkeypatch.setattr(c.cluster.loop, "_quotas", fail)
    c.poke()
    found = wait_for(lambda: c.cluster.trouble, what="the trouble")
    assert isinstance(found, FailingError)
    assert "secret" not in str(found)
    monkeypatch.undo()
    wait_for(lambda: c.cluster.trouble is None, what="the end of the trouble")  # without a wake-up


def test_a_cycle_that_hangs_is_told_until_it_goes_on(c: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, quotas, monotonic = threading.Event(), c.cluster.loop._quotas, c.cluster.loop._monotonic
    begun = threading.Event()

    def hang() -> Any:
        begun.set()
        gate.wait(60)
        return quotas()

    monkeypatch.setattr(c.cluster.loop, "_quotas", hang)
    c.poke()
    assert begun.wait(60)
    assert c.cluster.trouble is None, "it may take a while"
    monkeypatch.setattr(c.cluster.loop, "_monotonic", lambda: monotonic() + 2 * c.cluster.loop.interval_s + 1)
    assert isinstance(c.cluster.trouble, StalledError)
    gate.set()
    wait_for(lambda: c.cluster.trouble is None, what="the end of the trouble")


def test_healthz_answers_503_with_a_code_and_recovers_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Cluster] = []
    start = Cluster.start
    monkeypatch.setattr(Cluster, "start", lambda self: (made.append(self), start(self)))
    full = True

    def commit(_: Any) -> None:
        if full:
            raise OperationalError("COMMIT", None, Exception("disk I/O error"))

    with serve_api(tmp_path) as api:
        assert api.http.get("/healthz").json()["status"] == "ok"
        event.listen(made[0].db.engine, "commit", commit)
        body = {"name": "j", "type": "t", "container_image": "i", "command": "c", "required_gpus": 1}
        assert api.http.post("/api/v1/jobs", json=body).status_code == 503
        answer = api.http.get("/healthz")
        assert (answer.status_code, answer.json()["code"]) == (503, "database_unwritable")
        assert answer.headers["content-type"] == "application/problem+json"
        assert "I/O" not in answer.text
        full = False
        wait_for(lambda: api.http.get("/healthz").status_code == 200, seconds=10, what="a write that succeeds")
        api.submit()
