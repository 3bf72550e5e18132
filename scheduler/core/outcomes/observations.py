"""Records of observed hosts: observations, refused starts, and outages. Pure."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from schedulearn.scheduler.core.outcomes.blame import Blame
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.core.task import EngineState, ObservedTask

_CLOCKS_S = 1.0  # maximum difference of a host's clock from the service's
_CLEARING_S = 15.0  # time in which a restarted engine ends the containers that its predecessor left running
_KILLED = (137, 143, 255)  # SIGKILL, SIGTERM, and Docker's code for containers that ended while no engine ran


@dataclass(frozen=True)
class Observation:
    """State of one host at one time."""

    tasks: Sequence[ObservedTask]
    at: float
    maybe_starting: Set[str] = frozenset()
    """Tasks that were being started at any time during the query of the engine. Their absence means nothing."""
    started: Set[str] = frozenset()
    """Tasks whose start succeeded before the query of the engine. Their absence means that they are gone."""
    asked_at: float = 0.0
    """Time of the query, on the monotonic clock."""


@dataclass(frozen=True)
class Outage:
    """Time from one answer of a host to its next. `since` is 0 if the service itself was down before."""

    since: float
    until: float
    silent: bool = True
    """False if the host answered every query but a connection broke. Its engine may have been restarted."""


def through_outages(task: ObservedTask, outages: Sequence[Outage], begun_at: float | None = None) -> ObservedTask:
    """Return a task as lost if it failed while its host did not answer.

    A stopping engine, a reboot or a broken network ends a task in the same way as a failing command. `begun_at` is when
    this service began to start the task, on the clock of the outages; None if another instance of the service did.
    """
    if task.state is not EngineState.EXITED or not task.exit_code or task.oom_killed or task.finished_at is None:
        return task
    killed = task.exit_code in _KILLED
    for outage in outages:
        late = _CLEARING_S if killed else _CLOCKS_S
        known = (outage.since > 0 and outage.silent) or killed
        begun_since = task.started_at is not None and task.started_at > outage.until + _CLOCKS_S
        if begun_since or (begun_at is not None and begun_at >= outage.until):
            continue  # started by the restarted engine: nothing to clear
        if known and outage.since - _CLOCKS_S <= task.finished_at <= outage.until + late:
            return replace(task, state=EngineState.LOST, error="it ended while its host did not answer")
    return task


@dataclass(frozen=True)
class Refusal:
    """Start that failed permanently."""

    reason: Reason
    message: str
    blame: Blame | None = None
    counts_as: str = ""
    """See `findings.TaskEnded`; if empty, the failure counts by its task."""
