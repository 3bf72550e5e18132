"""No restart costs a job more than it has left."""

from __future__ import annotations

from typing import Any

import pytest
from builders import PowerLaw, job

from schedulearn.scheduler.core.model import JobView
from schedulearn.scheduler.core.planning.nearly_done import TRUSTED, NearlyDone, seconds_left


def running(**fields: Any) -> JobView:
    """On 4 GPUs; a restart costs it 33 s."""
    usual = {"elastic": True, "gpus": 4, "max_gpus": 8, "allocation": {"h1": 4}, "resize_seconds": 33.0}
    return job("j", **{**usual, **fields})


def test_how_long_it_takes_yet_goes_by_what_it_holds() -> None:
    assert seconds_left(running(remaining=100.0)) == 25.0
    assert seconds_left(running(remaining=100.0, goodput=PowerLaw(0.5, 1.0))) == pytest.approx(50.0)
    assert seconds_left(running()) is None
    assert seconds_left(running(remaining=100.0, allocation={})) is None


@pytest.mark.parametrize("wanted", [{"h1": 2}, {"h1": 8}, {"h2": 4}, {}])
def test_one_that_ends_sooner_is_neither_shrunk_nor_grown_moved_or_stopped(wanted: dict[str, int]) -> None:
    assert NearlyDone().spares(1, running(remaining=4 * 26.0), wanted, 100.0)
    assert not NearlyDone().spares(1, running(remaining=4 * 34.0), wanted, 100.0)
    assert not NearlyDone().spares(1, running(), wanted, 100.0), "nobody knows how long it takes"


def test_a_job_that_is_resized_in_place_is_left_alone_for_the_cost_of_the_restart_that_it_would_need() -> None:
    mine = running(remaining=4 * 26.0, resize_seconds=1.0, in_place=True, startup_seconds=20.0)
    assert NearlyDone().spares(1, mine, {"h2": 4}, 100.0)


def test_one_that_says_for_long_that_it_ends_in_a_moment_is_not_believed() -> None:
    watch, claims = NearlyDone(), running(remaining=4.0)
    assert [watch.spares(1, claims, {"h1": 2}, 100.0 + at) for at in (0, TRUSTED * 33 - 1, TRUSTED * 33, 900)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert watch.spares(2, claims, {"h1": 2}, 1100.0), "another attempt"
    watch.forget([])
    assert watch.spares(1, claims, {"h1": 2}, 1200.0)
