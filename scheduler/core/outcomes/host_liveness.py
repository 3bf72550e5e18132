"""Detection of lost and returned hosts. Pure.

Their tasks are given up by `SchedulerLoop._hosts_given_up`, and only while another host answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedulearn.scheduler.core.cluster_state import Host
from schedulearn.scheduler.core.states import Parking


@dataclass(frozen=True)
class Silence:
    """Time since which a host does not answer, and the reason."""

    since: float
    why: str


@dataclass(frozen=True)
class LivenessChange:
    """Change of a host's liveness. `lost_at` is None if the host is back."""

    host_id: str
    lost_at: float | None
    message: str


def liveness_changes(
    hosts: Sequence[Host], silent: Mapping[str, Silence], now: float, grace_s: float
) -> list[LivenessChange]:
    """Return the changes of liveness.

    `silent` maps the hosts that do not answer to their silence. A host that is powered down is silent on purpose.
    """
    changes = []
    for host in hosts:
        silence = silent.get(host.id)
        if silence is None or host.parking is Parking.PARKED:
            if host.lost_at is not None:
                changes.append(LivenessChange(host.id, None, f"{host.id} answers again." if silence is None else ""))
        elif host.lost_at is None and now - silence.since > grace_s:
            message = f"{host.id} has not answered for {now - silence.since:.0f} s: {silence.why}"
            changes.append(LivenessChange(host.id, now, message))
    return changes
