"""What a resize gained and cost, as its job's events tell it."""

from types import SimpleNamespace
from typing import Any

from builders import job as view_of
from builders import job_row

from schedulearn.scheduler.control.resize_log import MEASURED, UNMEASURED, outcome
from schedulearn.scheduler.core.snapshot import UNREPORTED_S

RESIZED = job_row("a", resized_from={"h1": 1}, resized_at=100.0)


def seen(gpus: int, step: float, at: float, batch: int = 32) -> SimpleNamespace:
    return SimpleNamespace(num_gpus=gpus, atomic_batch=batch, iter_time=step, at=at)


def tell(*rows: Any, held: float = 50.0, stalls: Any = (), job: Any = RESIZED, on: Any = None) -> Any:
    view = view_of("a", elastic=True, allocation=on or {"h1": 2}, held_seconds=held)
    return outcome(job, view, rows, stalls)


def test_it_is_told_once_the_new_allocation_was_measured() -> None:
    before = seen(1, 0.30, 90.0)
    assert tell(before) is None
    assert tell(before, seen(2, 0.3, 95.0), stalls=[[5.0, 3.0, 108.0]]) is None, "measured before the resize"
    code, sentence, data = tell(before, seen(2, 0.32, 120.0), stalls=[[1.0, 9.0, 20.0], [5.0, 3.5, 108.0]])
    assert code == MEASURED
    assert sentence == (
        "From 1 to 2 GPUs: 1.88 times as many samples a second, and it stood still for 3.5 s, which is made up for "
        "after 4 s."
    )
    assert (data["gpus_before"], data["gpus_after"], data["stall_seconds"]) == (1, 2, 3.5)


def test_a_job_that_shrank_makes_up_for_nothing_and_one_that_moved_says_where_to() -> None:
    stalls = [[5.0, 3.5, 108.0]]
    shrunk = job_row("a", resized_from={"h1": 2}, resized_at=100.0)
    found = tell(seen(2, 0.3, 90.0), seen(1, 0.3, 120.0), stalls=stalls, job=shrunk, on={"h1": 1})
    assert found[1] == "From 2 to 1 GPU: 0.50 times as many samples a second, and it stood still for 3.5 s."
    moved = tell(seen(1, 0.3, 120.0), stalls=stalls, on={"h2": 1})
    assert moved[1].startswith("From h1 to h2: ")


def test_one_that_reports_nothing_is_told_of_in_the_end() -> None:
    assert tell(held=UNREPORTED_S - 1) is None
    code, sentence, _ = tell(held=UNREPORTED_S)
    assert (code, "not known" in sentence) == (UNMEASURED, True)
    assert tell(seen(2, 0.3, 120.0), stalls=[[5.0, 3.5, 108.0]])[0] == UNMEASURED, "it never ran on one before"
