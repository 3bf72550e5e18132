"""A family whose jobs become slower: what is learned of it begins anew, and one can go back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import Api, serve_api
from clusters import FakeCluster, spec, wait_for
from sqlalchemy import insert, select
from sqlmodel import col

from schedulearn.features.sweeps import past_runs
from schedulearn.scheduler.core.predictions.drift import BEFORE, RECENT, Drift
from schedulearn.scheduler.core.predictions.lengths import Prediction
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store import history
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job
from schedulearn.scheduler.store.people.kin import Kin
from schedulearn.scheduler.store.predictions import lengths, versions

KIN = Kin("f", "")
BEGAN = 1_000_000.0
DAY = 86_400.0


def add_ended(db: Database, like: str, took: list[float], *, predicted: float | None, first: int = 0) -> None:
    """Jobs like one that is there, which ended a second after each other; `predicted` when they came."""

    def change(conn: Any) -> None:
        job = dict(conn.execute(select(Job).where(col(Job.id) == like)).one()._mapping)
        for at, seconds in enumerate(took, first):
            row = {**job, "id": f"past{at:04}", "state": "succeeded", "finished_at": BEGAN + at, "sweep": None}
            conn.execute(insert(Job), [{**row, "gpu_seconds": seconds, "run_seconds": seconds, "attempt": 1}])
            if predicted is not None:
                found = {row["id"]: Prediction(predicted, 0.8 * predicted, 1.25 * predicted, 1)}
                lengths.remember(conn, Kin(job["family"], job["user"]), found, BEGAN + at - 1)

    db.write(change)


def known(c: FakeCluster) -> list[versions.ModelVersion]:
    with c.cluster.db.read() as db:
        return versions.versions(db, KIN)


def end_one(c: FakeCluster) -> None:
    """A job of the family is cancelled: that predictions are looked at, and nothing more is learned."""
    [job] = c.submit(spec(family="f"))
    c.wait(job, "running")
    c.cluster.service.cancel(job)
    c.wait(job, "cancelled")


def length_of_next(c: FakeCluster) -> float:
    [job] = c.submit(spec(family="f"))
    found = wait_for(lambda: c.cluster.profiles.length_of(job), what="its length")
    c.cluster.service.cancel(job)
    c.wait(job, "cancelled")
    return float(found.value)


def test_a_family_that_becomes_slower_is_learned_anew_and_one_can_go_back(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [template] = c.submit(spec(family="f"))
        c.wait(template, "running")
        add_ended(c.cluster.db, template, [100.0] * BEFORE, predicted=100.0)
        end_one(c)
        wait_for(lambda: _settled(c) == BEFORE, what="what came of each")
        assert known(c) == [], "nothing has become worse"

        add_ended(c.cluster.db, template, [300.0] * RECENT, predicted=100.0, first=BEFORE)
        end_one(c)
        [old, new] = wait_for(lambda: known(c), what="another version")
        assert (old.number, old.since, old.until, old.in_use) == (1, None, BEGAN + BEFORE, False)
        assert (new.number, new.since, new.until, new.in_use) == (2, BEGAN + BEFORE, None, True)
        assert "factor of at least 3.00; before, 90 % were off by at most 1.00" in new.why
        with c.cluster.db.read() as db:
            assert [versions.samples_in(db, each) for each in (old, new)] == [BEFORE, RECENT]
        assert length_of_next(c) == pytest.approx(300.0), "only jobs since then count"

        c.cluster.db.write(lambda db: versions.pin(db, KIN, 1, BEGAN + DAY))
        c.cluster.profiles.relearn("f")
        assert length_of_next(c) == pytest.approx(100.0), "what was before it became worse counts again"
        assert [(each.in_use, each.pinned) for each in known(c)] == [(True, True), (False, False)]

        c.cluster.db.write(lambda db: versions.unpin(db, KIN, BEGAN + 2 * DAY))
        c.cluster.profiles.relearn("f")
        assert length_of_next(c) == pytest.approx(300.0)
        assert [(each.in_use, each.pinned) for each in known(c)] == [(False, False), (True, False)]
        with c.cluster.db.read() as db:
            events = history.search_events(db, about="family:f").rows
        assert [event.kind for event in events] == ["predictions.unpinned", "predictions.pinned"]


def _settled(c: FakeCluster) -> int:
    with c.cluster.db.read() as db:
        return lengths.calibration(db, "f").compared


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Database]:
    """Forty jobs of a family that ended, of which the last ten took three times as long as predicted."""
    with FakeCluster(tmp_path) as c:
        [template] = c.submit(spec(family="f"))
        c.wait(template, "running")
        took = [100.0] * BEFORE + [300.0] * RECENT
        add_ended(c.cluster.db, template, took, predicted=100.0)
        yield c.cluster.db


def test_a_pinned_version_stays_and_a_new_one_needs_predictions_of_its_own(stored: Database) -> None:
    def settle(conn: Any) -> None:
        lengths.settle(conn, lengths.ended_since(conn, "f"))

    stored.write(settle)
    assert stored.write(lambda db: lengths.renew_version(db, KIN, BEGAN + DAY))
    assert not stored.write(lambda db: lengths.renew_version(db, KIN, BEGAN + DAY)), "those were another's predictions"
    stored.write(lambda db: versions.pin(db, KIN, 1, 0.0))
    assert not stored.write(lambda db: lengths.renew_version(db, KIN, BEGAN + DAY)), "it is pinned"


def test_only_versions_that_are_there_and_have_jobs_can_be_pinned(stored: Database) -> None:
    with pytest.raises(NotFoundError, match="has no version 1: all of its jobs are used"):
        stored.write(lambda db: versions.pin(db, KIN, 1, BEGAN))
    stored.write(lambda db: versions.begin(db, KIN, Drift(BEGAN - 1, 1.0, 3.0), BEGAN))
    with pytest.raises(NotFoundError, match="there are 1, 2"):
        stored.write(lambda db: versions.pin(db, KIN, 3, BEGAN))
    with pytest.raises(ConflictError, match="no job of version 1"):
        stored.write(lambda db: versions.pin(db, KIN, 1, BEGAN))
    with stored.read() as db:
        assert [each.in_use for each in versions.versions(db, KIN)] == [False, True], "a refused request stores nothing"


def test_so_many_versions_are_kept_at_most(stored: Database) -> None:
    for at in range(versions.MAX_VERSIONS + 3):
        stored.write(lambda db, at=at: versions.begin(db, KIN, Drift(BEGAN + at, 1.0, 3.0), BEGAN + DAY))
    with stored.read() as db:
        found = versions.versions(db, KIN)
        assert [each.number for each in found] == [*range(5, 5 + versions.MAX_VERSIONS)]
        assert [each.in_use for each in found] == [False] * (versions.MAX_VERSIONS - 1) + [True]
        assert len(lengths.ended_jobs(db, KIN)) == BEFORE + RECENT - versions.MAX_VERSIONS - 2


def test_errors_are_shown_by_family_over_a_window(stored: Database) -> None:
    stored.write(lambda db: lengths.settle(db, lengths.ended_since(db, "f")))
    with stored.read() as db:
        [(family, last)] = lengths.calibrations(db, "", RECENT, 10)
        assert (family, last.compared, last.held, last.median_factor) == ("f", RECENT, 0, 3.0)
        assert last.mean_error == pytest.approx(2 / 3)
        assert lengths.calibrations(db, "somebody else", RECENT, 10) == []
        assert lengths.calibration(db, "f", RECENT) == last
        whole = lengths.calibration(db, "f")
        assert (whole.compared, whole.held, whole.mean_error) == (BEFORE + RECENT, BEFORE, pytest.approx(1 / 6))


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path) as served:
        yield served


def test_what_the_api_says_of_versions(api: Api) -> None:
    assert api.http.get("/api/v1/predictions/families").json()["items"] == []
    asked = {"family": "nobody's"}
    assert api.http.get("/api/v1/predictions/versions", params=asked).json() == {**asked, "items": []}
    answer = api.http.put("/api/v1/predictions/versions", json={**asked, "version": 1})
    assert (answer.status_code, "has no version 1" in answer.text) == (404, True)
    assert api.http.put("/api/v1/predictions/versions", json={**asked, "version": None}).json()["items"] == []
    assert api.http.put("/api/v1/predictions/versions", json=asked).status_code == 422, "null must be said"


def test_advice_rests_on_the_version_in_use(stored: Database) -> None:
    """Its jobs held no GPUs in the database, so that only the query tells."""
    stored.write(lambda db: versions.begin(db, KIN, Drift(BEGAN + BEFORE, 1.0, 3.0), BEGAN))
    with stored.read() as db:
        ended = [each.gpu_seconds for each in lengths.ended_jobs(db, KIN)]
        assert ended == [300.0] * RECENT
        assert past_runs.past_runs(db, "", "accuracy", 100) == []
