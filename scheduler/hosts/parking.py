"""Scaling of the number of hosts that are on, by an operator's hook.

Hosts that the policy doesn't need are powered down, and powered up again later. A host is cordoned before that: no
further job starts there, and its elastic jobs move at once. The hook is called when nothing runs there any more. Rigid
jobs are never stopped for this: a host that runs one stays on.
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
"""Delay after the start, so that hosts can answer and the policy can decide first."""
HOOK_S = 120.0
"""Timeout of a hook."""
BOOT_S = 900.0
"""Maximum time for which a host that was powered up counts as on, although it does not answer yet."""
RETRY_S = 60.0
"""Delay before the next try of a failed hook."""


class Decision(Protocol):
    """Latest decision of the policy."""

    @property
    def desired_hosts(self) -> int | None:
        """Number of hosts that should be on; None: the policy does not say."""

    @property
    def parks_idle_only(self) -> bool:
        """Whether only hosts without jobs are powered down."""


class HostParking:
    """Thread that powers hosts down and up, by the `steps` of `core.host_scaling`.

    `hook` is a command, called as `HOOK park|wake HOST ADDRESS`, or a URL, which gets {"action", "host", "address"} as
    JSON. Empty: hosts are only marked. A restart of the service may cause a second call for the same step. No host is
    cordoned within `settle_s` of the start, because the earlier values of `desired_hosts` are not known."""

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
            "parking", self._run, first_s=SETTLE_S, trouble="hosts could not be powered down or up", trouble_s=EVERY_S
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close()

    def _run(self) -> float:
        self.turn()
        return EVERY_S

    def turn(self) -> None:
        """Check once, and carry out the steps that are due."""
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
                self._tell(host_id, "host.hook_failed", f"The scaling hook failed to {step} {host_id}: {why}")
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
            held[task.host_id] += max(1, len(task.gpu_uuids))  # a job without GPUs keeps its host on, too
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
        """Call the hook, and return why it failed; empty if it did not."""
        if not self._hook:
            return ""
        try:
            if self._hook.startswith(("http://", "https://")):
                import urllib.request  # slows the start, and seldom needed

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
