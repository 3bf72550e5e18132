"""Paired runs over jittered copies tell 1 % apart; the bench of others' simulators says so where it did not run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench.policies import columns, outside
from bench.policies.paired import SHIFT_S, Case, jittered, paired_ratio, play_all, renamed

from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.sim.application import rigid_application
from schedulearn.scheduler.sim.arguments import equal_hosts, parse_policies, parse_trace
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.result import summarize
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import TraceJob, load_trace


def test_a_difference_of_one_per_cent_is_seen_under_noise_that_both_share() -> None:
    dice = np.random.default_rng(0)
    shared = np.exp(dice.normal(0, 0.2, 24))
    mine, others = shared * np.exp(dice.normal(-0.01, 0.005, 24)), shared * np.exp(dice.normal(0, 0.005, 24))
    found = paired_ratio(mine.tolist(), others.tolist())
    assert found.low < 0.99 < found.high < 1
    with pytest.raises(ValueError, match="two pairs"):
        paired_ratio([1.0], [1.0])


def test_the_interval_is_right_in_95_of_100_cases() -> None:
    dice = np.random.default_rng(1)
    hits = 0
    for _ in range(1000):
        mine = np.exp(dice.normal(0.05, 0.1, 8))
        low, high = paired_ratio(mine.tolist(), [1.0] * 8)[1:]
        hits += low <= np.exp(0.05) <= high
    assert 930 <= hits <= 970


def test_copies_differ_from_each_other_and_are_the_same_for_every_policy() -> None:
    jobs, hosts = parse_trace("poisson:20@20", 0), equal_hosts(4, 4)
    assert jittered(jobs, 0) == jobs
    assert renamed(hosts, 0) == hosts
    one, again, other = jittered(jobs, 1), jittered(jobs, 1), jittered(jobs, 2)
    assert one == again != other
    assert all(abs(a.submitted_at - b.submitted_at) <= SHIFT_S for a, b in zip(jobs, one, strict=True))
    assert [job.id for job in one] == [job.id for job in jobs]
    assert renamed(hosts, 1) != hosts
    assert {host.id for host in renamed(hosts, 1)} == {host.id for host in hosts}


def test_processes_change_no_result() -> None:
    [fifo] = parse_policies("fifo")
    cases = [Case(fifo, "poisson:6@20#3", copy, equal_hosts(2, 4), Conditions()) for copy in range(3)]
    one, two = play_all(cases, 1), play_all(cases, 2)
    assert [each.mean_jct for each in one] == [each.mean_jct for each in two]
    assert len({each.mean_jct for each in one}) == 3


def test_simulators_that_differ_by_more_than_the_budget_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(outside.WORKLOADS.glob("*.csv"))[:2]
    cases = [outside.Case(Path(), file, "default", copy, True) for file in files for copy in range(3)]
    there = [{job.id: 100.0 + case.copy for job in load_trace(case.workload)} for case in cases]
    assert outside._compare(cases, there, there)
    here = [
        {job.id: times[job.id] * (0.9 if job.application.name == "ncf" else 1.0) for job in load_trace(case.workload)}
        for case, times in zip(cases, there, strict=True)
    ]
    capsys.readouterr()
    assert not outside._compare(cases, here, there)
    said = capsys.readouterr().out
    assert "OVER our simulator: mean time of ncf in the artifact's: 0.900" in said
    assert "ok   our simulator: mean time of bert in the artifact's: 1.000" in said


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_without_a_checkout_the_outside_bench_says_that_it_did_not_run(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLLUX_ARTIFACT", path)
    outside.main()
    assert "NOT RUN" in capsys.readouterr().out


def test_random_settings_are_of_both_kinds_and_of_the_load_that_they_say() -> None:
    """The work of a trace's jobs, over what its GPUs can do in the time of its arrivals."""
    settings = [columns.setting(number, 12) for number in range(20)]
    assert 5 <= sum(bool(each.speeds) for each in settings) <= 15
    assert all(0.3 <= each.load <= 2 for each in settings)
    assert min(each.load for each in settings) < 0.5 < 1.2 < max(each.load for each in settings)
    assert settings[3] == columns.setting(3, 12), "whichever others are played"
    for found in settings:
        text, _, seed = found.trace.partition("#")
        jobs = parse_trace(text, int(seed))
        work = sum(columns.gpu_hours(job) for job in jobs)
        power = sum(host.gpus * found.speeds.get(host.gpu_type, 1.0) for host in found.hosts)
        pace = float(text.partition("@")[2])  # jobs an hour, or seconds from burst to burst
        hours = len(jobs) / pace if text.startswith("poisson") else len(jobs) / columns.BURST * pace / 3600
        assert work / (power * hours) == pytest.approx(found.load, rel=0.01)


def test_a_column_is_lost_only_where_somebody_is_ahead_for_sure(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [TraceJob(f"j{at}", 10.0 * at, rigid_application("a", 100.0)) for at in range(4)]
    base = summarize(simulate(make_policy("fifo"), jobs, equal_hosts(1, 2)))
    mine = [replace(base, mean_jct=value) for value in (100.0, 101.0, 99.0)]
    worse = [replace(base, mean_jct=value) for value in (110.0, 112.0, 108.0)]
    assert columns.judge({"goodput:speed": mine, "fifo": worse})
    assert "the best on 3 of 3 traces" in capsys.readouterr().out
    assert not columns.judge({"goodput:speed": worse, "fifo": mine})


@pytest.mark.long
def test_no_policy_is_below_the_bound_that_columns_are_held_against() -> None:
    """Also in trace 4, whose jobs are so short that no price above none gives a bound."""
    for number in (1, 4):
        assert not columns.setting(number, columns.BURST).speeds
        least = columns.room(number, columns.BURST)
        assert 0 < least["lower_bound"] < least["foresight"]
        played = columns.play([number], columns.BURST, "goodput:default,goodput:speed,srtf", 1, "declared")
        assert all(least["lower_bound"] < run.mean_jct for [run] in played.values())
