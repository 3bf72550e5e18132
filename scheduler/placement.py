"""From counts per host to concrete GPUs: pure, deterministic, and the last check before leases are claimed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schedulearn.scheduler.domain import Allocation


@dataclass(frozen=True)
class GpuState:
    """A GPU that may be used, and which of its slots are taken."""

    uuid: str
    host_id: str
    index: int
    taken_slots: frozenset[int] = frozenset()
    utilization: float | None = None


@dataclass(frozen=True)
class LeaseClaim:
    """One slot of one GPU for one task."""

    gpu_uuid: str
    slot: int


Placement = Mapping[str, tuple[LeaseClaim, ...]]
"""host id -> the slots that a job takes there."""


def place(
    wanted: Iterable[tuple[str, Allocation]],
    gpus: Iterable[GpuState],
    jobs_per_gpu: int = 1,
    max_utilization: float = 100.0,
) -> dict[str, Placement]:
    """Finds distinct GPUs for each (job id, allocation), in the order given; a job that does not fit is left out.

    On a host the emptiest GPUs come first, then the lowest index, so that neighbours on the bus stay together.
    """
    free: dict[str, list[tuple[GpuState, set[int]]]] = {}
    for gpu in sorted(gpus, key=lambda gpu: (gpu.host_id, gpu.index, gpu.uuid)):
        slots = set(range(jobs_per_gpu)) - gpu.taken_slots
        if gpu.taken_slots and (gpu.utilization or 0.0) >= max_utilization:
            slots = set()
        free.setdefault(gpu.host_id, []).append((gpu, slots))

    placements: dict[str, Placement] = {}
    for job_id, allocation in wanted:
        chosen: dict[str, tuple[LeaseClaim, ...]] = {}
        for host_id, count in sorted(allocation.items()):
            candidates = [(gpu, slots) for gpu, slots in free.get(host_id, []) if slots]
            candidates.sort(key=lambda pair: (-len(pair[1]), pair[0].index))
            if len(candidates) < count:
                break
            picked = sorted(candidates[:count], key=lambda pair: pair[0].index)
            chosen[host_id] = tuple(LeaseClaim(gpu.uuid, min(slots)) for gpu, slots in picked)
        else:
            placements[job_id] = chosen
            for host_id, claims in chosen.items():
                for gpu, slots in free[host_id]:
                    slots.difference_update(c.slot for c in claims if c.gpu_uuid == gpu.uuid)
    return placements
