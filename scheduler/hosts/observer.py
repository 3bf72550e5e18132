"""Observer of one host, in its own thread, soon after changes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from schedulearn.scheduler.background import MACHINE, Background, Timing, delay_after
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.outcomes.observations import Observation, Outage, through_outages
from schedulearn.scheduler.core.task import ObservedTask
from schedulearn.scheduler.errors import SchedulearnError
from schedulearn.scheduler.hosts.host_needs import HostNeeds
from schedulearn.scheduler.hosts.retries import BACKOFF_S
from schedulearn.scheduler.hosts.starts import Starts
from schedulearn.scheduler.runtimes.contract import Runtime

log = logging.getLogger(__name__)

NOT_CONTACTED = "not contacted yet"
_OUTAGES = 50
_RESYNC_S = 10.0  # maximum interval between observations: events of an engine may be missed
_REWATCH_S = 0.5


@dataclass(frozen=True)
class HostStatus:
    """Current knowledge of an agent about its host."""

    host_id: str
    observation: Observation | None
    """None until the host has answered, and again while it does not."""
    error: str
    """Reason why the host does not answer; empty while it does."""
    facts: HostFacts | None = None
    """Facts that the host reported at the last contact."""
    silent_since: float = 0.0
    """Time since which the host does not answer, by the clock of the service; meaningless while it does."""


@dataclass(frozen=True)
class _Shown:
    """Part of an observation that concerns the loop; a change wakes the loop."""

    tasks: tuple[ObservedTask, ...] = ()
    maybe_started: frozenset[str] = frozenset()
    started: frozenset[str] = frozenset()
    error: str = ""


class HostObserver:
    """Observer that keeps `status` up to date and calls `on_change` when it changes.

    `on_contact`: as for `HostAgent`."""

    def __init__(
        self,
        host_id: str,
        runtime: Runtime,
        starts: Starts,
        needs: HostNeeds,
        on_change: Callable[[], None],
        on_contact: Callable[[HostFacts], None],
        timing: Timing = MACHINE,
    ) -> None:
        self._clock = timing.clock
        self._monotonic = timing.monotonic
        self._status = HostStatus(host_id, None, NOT_CONTACTED)
        self._silent_from = timing.monotonic()
        self._host_id = host_id
        self._runtime = runtime
        self._starts = starts
        self._needs = needs
        self._on_change = on_change
        self._on_contact = on_contact
        self._last: _Shown | None = None
        self._failures = 0
        self._outages: list[Outage] = []
        self._answered_at = 0.0
        self._broke = False
        """True if a connection broke since the last request to the host."""
        self._observing = Background(f"observe-{host_id}", self.observe)
        self._watching = Background(
            f"watch-{host_id}", self._watch, trouble=f"can't watch {host_id}", trouble_s=_RESYNC_S
        )

    @property
    def status(self) -> HostStatus:
        """Current status of the host.

        Setting the clock while a host is silent does not lengthen its silence. Tasks that were started since the last
        observation count as maybe starting."""
        unseen, status = self._starts.unseen(), self._status
        if status.observation is not None:
            maybe = status.observation.maybe_starting | unseen
            return replace(status, observation=replace(status.observation, maybe_starting=maybe))
        return replace(status, silent_since=self._clock() - (self._monotonic() - self._silent_from))

    def start(self) -> None:
        self._observing.start()
        self._watching.start()

    def stop(self) -> None:
        self._observing.stop()
        self._watching.stop()

    def close(self) -> None:
        """Close the threads. Close the runtime first, which ends its `watch`."""
        self._observing.close()
        self._watching.close()

    def poke(self) -> None:
        """Observe now."""
        self._observing.wake()

    def report_anew(self) -> None:
        """Observe now, and call `on_change` even if nothing changed."""
        self._last = None
        self.poke()

    def observe(self) -> float:
        """Observe the host once. Return the seconds to rest before the next time."""
        started = self._starts.begin_observation()
        before = self._status
        broke, self._broke = self._broke, False
        asked_at = self._monotonic()
        try:
            facts = self._contact(before)
            tasks = self._look(before, broke)
            maybe = self._starts.touched()
            self._status = HostStatus(
                self._host_id, Observation(tasks, self._clock(), maybe, started, asked_at), "", facts
            )
            self._starts.end_observation()
            seen = _Shown(tuple(tasks), maybe, started)
            self._failures = 0
        except Exception as fault:
            if not isinstance(fault, SchedulearnError):
                log.exception("can't observe %s", self._host_id)
            if before.observation is not None:
                self._silent_from = self._monotonic()
            self._status = HostStatus(self._host_id, None, str(fault), before.facts)
            seen = _Shown(error=str(fault))
            self._failures += 1
        if seen != self._last:
            self._last = seen
            self._on_change()
        return delay_after(self._failures, BACKOFF_S) if self._failures else _RESYNC_S

    def _contact(self, before: HostStatus) -> HostFacts:
        """Return the facts of the host; request them again after a silence."""
        if before.facts is not None and before.observation is not None:
            return before.facts
        facts = self._runtime.survey()
        self._needs.forget_all()  # it may be another engine than the one that was checked
        self._on_contact(facts)
        return facts

    def _look(self, before: HostStatus, broke: bool) -> list[ObservedTask]:
        tasks = list(self._runtime.observe())
        now, silent = self._clock(), before.observation is None
        if silent or broke:
            self._outages = [*self._outages[-_OUTAGES:], Outage(self._answered_at, now, silent)]
        self._answered_at = now
        return [through_outages(task, self._outages, self._starts.begun_at(task.task_id)) for task in tasks]

    def _watch(self) -> float:
        try:
            for broke in self._runtime.watch():
                self._broke = self._broke or broke
                self.poke()
                if self._watching.stopping:
                    break
        except SchedulearnError as fault:
            log.debug("%s: watching failed: %s", self._host_id, fault)
        return _REWATCH_S
