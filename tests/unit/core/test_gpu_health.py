"""What readings say of whether a GPU may be used."""

from __future__ import annotations

from typing import Any

import pytest
from matrices import each

from schedulearn.metrics.probe.readings import GpuHealth, GpuProcess, GpuReading, Xid
from schedulearn.scheduler.core.outcomes.gpu_health import (
    FREE_AFTER_S,
    OCCUPIED_AFTER_S,
    STUCK,
    FaultKind,
    GpuFault,
    Known,
    Verdict,
    judge,
)
from schedulearn.scheduler.core.outcomes.gpu_holders import SETTLE_S

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


GB = 1e9
HIDDEN = [
    # (processes, bytes in use, a job of ours has it) -> who holds it
    ((GpuProcess(3, memory_bytes=int(60 * GB)),), 60 * GB, False,
     "process 3, which can't be inspected, with 60.0 GB of its memory"),
    ((), 70 * GB, False, "no visible process, with 70.0 GB of its memory"),
    (None, 70 * GB, False, "no visible process, with 70.0 GB of its memory"),
    ((GpuProcess(3), THEIRS), 70 * GB, False, "train (process 2, user id 1000, container cccccccccccc)"),
    ((GpuProcess(3),), 70 * GB, True, ""),  # ours, where /proc hides it
    ((), 70 * GB, True, ""),
    ((GpuProcess(3),), 1 * GB, False, ""),  # it has just ended
    ((), 3.9 * GB, False, ""),  # a display
    ((), None, False, ""),
]  # fmt: skip


@each(HIDDEN, "processes", "used", "held", "who")
def test_memory_that_nobody_visible_holds_is_somebodys(
    processes: tuple[GpuProcess, ...] | None, used: float | None, held: bool, who: str
) -> None:
    known = Known(total=80 << 30)
    for second in range(121):
        judge(known, GpuReading("GPU-a", memory_bytes=used, processes=processes), is_ours, second, held=held)
    assert known.occupied == who


def test_memory_of_a_job_that_has_just_ended_has_time_to_go() -> None:
    known = Known(total=80 << 30)
    for second in range(int(SETTLE_S)):
        assert look(known, at=second, memory_bytes=70 * GB) == NOTHING
    assert look(known, at=SETTLE_S, memory_bytes=70 * GB).occupied
    assert look(known, at=SETTLE_S + 1, memory_bytes=1 * GB) == NOTHING
    assert look(known, at=SETTLE_S + 1 + FREE_AFTER_S, memory_bytes=1 * GB).occupied == ""


def test_who_was_seen_is_not_gone_while_processes_can_not_be_told() -> None:
    known = Known(occupied="train (process 2)", total=80 << 30)
    for second in range(60):
        assert judge(known, GpuReading("GPU-a", memory_bytes=GB), is_ours, second) == NOTHING


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
        ({"xids": (Xid(79, 1, 50.0),)}, "Xid 79: it has fallen off the bus; it needs a restart of its host"),
        ({"xids": (Xid(31, 1, 50.0),)}, None),  # the program's own doing
        ({"xids": (Xid(79, 1, 10.0),)}, None),  # before it was returned
        ({"ecc_errors": 4}, "2 uncorrected memory errors (ECC)"),
        ({"ecc_errors": 2}, None),
        ({"lost": True}, "it has fallen off the bus"),
        (
            {"lost": True, "xids": (Xid(64, 1, 50.0),)},
            "Xid 64: a broken row of its memory could not be replaced; it needs a reset",
        ),
        ({}, None),
    ],
)
def test_what_makes_a_gpu_unhealthy(fields: dict[str, Any], fault: str | None) -> None:
    known = Known(cleared_at=10.0, ecc_accepted=2)
    seen = look(known, **fields).fault
    assert (seen and seen.text) == fault
    assert seen is None or seen.kind is FaultKind.LEAVE
    assert look(known, **fields).fault is None  # said once


def test_errors_count_anew_after_a_new_driver() -> None:
    known = Known(ecc_accepted=5)
    assert look(known, ecc_errors=0).fault is None
    assert look(known, ecc_errors=1).fault == GpuFault("1 uncorrected memory errors (ECC)", FaultKind.LEAVE)


def codes(*found: int, times: int = 1, at: float = 50.0) -> tuple[Xid, ...]:
    return tuple(Xid(code, times, at + place) for place, code in enumerate(found))


BURSTS = [
    ((48, 45), FaultKind.LEAVE), ((74, 45), FaultKind.LEAVE), ((79, 43), FaultKind.LEAVE), ((119, 45), FaultKind.RESET),
    ((45, 13, 109, 43), FaultKind.RESET), ((119, 48), FaultKind.LEAVE), ((94, 95, 45), FaultKind.LEAVE),
    ((63,), FaultKind.RESET), ((63, 64), FaultKind.LEAVE), ((9999,), FaultKind.RESET),
    ((13, 43, 45), None), ((31, 45), None), ((94, 45), None), ((68,), None),
]  # fmt: skip


@each(BURSTS, "burst", "kind")
def test_every_xid_since_the_last_sample_is_judged_and_the_worst_decides(
    burst: tuple[int, ...], kind: FaultKind | None
) -> None:
    for order in (burst, burst[::-1]):
        verdict = look(Known(), xids=codes(*order))
        assert {xid.code for xid in verdict.xids} == set(burst)
        assert (verdict.fault and verdict.fault.kind) == kind


def test_an_xid_counts_once_and_again_if_it_comes_again_also_by_a_clock_that_was_set_back() -> None:
    known = Known()
    assert look(known, xids=codes(45)).xids == codes(45)
    assert look(known, xids=codes(45)).xids == ()
    burst = codes(45, times=300, at=51.0)
    assert look(known, xids=burst).xids == burst
    back = codes(45, times=301, at=-3550.0)
    assert look(known, xids=back).xids == back
    again = Known(xids={45: Xid(45, 0, 51.0)})  # a service that starts anew
    assert look(again, xids=codes(45, times=300, at=51.0)).xids == ()
    assert look(again, xids=codes(45, times=301, at=52.0)).xids != ()


def test_a_worse_fault_replaces_one_that_leaves_jobs_alone_and_no_other() -> None:
    known = Known()
    assert look(known, xids=codes(119)).fault is not None
    worse = look(known, xids=codes(119, 79)).fault
    assert worse is not None
    assert (worse.kind, worse.text[:6]) == (FaultKind.LEAVE, "Xid 79")
    assert look(known, xids=codes(119, 79, 48)).fault is None


WELL = GpuHealth(recovery="none")


def hold(known: Known, seconds: int, *, since: int, **fields: Any) -> list[tuple[int, Verdict]]:
    """Looks once a second, with the health in one of ten; what changes, and when."""
    health = fields.pop("health", WELL)
    found = []
    for second in range(since, since + seconds):
        verdict = look(known, at=float(second), health=health if second % 10 == 0 else None, **fields)
        if verdict != NOTHING:
            found.append((second, verdict))
    return found


def test_a_gpu_is_back_by_itself_once_its_driver_asks_for_nothing_and_later_each_time() -> None:
    known = Known()
    xids: tuple[Xid, ...] = ()
    for number, wait in enumerate((60, 120, 240)):
        xids = codes(109, times=number + 1, at=1000.0 * (number + 1))
        start = 1000 * (number + 1)
        [(broken, fault), (back, verdict)] = hold(known, 300, since=start, xids=xids)
        assert fault.fault is not None
        assert (broken, back, verdict.returned) == (start, start + wait + 1, "reset")


@each(
    [
        {"health": GpuHealth(recovery="")},  # a driver that does not say it
        {"health": GpuHealth(recovery="GPU reset")},
        {"health": GpuHealth(recovery="none", remap_pending=True)},
        {"lost": True},
        {"stuck": True},
    ],
    "fields",
)
def test_a_gpu_that_is_not_well_does_not_come_back(fields: dict[str, Any]) -> None:
    known = Known()
    assert look(known, xids=codes(48), at=1.0).fault is not None
    assert [seen for _, seen in hold(known, 500, since=10, xids=codes(48), **fields) if seen.returned is not None] == []


def test_a_new_error_begins_the_wait_anew() -> None:
    known = Known()
    look(known, ecc_errors=1, at=1.0)
    assert hold(known, 50, since=10, ecc_errors=1) == []
    [(second, verdict)] = hold(known, 100, since=60, ecc_errors=2)
    assert (second >= 120, verdict.returned) == (True, "leave")
    assert look(known, ecc_errors=2, at=200.0) == NOTHING
    assert look(known, ecc_errors=3, at=201.0).fault is not None


HINDRANCES = [
    ({"recovery": "GPU reset"}, "asks for: GPU reset"),
    ({"recovery": "reboot of the host"}, "asks for: reboot"),
    ({"remap_pending": True}, "it needs a reset"),
    ({"remap_failed": True}, "it needs a repair"),
    ({"retired_pending": True}, "it needs a reset"),
    ({"compute_mode": "prohibited"}, "nvidia-smi -c 0"),
    ({"fabric": "not started"}, "nvidia-fabricmanager"),
    ({"fabric": "in progress"}, "nvidia-fabricmanager"),
    ({"fabric": "error 999"}, "nvidia-fabricmanager"),
]


@each(HINDRANCES, "fields", "words")
def test_what_hinders_a_gpu_closes_it_while_it_lasts(fields: dict[str, Any], words: str) -> None:
    known = Known()
    look(known, at=0.0, health=GpuHealth(**fields))
    assert hold(known, 9, since=1) == []  # one look is none
    known = Known()
    [(second, verdict)] = hold(known, 60, since=0, health=GpuHealth(**fields))
    assert verdict.fault is not None
    assert (second, verdict.fault.kind, words in verdict.fault.text) == (10, FaultKind.STATE, True)
    [(second, verdict)] = hold(known, 200, since=60, health=GpuHealth())
    assert (second, verdict.returned) == (130, "state")


WARNINGS = [
    ({"throttle": ("hw_slowdown",)}, {}, "hardware has lowered"),
    ({"throttle": ("hw_thermal",)}, {}, "too hot"),
    ({"throttle": ("power_brake",)}, {}, "power supply"),
    ({"throttle": ("power_cap",)}, {}, ""),  # it works as hard as it may
    ({}, {"compute_mode": "exclusive"}, "one process"),
    ({}, {"fabric": "completed", "fabric_degraded": True}, "bandwidth"),
    ({}, {"pcie_width": 8, "max_pcie_width": 16}, "8 lanes of 16"),
    ({}, {"pcie_width": 16, "max_pcie_width": 16}, ""),
    ({"utilization": 90.0}, {"pcie_generation": 1, "max_pcie_generation": 4}, "generation 1 of 4"),
    ({"utilization": 5.0}, {"pcie_generation": 1, "max_pcie_generation": 4}, ""),  # it saves power
    ({"power_limit_w": 300.0}, {"default_limit_w": 700.0}, "300 W, 700 W is usual"),
    ({"power_limit_w": 700.0}, {"default_limit_w": 700.0}, ""),
]


@each(WARNINGS, "fields", "health", "words")
def test_what_is_odd_is_a_warning_once_it_lasts(fields: dict[str, Any], health: dict[str, Any], words: str) -> None:
    known = Known()
    assert hold(known, 30, since=0, health=GpuHealth(**health), **fields) == []
    assert known.warnings == ()
    assert hold(known, 30, since=30, health=GpuHealth(**health), **fields) == []
    assert (len(known.warnings), words in " ".join(known.warnings)) == (1 if words else 0, True)
    hold(known, 60, since=60)
    assert known.warnings == ()


def test_nvlinks_that_were_active_and_are_not_any_more_are_a_warning() -> None:
    known = Known()
    hold(known, 60, since=0, health=GpuHealth(nvlinks=12))
    hold(known, 60, since=60, health=GpuHealth(nvlinks=10))
    assert known.warnings == ("10 of its NVLinks are active, it had 12",)


def test_a_gpu_that_nvml_does_not_come_back_from_is_stuck_while_that_lasts() -> None:
    known = Known()
    [(second, verdict)] = hold(known, 60, since=0, stuck=True, health=None)
    assert (second, verdict.fault) == (20, GpuFault(STUCK, FaultKind.STATE))
    [(second, verdict)] = hold(known, 200, since=60)
    assert (second < 150, verdict.returned) == (True, "state")
