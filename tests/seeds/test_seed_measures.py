"""What the tables of the predecessors' experiments compute from the jobs that ran."""

from __future__ import annotations

import numpy as np
import pytest
from bench.seeds import seeds
from bench.seeds.fifo_rr import JOBS, OTHERS_JOBS, Round, others_plan, plan
from bench.seeds.measures import (
    GpuSpan,
    Run,
    change,
    held,
    held_over_makespan,
    makespan,
    mean_turnaround,
    table,
    workers_at,
)
from bench.seeds.spark import least_squares, regression
from bench.seeds.thesis import Switch, second_host_seconds
from scipy.stats import linregress

FIRST = Run("a", 0.0, 1.0, 11.0, (GpuSpan("g1", 1.0, 6.0), GpuSpan("g1", 6.0, 11.0, 2), GpuSpan("g2", 6.0, 11.0, 2)), 1)
SECOND = Run("b", 5.0, 5.0, 20.0, (GpuSpan("g1", 5.0, 20.0),))


def test_makespan_and_turnaround_count_from_the_submission() -> None:
    assert makespan([FIRST, SECOND]) == 20.0
    assert mean_turnaround([FIRST, SECOND]) == 13.0
    assert FIRST.seconds == 10.0


def test_a_gpu_that_two_jobs_share_is_held_once() -> None:
    # g1 from 1 to 20, g2 from 6 to 11, of two GPUs over 20 s
    assert held_over_makespan([FIRST, SECOND], 2) == pytest.approx((19 + 5) / 40)
    assert held([FIRST], 2, 0.0, 6.0) == pytest.approx(5 / 12)
    assert held([FIRST], 2, 6.0, 6.0) == 0.0


def test_the_gpus_of_a_moment() -> None:
    assert [workers_at(FIRST, at) for at in (0.5, 3.0, 8.0, 11.0)] == [0, 1, 2, 0]


def test_changes_are_told_in_per_cent() -> None:
    assert [change(79, 100), change(100, 100), change(126, 100)] == ["-21 %", "+0 %", "+26 %"]


def test_a_table_has_numbers_to_the_right() -> None:
    assert table(("policy", "s"), [("fifo", "10.0"), ("goodput", 9)]).splitlines() == [
        "  policy      s",
        "  -------------",
        "  fifo     10.0",
        "  goodput     9",
    ]


def test_least_squares_are_those_of_another_implementation() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 7.0])
    y = np.array([2.1, 3.9, 6.2, 7.8, 10.3, 13.6])
    other = linregress(x, y)
    fitted = least_squares(["constant", "x"], np.column_stack([np.ones_like(x), x]), y)
    slope = fitted.terms[1]
    assert (slope.value, slope.error, slope.p) == pytest.approx((other.slope, other.stderr, other.pvalue))
    assert fitted.terms[0].value == pytest.approx(other.intercept)
    assert fitted.r2 == pytest.approx(other.rvalue**2)


def test_the_regression_finds_what_the_throughput_was_made_of() -> None:
    """Twice the batch is 1.5 x as fast, the second strategy 2 x, with a little noise."""
    noise = iter([1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 0.99, 1.01])
    found = {
        (batch, strategy): [100 * 1.5 ** np.log2(batch) * times * next(noise)]
        for batch in (16, 32, 64, 128)
        for strategy, times in (("one", 1), ("two", 2))
    }
    fitted = regression(found, ["one", "two"])
    assert [term.name for term in fitted.terms] == ["constant", "log2(batch)", "two"]
    assert fitted.terms[1].value == pytest.approx(np.log2(1.5), abs=0.03)
    assert fitted.terms[2].value == pytest.approx(1.0, abs=0.03)
    assert all(term.p < 0.01 for term in fitted.terms)


def test_the_second_host_counts_while_it_is_on() -> None:
    switched = [Switch(1, "park"), Switch(12, "wake"), Switch(15, "park"), Switch(18, "wake")]
    assert second_host_seconds(switched, 10.0, 20.0) == 3 + 2
    assert second_host_seconds(switched[:1], 10.0, 20.0) == 0.0
    assert second_host_seconds([*switched[:2], Switch(25, "park")], 10.0, 20.0) == 8.0


def test_the_plan_of_fifo_against_round_robin() -> None:
    rounds = plan()
    assert [each.jobs for each in rounds if each[:2] == ("device", "pytorch")] == list(JOBS)
    assert Round("processor", "pytorch", OTHERS_JOBS) in rounds
    assert {each.framework for each in rounds} == {"pytorch"}
    others = [Round("device", framework, OTHERS_JOBS) for framework in ("keras", "tensorflow", "mxnet")]
    assert others_plan() == others
    assert others_plan(["mxnet"], [5]) == [Round("device", "mxnet", 5)]
    assert plan(["mxnet"], [5], ["device"]) == [Round("device", "mxnet", 5)]
    assert plan(["mxnet"], [5], ["processor"]) == [Round("processor", "mxnet", 5)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["fifo"], "there is no table fifo"),
        (["fifo-rr", "--frameworks", "jax"], "there is no framework jax"),
        (["fifo-rr", "--columns", "gpu"], "there is no column gpu"),
        (["fifo-rr", "--jobs", "many"], "whole numbers"),
        (["fifo-rr", "--jobs", "0"], "1 to 100"),
        (["thesis", "--scale", "0"], "--scale must be above 0"),
    ],
)
def test_wrong_options_are_told(given: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        seeds.main(given)
    assert told in capsys.readouterr().err
