"""What goes wrong in a run. A fault that lasts looks at the service all the while, and ends before the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from real_faults.disks import locked

if TYPE_CHECKING:
    from real_faults.runs import RealRun

Fault = Callable[["RealRun"], None]


def killed(run: RealRun) -> None:
    run.kill_process()


def killed_at_a_side_effect(run: RealRun) -> None:
    run.switches.kill_at = run.switches.count + run.rng.randint(1, 25)
    run.submit()
    run.pass_time(1.0)


def killed_at_a_request(run: RealRun) -> None:
    assert run.proxy
    when = run.rng.choice(["before", "under way", "after"])
    run.proxy.kill_at[run.proxy.count + run.rng.randint(1, 6)] = when
    run.submit()
    run.pass_time(1.0)


def engine_in_trouble(run: RealRun) -> None:
    """Requests are refused, late, done twice, not answered, or their answers are lost."""
    assert run.proxy
    run.proxy.trouble = run.rng.choice([0.1, 0.3, 0.6])
    run.submit()
    run.pass_time(3.0)
    run.proxy.trouble = 0.0


def engine_paused(run: RealRun) -> None:
    assert run.proxy
    run.proxy.pause()
    run.pass_time(run.rng.choice([0.5, 3.0]))
    run.proxy.resume()


def engine_cut(run: RealRun) -> None:
    assert run.proxy
    run.proxy.cut()
    run.pass_time(run.rng.choice([0.2, 2.0]))
    run.proxy.mend()


def events_dropped(run: RealRun) -> None:
    _submit_while_events_are(run, "dropped")


def events_doubled(run: RealRun) -> None:
    _submit_while_events_are(run, "doubled")


def _submit_while_events_are(run: RealRun, what: str) -> None:
    assert run.proxy
    run.proxy.events = what
    run.submit()
    run.pass_time(2.0)
    run.proxy.events = ""


def disk_full(run: RealRun) -> None:
    assert run.disk
    run.disk.fill()
    run.submit()
    run.pass_time(2.0)
    run.disk.empty()


def database_locked(run: RealRun) -> None:
    """Longer or shorter than the service waits for it."""
    with locked(run.service.data / "schedulearn.db"):
        run.pass_time(run.rng.choice([0.5, 7.0]))


def clock_set(run: RealRun) -> None:
    run.switches.clock_offset += run.rng.choice([-3600.0, -60.0, -5.0, 5.0, 60.0])
    run.pass_time(1.0)


def task_killed(run: RealRun) -> None:
    """By somebody else."""
    if tasks := run.witness.running():
        run.witness.kill(run.rng.choice(tasks))


ALWAYS: tuple[Fault, ...] = (killed, killed_at_a_side_effect, database_locked, clock_set, task_killed)
OF_ENGINES: tuple[Fault, ...] = (
    killed_at_a_request, engine_in_trouble, engine_paused, engine_cut, events_dropped, events_doubled,
)  # fmt: skip


def possible(run: RealRun) -> list[Fault]:
    return [*ALWAYS, *(OF_ENGINES if run.proxy else ()), *((disk_full,) if run.disk else ())]
