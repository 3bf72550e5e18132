"""From counts per host to concrete GPUs: pure, deterministic, and the last check before leases are claimed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from schedulearn.scheduler.core.model import Allocation


@dataclass(frozen=True)
class GpuState:
    """A GPU that may be used, and which of its slots are taken."""

    uuid: str
    host_id: str
    index: int
    taken_slots: frozenset[int] = frozenset()
    utilization: float | None = None
    island: int | None = None
    """GPUs of a host with the same one reach each other by NVLink."""
    numa: int | None = None


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

    On a host the emptiest GPUs come first, and of those such as are close to each other: in as few NVLink islands and
    NUMA nodes as go, the one that fits most tightly, so that large ones stay whole for jobs that need them.
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
            slots_of = {gpu: slots for gpu, slots in free.get(host_id, []) if slots}
            if len(slots_of) < count:
                break
            picked: list[GpuState] = []
            for number in sorted({len(slots) for slots in slots_of.values()}, reverse=True):
                alike = [gpu for gpu, slots in slots_of.items() if len(slots) == number]
                picked += _close(alike, min(len(alike), count - len(picked)), _LEVELS)
            picked.sort(key=lambda gpu: gpu.index)
            chosen[host_id] = tuple(LeaseClaim(gpu.uuid, min(slots_of[gpu])) for gpu in picked)
        else:
            placements[job_id] = chosen
            for host_id, claims in chosen.items():
                for gpu, slots in free.get(host_id, ()):
                    slots.difference_update(c.slot for c in claims if c.gpu_uuid == gpu.uuid)
    return placements


_LEVELS: tuple[Callable[[GpuState], int | None], ...] = (lambda gpu: gpu.island, lambda gpu: gpu.numa)


def _close(gpus: Sequence[GpuState], count: int, levels: Sequence[Callable[[GpuState], int | None]]) -> list[GpuState]:
    """`count` of `gpus`: of the smallest group at the first level that has so many, else of the largest ones."""
    if not levels or count == 0:
        return list(gpus[:count])
    groups: dict[int | None, list[GpuState]] = {}
    for gpu in gpus:
        groups.setdefault(levels[0](gpu), []).append(gpu)
    enough = [group for group in groups.values() if len(group) >= count]
    if enough:
        return _close(min(enough, key=len), count, levels[1:])
    largest = max(groups.values(), key=len)
    return largest + _close([gpu for gpu in gpus if gpu not in largest], count - len(largest), levels)
