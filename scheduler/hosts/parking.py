"""Hosts that the policy can do without are switched off, and on again, by a hook of the operator's.

A host that is to be parked is closed first: no job comes any more, and its elastic jobs move on at once. The hook is
called when nothing is left there. Rigid jobs are never stopped for it: a host that runs one is left alone.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Set
from typing import Protocol

from sqlalchemy.engine import Connection

from schedulearn.scheduler.background import Background
from schedulearn.scheduler.core.cluster_state import ClusterState
from schedulearn.scheduler.core.host_scaling import HostLoad, Step, steps
from schedulearn.scheduler.private_files import umask_of_user
from schedulearn.scheduler.store import hosts, repository
from schedulearn.scheduler.store.cluster_state import load_cluster_state
from schedulearn.scheduler.store.db import Database

EVERY_S = 5.0
SETTLE_S = 30.0
"""After the start: hosts are to answer, and the policy to decide, before anything is done."""
HOOK_S = 120.0
"""So long a hook may take."""
BOOT_S = 900.0
"""So long a host that was woken counts as one that is on, though it does not answer yet."""
RETRY_S = 60.0
"""After a hook has failed."""


class Decision(Protocol):
    """What the policy decided last."""

    @property
    def desired_hosts(self) -> int | None:
        """How many hosts should be on; None: it does not say."""

    @property
    def parks_idle_only(self) -> bool:
        """Whether only hosts without jobs are parked."""


class Parking:
    """Does the `steps` in a thread of its own. `hook` is a command, called as `HOOK park|wake HOST ADDRESS`, or a URL,
    which gets {"action", "host", "address"} as JSON; empty: hosts are only marked. It may be called twice for the same:
    after a restart of the service in between. No host is closed within `settle_s` of the start: what was wanted before
    is not known."""

    def __init__(
        self,
        db: Database,
        hook: str,
        decision: Decision,
        reachable: Callable[[], Set[str]],
        wake_loop: Callable[[], None],
        *,
        settle_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._db = db
        self._hook = hook
        self._decision = decision
        self._reachable = reachable
        self._wake_loop = wake_loop
        self._clock = clock
        self._settled_at = clock() + settle_s
        self._woken: dict[str, float] = {}
        self._not_before: dict[str, float] = {}
        self._thread = Background(
            "parking", self._run, first_s=SETTLE_S, trouble="hosts could not be parked or woken", trouble_s=EVERY_S
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close()

    def _run(self) -> float:
        self.turn()
        return EVERY_S

    def turn(self) -> None:
        """Looks once, and does what is to be done."""
        with self._db.read() as db:
            state = load_cluster_state(db)
        address = {host.id: host.address for host in state.hosts}
        todo = steps(self._host_loads(state), self._decision.desired_hosts, self._decision.parks_idle_only)
        for host_id, step in todo:
            now = self._clock()
            if self._not_before.get(host_id, 0.0) > now or (step == "close" and now < self._settled_at):
                continue
            if step in ("park", "wake") and (why := self._call(step, host_id, address[host_id])):
                self._not_before[host_id] = now + RETRY_S
                self._tell(host_id, "host.hook_failed", f"The hook could not {step} {host_id}: {why}")
                continue
            if step == "wake":
                self._woken[host_id] = now
            self._note(host_id, step, now)
            self._wake_loop()

    def _note(self, host_id: str, step: Step, now: float) -> None:
        self._db.write(lambda db: hosts.set_parking(db, host_id, step, now))

    def _host_loads(self, state: ClusterState) -> list[HostLoad]:
        reachable, now = self._reachable(), self._clock()
        held: Counter[str] = Counter()
        for task in state.tasks:
            held[task.host_id] += max(1, len(task.gpu_uuids))  # a host is not switched off under a job without GPUs
        with_gpus = {gpu.host_id for gpu in state.gpus}
        rigid = {t.host_id for t in state.tasks if t.job_id not in state.jobs or not state.jobs[t.job_id].elastic}
        return [
            HostLoad(
                host.id,
                on=host.state == "active"
                and (host.id in reachable or now - self._woken.get(host.id, -BOOT_S) < BOOT_S),
                parking=host.parking,
                held=held[host.id],
                bound=host.origin == "embedded" or host.id in rigid,
            )
            for host in state.hosts
            if host.id in with_gpus and (host.state == "active" or host.parking)
        ]

    def _call(self, action: str, host_id: str, address: str) -> str:
        """Why the hook failed; empty if it did not."""
        if not self._hook:
            return ""
        try:
            if self._hook.startswith(("http://", "https://")):
                import urllib.request  # not free at start, and seldom needed

                body = json.dumps({"action": action, "host": host_id, "address": address}).encode()
                request = urllib.request.Request(  # noqa: S310
                    self._hook, body, {"Content-Type": "application/json"}
                )
                urllib.request.urlopen(request, timeout=HOOK_S).close()  # noqa: S310
                return ""
            command = [*shlex.split(self._hook), action, host_id, address]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=HOOK_S, check=False, umask=umask_of_user()
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return str(error)
        return "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr.strip()[-500:]}"

    def _tell(self, host_id: str, kind: str, message: str) -> None:
        def add(conn: Connection) -> None:
            repository.add_event(conn, self._clock(), kind, host_id=host_id, message=message)

        self._db.write(add)
