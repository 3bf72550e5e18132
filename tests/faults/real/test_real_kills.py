"""The real service is killed at each of its side effects, its start included, and at each request that changes
something in an engine: before it, while it is under way, and after its answer. `make test-faults` does all, `make test`
some."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from benches import IMAGE
from real_faults.runs import RealRun

pytestmark = [pytest.mark.long, pytest.mark.process]

LONG = bool(os.environ.get("SCHEDULEARN_TEST_FAULTS"))
MAX = 200  # side effects: more than a life with such a day has


def _day(run: RealRun) -> None:
    """One job works, one is cancelled while it runs."""
    run.submit("works", 0.2)
    run.submit("long")
    run.finish()


def _numbers() -> Iterator[int]:
    return iter(count(1) if LONG else (9, 24))


@pytest.mark.timeout(1800)
def test_a_kill_at_each_side_effect_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with RealRun(1, tmp_path / "run") as run:
        run.faulty = False  # but those that this asks for
        for number in _numbers():
            before = run.kills
            run.kill_and_start(kill_at=number)
            run.note(f"to be killed at side effect {number}")
            run.guard(lambda: _day(run))
            if run.kills == before:
                break
            assert number < MAX
        # A busy machine commits more at once: 38 were seen on one.
        assert run.kills >= (25 if LONG else 2)


@pytest.mark.docker
@pytest.mark.timeout(3600)
def test_a_kill_at_each_request_to_an_engine_loses_and_doubles_nothing(tmp_path: Path, engine: str) -> None:
    with RealRun(1, tmp_path / "run", engine, IMAGE) as run:
        run.faulty = False
        for when in ("before", "under way", "after"):
            killed = _kill_at_requests(run, when)
            assert killed >= (6 if LONG else 1)


def _kill_at_requests(run: RealRun, when: str) -> int:
    """How many there were."""
    assert run.proxy
    first = run.kills
    for number in count(1) if LONG else (2,):
        before = run.kills
        run.proxy.kill_at = {run.proxy.count + number: when}
        run.note(f"to be killed {when} request {number}")
        run.guard(lambda: _day(run))
        if run.kills == before:
            break
        assert number < MAX
    return run.kills - first
