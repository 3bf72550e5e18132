"""Paired runs over jittered copies tell 1 % apart; the bench of others' simulators says so where it did not run."""

import numpy as np
import pytest
from bench.policies import outside
from bench.policies.paired import SHIFT_S, Case, jittered, paired_ratio, play_all, renamed

from schedulearn.scheduler.sim.arguments import equal_hosts, parse_policies, parse_trace
from schedulearn.scheduler.sim.conditions import Conditions


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


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_without_a_checkout_the_outside_bench_says_that_it_did_not_run(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLLUX_ARTIFACT", path)
    outside.main()
    assert "NOT RUN" in capsys.readouterr().out
