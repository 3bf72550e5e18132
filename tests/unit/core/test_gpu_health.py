"""What readings say of whether a GPU may be used."""

from __future__ import annotations

from typing import Any

import pytest

from schedulearn.metrics.probe.readings import GpuProcess, GpuReading
from schedulearn.scheduler.core.outcomes.gpu_health import FREE_AFTER_S, OCCUPIED_AFTER_S, Known, Verdict, judge

OURS = GpuProcess(1, "python", task="schedulearn-j-1-0")
THEIRS = GpuProcess(2, "train", container="c" * 64, uid=1000)
NOTHING = Verdict()


def is_ours(process: GpuProcess) -> bool:
    return bool(process.task)


def look(known: Known, *processes: GpuProcess, at: float = 0.0, **fields: Any) -> Verdict:
    return judge(known, GpuReading("GPU-a", processes=processes, **fields), is_ours, at)


def test_a_foreign_process_occupies_a_gpu_only_if_it_stays_and_frees_it_only_if_it_stays_away() -> None:
    known = Known()
    assert look(known, THEIRS, at=0) == NOTHING
    assert look(known, at=1) == NOTHING  # gone again: the clock starts anew
    assert look(known, THEIRS, at=2) == NOTHING
    assert look(known, THEIRS, at=2 + OCCUPIED_AFTER_S - 0.1) == NOTHING
    seen = look(known, THEIRS, at=2 + OCCUPIED_AFTER_S)
    assert seen.occupied == "train (process 2, user id 1000, container cccccccccccc)"
    assert look(known, OURS, at=20) == NOTHING
    assert look(known, THEIRS, at=21) == NOTHING
    assert look(known, at=22) == NOTHING
    assert look(known, at=22 + FREE_AFTER_S).occupied == ""
    assert known.occupied == ""


def test_a_process_that_can_not_be_looked_at_is_nobody() -> None:
    known = Known(fresh=True)
    assert look(known, GpuProcess(3)) == NOTHING


def test_our_own_processes_occupy_nothing() -> None:
    known = Known(fresh=True)
    assert [look(known, OURS, at=float(second)) for second in range(20)] == [NOTHING] * 20


def test_a_gpu_that_is_new_is_judged_at_the_first_look() -> None:
    known = Known(fresh=True)
    assert look(known, THEIRS, OURS, THEIRS).occupied is not None
    assert "and 1 more" in known.occupied


def test_while_nobody_knows_who_is_ours_nothing_is_said_of_processes() -> None:
    known = Known(fresh=True)
    assert judge(known, GpuReading("GPU-a", processes=(THEIRS,)), None, 0.0) == NOTHING
    assert judge(known, GpuReading("GPU-a", processes=None), is_ours, 100.0) == NOTHING
    assert known.fresh


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"xid": 79, "xid_at": 50.0}, "Xid 79"),
        ({"xid": 31, "xid_at": 50.0}, None),  # the program's own doing
        ({"xid": 79, "xid_at": 10.0}, None),  # before it was returned
        ({"ecc_errors": 4}, "2 uncorrected memory errors (ECC)"),
        ({"ecc_errors": 2}, None),
        ({"lost": True}, "it has fallen off the bus"),
        ({"lost": True, "xid": 79, "xid_at": 50.0}, "Xid 79"),
        ({}, None),
    ],
)
def test_what_makes_a_gpu_unhealthy(fields: dict[str, Any], fault: str | None) -> None:
    known = Known(cleared_at=10.0, ecc_accepted=2)
    assert look(known, **fields).fault == fault
    assert look(known, **fields).fault is None  # said once


def test_errors_count_anew_after_a_new_driver() -> None:
    known = Known(ecc_accepted=5)
    assert look(known, ecc_errors=0).fault is None
    assert look(known, ecc_errors=1).fault == "1 uncorrected memory errors (ECC)"
