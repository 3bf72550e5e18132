"""Which hosts are lost, and which are back: pure. What happens to their jobs is another question, see `loop`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LivenessChange:
    """A change of what is said of a host. `lost_at`: None if it is back."""

    host_id: str
    lost_at: float | None
    message: str


def liveness_changes(
    hosts: Sequence[Any], silent: Mapping[str, tuple[float, str]], now: float, grace_s: float
) -> list[LivenessChange]:
    """What has changed. `hosts`: rows with `id`, `parking` and `lost_at`. `silent`: host id -> (since when it does not
    answer, why), of those that do not; one that is parked is silent on purpose."""
    changes = []
    for host in hosts:
        since, why = silent.get(host.id, (None, ""))
        if since is None or host.parking == "parked":
            if host.lost_at is not None:
                changes.append(LivenessChange(host.id, None, f"{host.id} answers again." if since is None else ""))
        elif host.lost_at is None and now - since > grace_s:
            changes.append(LivenessChange(host.id, now, f"{host.id} has not answered for {now - since:.0f} s: {why}"))
    return changes
