"""When a job that nobody is connected to ends."""

from __future__ import annotations

import pytest
from builders import task_record as task

from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.core.outcomes.unused import idle_end

RUNS, WAITS = task(started_at=100.0), task(started_at=None)


@pytest.mark.parametrize(
    ("live", "unused_since", "end"),
    [
        ([RUNS], 0.0, 160.0),
        ([RUNS], 130.0, 190.0),
        ([RUNS], None, None),
        ([RUNS, WAITS], 0.0, None),
        ([], 0.0, None),
        ([task(started_at=100.0, paused_at=120.0)], 0.0, None),
        ([RUNS, task(started_at=110.0)], 0.0, 170.0),
    ],
)
def test_it_counts_from_the_last_connection_and_the_last_start(
    live: list[Task], unused_since: float | None, end: float | None
) -> None:
    assert idle_end(60.0, live, unused_since) == end
