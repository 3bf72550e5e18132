"""Old events and old jobs are deleted in bounded steps, and what is still needed stays."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from clusters import FakeCluster, spec
from sqlalchemy import func, insert, select, update
from sqlmodel import col

from schedulearn.scheduler.control import retention
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.models import Event, Job

DAY_S = 86_400.0


def add_old_events(c: FakeCluster, count: int, *, kind: str = "host.seen", job_id: str | None = None) -> None:
    at = time.time() - 100 * DAY_S
    rows = [{"at": at, "kind": kind, "data": {}, "job_id": job_id} for _ in range(count)]
    c.cluster.db.write(lambda conn: conn.execute(insert(Event), rows))


def old_events(c: FakeCluster) -> int:
    with c.cluster.db.read() as conn:
        before = time.time() - 50 * DAY_S
        return conn.execute(select(func.count()).select_from(Event).where(col(Event.at) < before)).scalar() or 0


def end_long_ago(c: FakeCluster, job_id: str, days: float) -> None:
    ended = {"submitted_at": time.time() - days * DAY_S, "finished_at": time.time() - days * DAY_S}
    c.cluster.db.write(lambda conn: conn.execute(update(Job).where(col(Job.id) == job_id).values(**ended)))


def ids(c: FakeCluster) -> set[str]:
    with c.cluster.db.read() as conn:
        return set(conn.execute(select(col(Job.id))).scalars())


def test_old_events_go_in_steps_and_counters_do_not_fall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "EVENTS", 10)
    with FakeCluster(tmp_path, settings=ClusterSettings(keep_events=30)) as c:
        add_old_events(c, 25)
        add_old_events(c, 3, kind="job.resizing")
        [job] = c.submit()
        c.wait(job, "running")
        add_old_events(c, 12, job_id=job)
        add_old_events(c, 5)
        assert c.cluster.retention.step() is True
        assert 35 <= old_events(c) < 45, "one step is bounded"
        while c.cluster.retention.step():
            pass
        assert old_events(c) == 12, "those of a job that runs stay, and hold up no others"
        with c.cluster.db.read() as conn:
            assert repository.count_resizes(conn) == 3
            assert conn.execute(select(col(Event.kind)).where(col(Event.job_id) == job)).scalars().first() is not None
        c.cluster.service.cancel(job)
        c.wait(job, "cancelled")
        while c.cluster.retention.step():
            pass
        assert old_events(c) == 0


def test_events_stay_where_nothing_else_is_set(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=ClusterSettings(keep_events=0)) as c:
        add_old_events(c, 5)
        assert c.cluster.retention.step() is False
        assert old_events(c) == 5


def test_old_jobs_go_after_their_outputs_and_only_if_nothing_needs_them(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=ClusterSettings(keep_jobs=10, keep_outputs=20)) as c:
        old, young, swept, needed = c.submit(*(spec(gpus=1) for _ in range(4)))
        for job in (old, young, swept, needed):
            c.cluster.service.cancel(job)
            c.wait(job, "cancelled")
        [waits] = c.submit(spec(gpus=1, after={"jobs": [needed], "when": "any"}, hold=True))
        for job, days in ((old, 25), (young, 15), (swept, 25), (needed, 25)):
            end_long_ago(c, job, days)
        c.cluster.db.write(lambda conn: conn.execute(update(Job).where(col(Job.id) == swept).values(sweep="some")))
        c.cluster.retention.step()
        assert ids(c) == {young, swept, needed, waits}
        with c.cluster.db.read() as conn:
            assert repository.deleted_of(conn, "jobs") == 1
            kinds = set(conn.execute(select(col(Event.kind)).where(col(Event.job_id) == old)).scalars())
        assert {"job.queued", "job.deleted"} <= kinds, "its events stay"


def test_a_job_whose_container_is_still_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "JOBS", 1)
    with FakeCluster(tmp_path, settings=ClusterSettings(keep_jobs=10)) as c:
        first, second, third = c.submit(*(spec(gpus=1) for _ in range(3)))
        for job in (first, second, third):
            c.cluster.service.cancel(job)
            c.wait(job, "cancelled")
            end_long_ago(c, job, 60)
        c.cluster.retention._shows = lambda job_id: job_id == first
        assert c.cluster.retention.step() is True, "one in a step"
        assert len(ids(c)) == 2
        c.cluster.retention.step()
        assert ids(c) == {first}
