"""Maintenance windows: which jobs they are in the way of, and what is due."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import cluster_state, host, host_record, job, job_record, snapshot, task_record

from schedulearn.scheduler.core.cluster_state import ClusterState, MaintenanceWindow
from schedulearn.scheduler.core.feasible_hosts import plan_feasible
from schedulearn.scheduler.core.planning.evictions import evictions, next_deadlines
from schedulearn.scheduler.core.planning.windows import (
    TOLD_S,
    UNKNOWN_S,
    after_windows,
    in_the_way,
    longest_run,
    window_steps,
)
from schedulearn.scheduler.core.states import HostState, Parking, Reason
from schedulearn.scheduler.policies.registry import POLICIES, make_policy

NOON = 1_780_315_200.0
"""2026-06-01 12:00 UTC."""
NOW = NOON - 3600
HOSTS = [host_record("h1"), host_record("h2")]


def state(*, jobs: Any = (), **fields: Any) -> ClusterState:
    return cluster_state(jobs={each.id: each for each in jobs}, **fields)


def window(**fields: Any) -> MaintenanceWindow:
    defaults: dict[str, Any] = {
        "id": 1, "hosts": ["h1"], "starts_at": NOON, "ends_at": NOON + 3600, "reason": "new disks", "cron": "",
        "time_zone": "UTC", "stops_rigid_s": 0.0, "told": [],
    }  # fmt: skip
    return MaintenanceWindow(**{**defaults, **fields})


def test_the_longest_run_time_is_the_limit_else_the_upper_bound_of_the_prediction() -> None:
    assert longest_run(job_record(max_duration=100.0, run_seconds=30.0), 5.0) == 70
    assert longest_run(job_record(required_gpus=4), 400.0) == 100
    assert longest_run(job_record(), None) is None


@pytest.mark.parametrize(
    ("longest", "now", "why"),
    [
        (3600.0, NOW, None),
        (3601.0, NOW, "this job could run until 12:00"),
        (4 * 3600.0 + 600, NOW, "this job could run until 15:10"),
        (86_400.0, NOW, "this job could run until 2026-06-02 11:00"),
        (None, NOON - UNKNOWN_S, None),
        (None, NOON - UNKNOWN_S + 1, "the run time of this job is unknown, so state `max_duration`"),
        (0.0, NOON - 1, None),
        (1.0, NOON + 3600, None),
    ],
)
def test_a_job_does_not_start_where_it_could_run_into_a_window(
    longest: float | None, now: float, why: str | None
) -> None:
    found = in_the_way(longest, [window()], HOSTS, now)
    if why is None:
        assert found.why == {}
    else:
        assert found.why == {"h1": f"host h1 is in maintenance from 12:00 to 13:00 (UTC); {why}"}
        assert found.until == {"h1": NOON + 3600}


def test_during_a_window_no_job_starts_there_not_even_an_elastic_one() -> None:
    assert longest_run(job_record(elastic=True, max_duration=9.0), 5.0) == 0
    found = in_the_way(0.0, [window()], HOSTS, NOON)
    assert found.why == {"h1": "host h1 is in maintenance from 12:00 to 13:00 (UTC)"}
    assert found.until == {"h1": NOON + 3600}
    blocked = job("a", gpus=2, elastic=True, unfit=found.why, postponed=found.until)
    drained = host("h1", 0, open=False, returning_gpus=4)
    told = plan_feasible(make_policy("fifo").allocate, snapshot([blocked], [drained], now=NOON)).reasons["a"]
    assert getattr(told, "code", "") == Reason.MAINTENANCE
    assert told == "It waits for 1 GPU. Host h1 is in maintenance from 12:00 to 13:00 (UTC)."


def test_a_window_without_hosts_is_for_all_and_times_are_in_its_zone() -> None:
    found = in_the_way(7200.0, [window(hosts=[], time_zone="Asia/Tokyo")], HOSTS, NOW)
    assert found.why["h2"].startswith("host h2 is in maintenance from 21:00 to 22:00 (Asia/Tokyo); this job could run")
    assert found.why.keys() == {"h1", "h2"}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_starts_such_jobs_elsewhere_or_has_them_wait(name: str) -> None:
    policy = make_policy(name)
    why = in_the_way(7200.0, [window()], HOSTS, NOW)
    hosts = [host("h1", 4), host("h2", 2)]
    small = job("small", gpus=2, unfit=why.why, postponed=why.until)
    large = job("large", gpus=4, at=1.0, unfit=why.why, postponed=why.until)
    plan = plan_feasible(policy.allocate, snapshot([small, large], hosts, now=NOW))
    assert plan.allocations.get("small") == {"h2": 2}
    assert not plan.allocations.get("large")
    told = plan.reasons["large"]
    assert getattr(told, "code", "") == Reason.MAINTENANCE
    assert "Host h1 is in maintenance from 12:00 to 13:00 (UTC); this job could run until 13:00." in told


def test_a_job_that_never_fits_is_not_said_to_wait_for_a_window() -> None:
    why = in_the_way(7200.0, [window()], HOSTS, NOW)
    huge = job("huge", gpus=64, unfit=why.why, postponed=why.until)
    plan = plan_feasible(make_policy("fifo").allocate, snapshot([huge], [host("h1", 4)], now=NOW))
    assert getattr(plan.reasons["huge"], "code", "") == Reason.UNSATISFIABLE


def test_forecasts_start_a_job_at_the_end_of_the_window_or_elsewhere_before() -> None:
    why = in_the_way(7200.0, [window()], HOSTS, NOW)
    blocked = job("a", gpus=4, unfit=why.why, postponed=why.until)
    hosts = [host("h1", 4), host("h2", 2)]
    assert after_windows(blocked, hosts) == (replace(blocked, unfit={}, postponed={}), NOON + 3600)
    assert after_windows(replace(blocked, required_gpus=2, min_gpus=2, max_gpus=2), hosts)[1] is None
    assert after_windows(job("b"), hosts) == (job("b"), None)


def test_forecasts_know_of_further_windows_of_a_host() -> None:
    after, later = NOON + 3600, NOON + 4 * 3600
    windows = [window(), window(id=2, starts_at=after + 60, ends_at=later), window(id=3, starts_at=later + 7200)]
    assert in_the_way(7200.0, windows, HOSTS, NOW).until == {"h1": later}


def test_a_job_longer_than_the_time_between_two_windows_is_told_that_it_never_starts() -> None:
    daily = window(cron="0 12 * * *", longest_gap=23 * 3600.0)
    assert in_the_way(23 * 3600.0, [daily], HOSTS, NOW).until == {"h1": NOON + 3600}
    found = in_the_way(48 * 3600.0, [daily], HOSTS, NOW)
    blocked = job("a", unfit=found.why, postponed=found.until)
    told = plan_feasible(make_policy("fifo").allocate, snapshot([blocked], [host("h1", 4)], now=NOW)).reasons["a"]
    assert getattr(told, "code", "") == Reason.UNSATISFIABLE
    assert told == (
        "It needs 1 GPU. Host h1 is in maintenance from 12:00 to 13:00 (UTC); this job could run for 48 hours, and "
        "maintenance repeats after 23 hours: it never starts there."
    )
    assert after_windows(blocked, [host("h1", 4)]) == (blocked, None)
    often = window(cron="0 */3 * * *", longest_gap=2 * 3600.0)
    assert (
        in_the_way(None, [often], HOSTS, NOW)
        .why["h1"]
        .endswith("; the run time of this job is unknown, and maintenance repeats after 2 hours: state `max_duration`")
    )
    assert in_the_way(0.0, [often], HOSTS, NOW).why == {}, "an elastic job starts"


def test_hosts_drain_at_the_begin_and_return_at_the_end() -> None:
    assert not window_steps(state(hosts=HOSTS, windows=[window()]), NOON - 1)
    assert window_steps(state(hosts=HOSTS, windows=[window()]), NOON).begun == [(window(), "h1")]
    drained = host_record("h1", state=HostState.CORDONED, drain_until=NOON, window_id=1)
    assert not window_steps(state(hosts=[drained], windows=[window()]), NOON + 60)
    assert window_steps(state(hosts=[drained], windows=[window()]), NOON + 3600).ended == [window()]


def test_a_host_that_an_operator_closed_or_that_is_parked_is_left_alone() -> None:
    closed = host_record("h1", state=HostState.CORDONED, drain_until=NOON)
    parked = host_record("h1", state=HostState.CORDONED, parking=Parking.PARKED)
    for each in (closed, parked):
        assert window_steps(state(hosts=[each], windows=[window()]), NOON + 60).begun == []


def test_a_host_goes_from_one_window_into_the_next_without_a_pause() -> None:
    first, second = window(), window(id=2, starts_at=NOON + 1800, ends_at=NOON + 7200)
    drained = host_record("h1", state=HostState.CORDONED, drain_until=NOON, window_id=1)
    steps = window_steps(state(hosts=[drained], windows=[first, second]), NOON + 3600)
    assert (steps.ended, steps.begun) == ([first], [(second, "h1")])


def test_running_jobs_that_may_still_run_then_are_told_once() -> None:
    jobs = [
        job_record("rigid"),
        job_record("elastic", elastic=True),
        job_record("short", max_duration=600.0),
        job_record("known"),
        job_record("elsewhere"),
        job_record("waits", "queued"),
    ]
    tasks = [
        task_record(each.id, host_id="h2" if each.id == "elsewhere" else "h1", started_at=NOW) for each in jobs[:5]
    ]
    seen = state(jobs=jobs, tasks=tasks, hosts=HOSTS, windows=[window(told=["known"])])
    assert window_steps(seen, NOON - TOLD_S - 1).told == []
    told = {each.id: sentence for _, each, sentence in window_steps(seen, NOW).told}
    begin = "Host h1 is in maintenance from 12:00 to 13:00 (UTC): new disks."
    assert told == {
        "rigid": f"{begin} If the job still runs at 12:00, it is stopped and starts again from the beginning.",
        "elastic": f"{begin} The job then saves a checkpoint, and continues elsewhere or afterwards.",
    }


def test_a_job_that_no_deadline_stops_is_not_told_that_it_is_stopped() -> None:
    lasting = window(stops_rigid_s=3600.0)
    seen = state(jobs=[job_record("a")], tasks=[task_record("a")], hosts=HOSTS, windows=[lasting])
    [(_, _, sentence)] = window_steps(seen, NOW).told
    assert sentence.endswith("new disks. The job runs on during the maintenance.")


def test_jobs_leave_at_the_begin_and_rigid_ones_at_the_deadline() -> None:
    at = window(stops_rigid_s=600.0)
    drained = host_record("h1", state=HostState.CORDONED, drain_until=NOON + 600, window_id=1)
    jobs = [job_record("rigid"), job_record("elastic", elastic=True)]
    seen = state(jobs=jobs, tasks=[task_record(each.id) for each in jobs], hosts=[drained], windows=[at])
    [first] = evictions(seen, NOON)
    assert first.job.id == "elastic"
    assert first.why == "Host h1 is in maintenance from 12:00 to 13:00 (UTC): new disks. It moves elsewhere."
    assert {each.job.id for each in evictions(seen, NOON + 600)} == {"rigid", "elastic"}


def test_the_loop_wakes_for_each_step_of_a_window() -> None:
    assert sorted(next_deadlines(state(hosts=HOSTS, windows=[window()]), NOW)) == [3600, 7200]
