"""Which hosts are lost, and which are back: pure. What happens to their jobs is another question, see `loop`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedulearn.scheduler.core.cluster_state import Host
from schedulearn.scheduler.core.states import Parking


@dataclass(frozen=True)
class Silence:
    """Since when a host does not answer, and why not."""

    since: float
    why: str


@dataclass(frozen=True)
class LivenessChange:
    """A change of what is said of a host. `lost_at`: None if it is back."""

    host_id: str
    lost_at: float | None
    message: str


def liveness_changes(
    hosts: Sequence[Host], silent: Mapping[str, Silence], now: float, grace_s: float
) -> list[LivenessChange]:
    """What has changed. `silent`: host id -> its silence, of those that do not answer; one that is parked is silent on
    purpose."""
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
