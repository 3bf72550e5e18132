"""The harness can fail: each guard that is taken out of the service is missed by some run; and a run is the same each
time, so that what it found can be found again."""

import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from virtual.invariants import Broken
from virtual.runs import FaultRun

from schedulearn.scheduler.control import host_actions, loop
from schedulearn.scheduler.control.clock_watch import ClockWatch
from schedulearn.scheduler.core.cluster_state import Gpu
from schedulearn.scheduler.core.outcomes import early_failures, retries
from schedulearn.scheduler.core.planning import reconcile
from schedulearn.scheduler.core.planning.start_times import start_times as times
from schedulearn.scheduler.core.task import EngineState
from schedulearn.scheduler.reports.hangs import HangWatch
from schedulearn.scheduler.telemetry.host_watch import HostWatch

Patch = pytest.MonkeyPatch


def _no_removal(patch: Patch) -> None:
    """Containers of which nobody knows stay."""
    keep = reconcile.diff

    def diff(*given: Any, **options: Any) -> list[Any]:
        return [action for action in keep(*given, **options) if not isinstance(action, reconcile.RemoveTask)]

    patch.setattr(host_actions, "diff", diff)


def _waits_for_the_clock(patch: Patch) -> None:
    """A clock that was set back an hour is waited for: there are two guards."""
    patch.setattr(retries, "MAX_S", 1e9)
    patch.setattr(ClockWatch, "look", lambda self: None)


def _starts_whatever_runs(patch: Patch) -> None:
    """A task starts on GPUs that another one uses."""

    def begin(task_id: str, want: Any, gpus: Any, there: Any, *, due: bool) -> Any:
        image = want.needs[0]
        return reconcile.StartTask(want.spec) if image in there else reconcile.CheckNeed(image)

    patch.setattr(reconcile, "_begin", begin)


def _forgets_what_ran(patch: Patch) -> None:
    """A container that has ended is taken for one that failed."""
    from schedulearn.scheduler.core.outcomes import task_outcomes

    seen = task_outcomes._seen

    def wrong(task: Any, found: Any, *rest: Any) -> Any:
        if found.state is EngineState.EXITED and found.exit_code == 0:
            found = reconcile.ObservedTask(found.task_id, EngineState.EXITED, exit_code=1)
        return seen(task, found, *rest)

    patch.setattr(task_outcomes, "_seen", wrong)


def _starts_where_drivers_are_broken(patch: Patch) -> None:
    """A host that was closed gets jobs with GPUs all the same."""
    patch.setattr(early_failures, "takes_gpu_jobs", lambda host, now: True)


def _notes_xids_apart(patch: Patch) -> None:
    """An Xid is stored, and what follows from it is not, where the service ends in between."""

    def write(self: HostWatch, changes: Sequence[Any]) -> None:
        for change in changes:
            self._db.write(change)

    patch.setattr(HostWatch, "_write", write)


def _uses_broken_gpus(patch: Patch) -> None:
    """GPUs that are out of service are given to jobs all the same."""
    patch.setattr(Gpu, "is_usable", property(lambda gpu: True))


def _sees_no_hang(patch: Patch) -> None:
    """A job that does nothing is left alone."""
    patch.setattr(HangWatch, "look", lambda self, now, answering: {})


def _starts_held_jobs(patch: Patch) -> None:
    """A job that is held is given to the policy all the same."""
    patch.setattr(loop, "start_times", lambda jobs, now: {k: at for k, at in times(jobs, now).items() if at < math.inf})


def _starts_early(patch: Patch) -> None:
    """A job is given to the policy before it may start."""
    patch.setattr(
        loop, "start_times", lambda jobs, now: {k: at for k, at in times(jobs, now).items() if at == math.inf}
    )


OF_GPUS = (_notes_xids_apart, _uses_broken_gpus)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("break_it", "what", "begins"),
    [
        (_starts_held_jobs, "is held, and was started", 0),
        (_starts_early, "and may start from", 0),
        (_sees_no_hang, "jobs that never end", 2),
        (_notes_xids_apart, "GPUs with Xids are in service", 33),
        (_uses_broken_gpus, "is out of service .*, and was given", 7),
        (_starts_where_drivers_are_broken, "takes no jobs with GPUs, and was given", 10),
        (_no_removal, "containers that nobody removes", 0),
        (_forgets_what_ran, "is said to have failed", 0),
        (_waits_for_the_clock, "jobs that never end", 70),
        (_starts_whatever_runs, "is in schedulearn-", 82),
    ],
)
def test_a_service_without_one_of_its_guards_is_caught(
    break_it: Callable[[Patch], None], what: str, begins: int, monkeypatch: Patch
) -> None:
    """`begins`: at the seed that caught it when this was written; any other of the first 150 will do."""
    break_it(monkeypatch)
    with pytest.raises(Broken, match=what) as caught:
        _run([*range(begins, 150), *range(begins)], real=break_it in OF_GPUS)
    assert "--seeds " in str(caught.value), "it says how to see it again"


def test_a_job_that_vanishes_is_caught() -> None:
    run = FaultRun(1, trouble=0.0)
    try:
        run.step(run.submit)
        run.service.cluster.db.write(lambda conn: conn.exec_driver_sql("DELETE FROM job"))
        with pytest.raises(Broken, match="acknowledged jobs are not in the database"):
            run.invariants.check()
    finally:
        run.close()


def _run(seeds: Sequence[int], *, real: bool) -> None:
    for seed in seeds:
        FaultRun(seed, real=real).run()


_TRACE = """
from virtual.runs import FaultRun
for seed in (3, 17, 91):
    run = FaultRun(seed)
    run.run()
    print("\\n".join(run.log))
"""


@pytest.mark.slow
def test_a_seed_is_the_same_run_each_time() -> None:
    """Also where Python hashes texts differently, so that sets have another order."""
    here = Path(__file__).parents[2]
    traces = [
        subprocess.run(
            [sys.executable, "-c", _TRACE], capture_output=True, text=True, check=True, cwd=here,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{here / 'tests/support'}:{here}"},
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert traces[0] == traces[1]
    assert "everything heals" in traces[0]
