"""Cache of container states, which saves inspecting each container in every poll.

An engine's list lags behind its events. Docker Engine 20.10 sends `die` up to 0.2 s before its list shows the end, and
`pause` likewise. Nothing follows that event, so the list alone would show the end only at the next poll. A container
with an event is therefore inspected, whatever the list says: the engine's answer waits until the change is complete.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Set
from dataclasses import dataclass

from schedulearn.scheduler.core.task import EngineState, ObservedTask
from schedulearn.scheduler.errors import ObjectFault, RuntimeFault
from schedulearn.scheduler.runtimes.docker.container import DEAD, listed_task, stuck

_DIES_S = (0.05, 0.1, 0.2, 0.4)  # waits before further checks of a dead container that is still shown as running
_DEATH, _BIRTH = "die", "start"
PATIENCE_S = 60.0
"""How long inspecting an ended container may fail before it is given up."""


@dataclass(frozen=True)
class Inspected:
    """State of one container, from the engine's answer."""

    status: str
    """The engine's own status, the same as in its list."""
    task: ObservedTask


class ContainerStates:
    """Known states of an engine's containers.

    `inspect` gets the ids of a task and of its container, and asks the engine; it returns None if the container is
    gone. One thread polls (`begin`, `look` for each container of the list, `keep`). Other threads report changes.
    """

    def __init__(self, inspect: Callable[[str, str], Inspected | None]) -> None:
        self._inspect = inspect
        self._lock = threading.Lock()
        self._known: dict[str, Inspected] = {}
        self._changed: dict[str, str] = {}  # container -> its last event since it was inspected
        self._missed = True
        self._stuck = False
        """True if the engine did not answer in this poll. One container that hangs must not make its host look dead."""
        self._refused: dict[str, float] = {}
        """Containers about which the engine answers with errors -> since when, by the monotonic clock."""

    def changed(self, container: str, event: str) -> None:
        """Record an event of this container."""
        with self._lock:
            if self._changed.get(container) != _DEATH or event == _BIRTH:
                self._changed[container] = event

    def missed_events(self) -> None:
        """Record that events may have been missed: any container may have changed."""
        with self._lock:
            self._missed = True

    def begin(self) -> None:
        with self._lock:
            if self._missed:
                self._known.clear()
            self._missed = False
        self._stuck = False

    def look(self, task_id: str, container: str, listed: str) -> ObservedTask | None:
        """Return the task's current state, or else its last known state.

        `listed` is the status in the engine's list. The last known state is used if the engine does not answer for the
        container. Returns None if the container is gone. Raises RuntimeFault if the engine does not answer and no state
        is known."""
        with self._lock:
            event = self._changed.pop(container, None)
        known = self._known.get(container)
        if known is not None and (self._stuck or (event is None and known.status == listed)):
            self._put_back(container, event)
            return known.task
        try:
            found = self._ask(task_id, container, died=event == _DEATH)
        except ObjectFault as fault:
            self._put_back(container, event)
            return self._as_listed(task_id, container, listed, fault)
        except RuntimeFault:
            self._put_back(container, event)
            if known is None:
                raise
            self._stuck = True
            return known.task
        self._known.pop(container, None)
        self._refused.pop(container, None)
        if found is None:
            return None
        if found.task.state is not EngineState.CREATED:
            self._known[container] = found
        return found.task

    def keep(self, containers: Set[str]) -> None:
        """Forget all containers except these."""
        self._known = {container: known for container, known in self._known.items() if container in containers}
        self._refused = {container: since for container, since in self._refused.items() if container in containers}
        with self._lock:
            self._changed = {container: event for container, event in self._changed.items() if container in containers}

    def _as_listed(self, task_id: str, container: str, listed: str, fault: ObjectFault) -> ObservedTask:
        """Return the state of a task whose container the engine can't inspect.

        It is the last known state, until the list shows that the container has ended for good."""
        if listed == "dead":
            return stuck(task_id, container, DEAD)
        since = self._refused.setdefault(container, time.monotonic())
        if listed == "exited" and time.monotonic() - since >= PATIENCE_S:
            return stuck(task_id, container, f"has ended, but can't be inspected: {fault}")
        known = self._known.get(container)
        return known.task if known is not None else listed_task(task_id, container, listed)

    def _ask(self, task_id: str, container: str, *, died: bool) -> Inspected | None:
        found = self._inspect(task_id, container)
        for wait_s in _DIES_S if died else ():
            if found is None or found.task.state is not EngineState.RUNNING:
                break
            time.sleep(wait_s)
            found = self._inspect(task_id, container)
        if died and found is not None and found.task.state is EngineState.RUNNING:
            self._put_back(container, _DEATH)  # the next poll asks again
        return found

    def _put_back(self, container: str, event: str | None) -> None:
        with self._lock:
            if event is not None:
                self._changed.setdefault(container, event)
