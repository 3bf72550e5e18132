"""What hosts show: observations, refused starts, and times without an answer. Pure."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from schedulearn.scheduler.core.outcomes.blame import Blame
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.core.task import ObservedTask, TaskState

_CLOCKS_S = 1.0  # by which a host's clock may differ from ours here
_CLEARING_S = 15.0  # in which an engine that has come back ends what an engine before it left running
_KILLED = (137, 143, 255)  # SIGKILL, SIGTERM, and Docker's word for what ended while no engine ran


@dataclass(frozen=True)
class Observation:
    """What one host showed, at one time."""

    tasks: Sequence[ObservedTask]
    at: float
    maybe_starting: Set[str] = frozenset()
    """Tasks whose start was under way at any time while the engine was asked: their absence means nothing."""
    started: Set[str] = frozenset()
    """Tasks whose start had succeeded before the engine was asked: their absence means that they are gone."""
    asked_at: float = 0.0
    """By the monotonic clock, when the engine was asked."""


@dataclass(frozen=True)
class Outage:
    """From the last answer of a host to its next; `since` 0: the service itself was away before."""

    since: float
    until: float
    silent: bool = True
    """False: it answered whenever it was asked, but a connection to it broke: its engine may have been restarted."""


def through_outages(task: ObservedTask, outages: Sequence[Outage], begun_at: float | None = None) -> ObservedTask:
    """Return a task as lost if it failed while its host did not answer: an engine that stops, a machine that reboots
    and a network that breaks end what runs in just the way that a failing command does.

    `begun_at`: when this service began to start it, by the clock that times the outages; None: another one did.
    """
    if task.state is not TaskState.EXITED or not task.exit_code or task.oom_killed or task.finished_at is None:
        return task
    killed = task.exit_code in _KILLED
    for outage in outages:
        late = _CLEARING_S if killed else _CLOCKS_S
        known = (outage.since > 0 and outage.silent) or killed
        begun_since = task.started_at is not None and task.started_at > outage.until + _CLOCKS_S
        if begun_since or (begun_at is not None and begun_at >= outage.until):
            continue  # begun by an engine that was there again: nothing to clear
        if known and outage.since - _CLOCKS_S <= task.finished_at <= outage.until + late:
            return replace(task, state=TaskState.LOST, error="it ended while its host did not answer")
    return task


@dataclass(frozen=True)
class Refusal:
    """A start that failed for good."""

    reason: Reason
    message: str
    blame: Blame | None = None
    counts_as: str = ""
    """As `findings.TaskEnded`; empty: by its task."""
