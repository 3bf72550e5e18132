"""How often a job was interrupted, and what it repeats."""

from typing import Any

import pytest

from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.core.outcomes.interruptions import interruptions_of
from schedulearn.scheduler.core.states import TaskPhase


def task(attempt: int, started: float | None, finished: float | None, outcome: str, rank: int = 0) -> Task:
    values: dict[str, Any] = dict.fromkeys(Task._fields)
    state = TaskPhase.RUNNING if finished is None else TaskPhase.ENDED
    made = {"attempt": attempt, "rank": rank, "started_at": started, "finished_at": finished, "outcome": outcome}
    made["paused_seconds"] = 0.0
    return Task(**{**values, **made, "state": state})


STOPPED = [task(1, 0, 60, "resized"), task(2, 100, 130, "lost"), task(2, 100, 125, "lost", rank=1)]
RUNS = task(3, 200, None, "")


@pytest.mark.parametrize(
    ("tasks", "elastic", "waits", "expected"),
    [
        ([], False, True, (0, 0.0)),
        ([RUNS], False, False, (0, 0.0)),
        ([*STOPPED, RUNS], False, False, (2, 90.0)),
        (STOPPED, False, True, (2, 90.0)),
        (STOPPED, False, False, (1, 60.0)),
        ([*STOPPED, RUNS], True, False, (1, 0.0)),
        ([task(1, None, 5, "lost"), RUNS], False, False, (1, 0.0)),
        ([task(1, 0, 60, "lost")._replace(paused_seconds=20.0), RUNS], False, False, (1, 40.0)),
    ],
)
def test_attempts_before_the_last_one_count(
    tasks: list[Task], elastic: bool, waits: bool, expected: tuple[int, float]
) -> None:
    assert interruptions_of(tasks, elastic=elastic, waits=waits) == expected
