"""What a resize gained and cost, as its job's events tell it."""

from pathlib import Path
from typing import Any

from builders import job as view_of
from builders import job_record

from schedulearn.scheduler.control.resize_log import MEASURED, UNMEASURED, outcome, tell_resizes
from schedulearn.scheduler.core.planning.snapshot import UNREPORTED_S
from schedulearn.scheduler.reports.records import MeasuredPasses
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database, sqlite_url

RESIZED = job_record("a", resized_from={"h1": 1}, resized_at=100.0)


def seen(gpus: int, step: float, at: float, batch: int = 32) -> MeasuredPasses:
    return MeasuredPasses("a100", 1, gpus, batch, passes=9, grad_time=step / 2, iter_time=step, at=at)


def tell(*rows: Any, held: float = 50.0, stalls: Any = (), job: Any = RESIZED, on: Any = None) -> Any:
    view = view_of("a", elastic=True, allocation=on or {"h1": 2}, held_seconds=held)
    return outcome(job, view, rows, stalls)


def test_it_is_told_once_the_new_allocation_was_measured() -> None:
    before = seen(1, 0.30, 90.0)
    assert tell(before) is None
    assert tell(before, seen(2, 0.3, 95.0), stalls=[[5.0, 3.0, 108.0]]) is None, "measured before the resize"
    found = tell(before, seen(2, 0.32, 120.0), stalls=[[1.0, 9.0, 20.0], [5.0, 3.5, 108.0]])
    assert found.code == MEASURED
    assert found.message == (
        "From 1 to 2 GPUs: 1.88 times the samples per second, and it paused for 3.5 s, which pays off after 4 s."
    )
    assert (found.gpus_before, found.gpus_after, found.stall_seconds) == (1, 2, 3.5)


def test_a_job_that_shrank_makes_up_for_nothing_and_one_that_moved_says_where_to() -> None:
    stalls = [[5.0, 3.5, 108.0]]
    shrunk = job_record("a", resized_from={"h1": 2}, resized_at=100.0)
    found = tell(seen(2, 0.3, 90.0), seen(1, 0.3, 120.0), stalls=stalls, job=shrunk, on={"h1": 1})
    assert found.message == "From 2 to 1 GPU: 0.50 times the samples per second, and it paused for 3.5 s."
    moved = tell(seen(1, 0.3, 120.0), stalls=stalls, on={"h2": 1})
    assert moved.message.startswith("From h1 to h2: ")


def test_one_that_reports_nothing_is_told_of_in_the_end() -> None:
    assert tell(held=UNREPORTED_S - 1) is None
    found = tell(held=UNREPORTED_S)
    assert (found.code, "unknown" in found.message) == (UNMEASURED, True)
    assert tell(seen(2, 0.3, 120.0), stalls=[[5.0, 3.5, 108.0]]).code == UNMEASURED, "it never ran on one before"


def test_a_job_that_ended_within_the_turn_is_passed_by(tmp_path: Path) -> None:
    db = Database(sqlite_url(tmp_path))
    try:
        tell_resizes(db, {}, [view_of("a", elastic=True, allocation={"h1": 2}, held_seconds=50.0)], 200.0)
        with db.read() as conn:
            assert repository.last_event_id(conn) == 0
    finally:
        db.close()
