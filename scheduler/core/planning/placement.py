"""Choice of concrete GPUs for planned counts per host. Pure and deterministic.

It is the last check before leases are claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from schedulearn.scheduler.core.cluster_state import ClusterState
from schedulearn.scheduler.core.model import Allocation
from schedulearn.scheduler.core.topology import NODE, NVLINK, SYSTEM


@dataclass(frozen=True)
class GpuState:
    """Usable GPU, and its taken slots."""

    uuid: str
    host_id: str
    index: int
    taken_slots: frozenset[int] = frozenset()
    utilization: float | None = None
    island: int | None = None
    """GPUs of a host with the same island are connected by NVLink."""
    numa: int | None = None
    memory_left: int | None = None
    """Predicted free memory in bytes; None: unknown."""
    links: Mapping[str, int] = field(default_factory=dict, compare=False)
    """GPU -> kind of the link to it, as in `Topology`; unknown links are missing."""


MEMORY_MARGIN = 0.1
"""Share of a shared GPU's memory that is kept free, for contexts, caches, and errors of predictions."""


@dataclass(frozen=True)
class GpuMemory:
    """Predicted memory of jobs and of shared GPUs, in bytes."""

    needs: Mapping[str, int] = field(default_factory=dict)
    """Job id -> peak on each of its GPUs; missing: unknown."""
    left: Mapping[str, int] = field(default_factory=dict)
    """GPU -> memory less the margin and the needs of its jobs; missing: unknown."""


def gpu_memory(state: ClusterState, needs: Mapping[str, int]) -> GpuMemory:
    """Return the memory of all GPUs, given the needs of jobs."""
    job_of = {task.id: task.job_id for task in state.tasks}
    left: dict[str, int] = {}
    for gpu in state.gpus:
        if gpu.memory_bytes:
            holders = {job_of.get(task_id, "") for task_id in state.leases.get(gpu.uuid, {}).values()}
            left[gpu.uuid] = int(gpu.memory_bytes * (1 - MEMORY_MARGIN)) - sum(needs.get(job, 0) for job in holders)
    return GpuMemory(needs, left)


def predicted_memory(own: int | None, family: int | None, asked: int | None, hint: int | None = None) -> int | None:
    """Return the predicted peak memory of a job on each of its GPUs, in bytes; None: unknown.

    It is the peak of its `family`, else what it `asked` for; its `own` peak counts if that is higher. `hint`: peak of
    other users' jobs of the family, used if nothing else is known."""
    known = family if family is not None else asked
    if known is None:
        return hint if own is None else own
    return max(known, own or 0)


@dataclass(frozen=True)
class LeaseClaim:
    """One slot of one GPU for one task."""

    gpu_uuid: str
    slot: int


Placement = Mapping[str, tuple[LeaseClaim, ...]]
"""Host id -> slots of a job there."""


def place(
    wanted: Iterable[tuple[str, Allocation]],
    gpus: Iterable[GpuState],
    jobs_per_gpu: int = 1,
    max_utilization: float = 100.0,
    needs: Mapping[str, int] = {},
) -> dict[str, Placement]:
    """Choose distinct GPUs for each (job id, allocation), in the order given. A job that does not fit is left out.

    On a host, GPUs with the fewest jobs come first. Of those, the set with the closest links is chosen: NVLink before a
    common PCIe switch, host bridge, and NUMA node. Among equal sets, the one that leaves the closest links free is
    chosen: a single GPU breaks no NVLink pair while another GPU is free. `needs`: predicted bytes of jobs on each GPU;
    a job shares only GPUs with enough predicted free memory.
    """
    free: dict[str, list[tuple[GpuState, set[int]]]] = {}
    for gpu in sorted(gpus, key=lambda gpu: (gpu.host_id, gpu.index, gpu.uuid)):
        slots = set(range(jobs_per_gpu)) - gpu.taken_slots
        if gpu.taken_slots and (gpu.utilization or 0.0) >= max_utilization:
            slots = set()
        free.setdefault(gpu.host_id, []).append((gpu, slots))

    left = {gpu.uuid: gpu.memory_left for each in free.values() for gpu, _ in each}
    placements: dict[str, Placement] = {}
    for job_id, allocation in wanted:
        need = needs.get(job_id, 0)
        chosen: dict[str, tuple[LeaseClaim, ...]] = {}
        for host_id, count in sorted(allocation.items()):
            slots_of = {
                gpu: slots
                for gpu, slots in free.get(host_id, [])
                if slots and (len(slots) == jobs_per_gpu or _at_least(left[gpu.uuid], need))
            }
            if len(slots_of) < count:
                break
            picked: list[GpuState] = []
            for number in sorted({len(slots) for slots in slots_of.values()}, reverse=True):
                alike = [gpu for gpu, slots in slots_of.items() if len(slots) == number]
                picked += closest(alike, min(len(alike), count - len(picked)), picked)
            picked.sort(key=lambda gpu: gpu.index)
            chosen[host_id] = tuple(LeaseClaim(gpu.uuid, min(slots_of[gpu])) for gpu in picked)
        else:
            placements[job_id] = chosen
            for host_id, claims in chosen.items():
                for gpu, slots in free.get(host_id, ()):
                    slots.difference_update(c.slot for c in claims if c.gpu_uuid == gpu.uuid)
                for claim in claims:
                    before = left[claim.gpu_uuid]
                    left[claim.gpu_uuid] = None if before is None else before - need
    return placements


def _at_least(left: int | None, need: int) -> bool:
    return left is None or left >= need


_FAR = 2 * SYSTEM + 1
_BITS = 14  # of a count of pairs of GPUs
_FARNESS = [1 << (_BITS * distance) for distance in range(_FAR + 1)]
_NEARNESS = _FARNESS[::-1]
"""Weights of pairs. Sums compare like tuples of counts, the farthest (or nearest) distance first."""


def closest(gpus: Sequence[GpuState], count: int, beside: Sequence[GpuState] = ()) -> list[GpuState]:
    """Return `count` of `gpus` that are close to each other and to those `beside`, by index.

    It tries each GPU as the first one, and adds the closest to it one by one.
    """
    if count in (0, len(gpus)) or not any(gpu.links or gpu.island is not None or gpu.numa is not None for gpu in gpus):
        return list(gpus[:count])
    far = [[_distance(gpu, other) for other in gpus] for gpu in gpus]
    base = [sum(_FARNESS[_distance(gpu, other)] for other in beside) for gpu in gpus]
    near = [sum(_NEARNESS[d] for other, d in enumerate(row) if other != index) for index, row in enumerate(far)]
    best = min(_grown(first, count, far, base, near) for first in range(len(gpus)))
    return [gpus[index] for index in best[2]]


def _grown(
    first: int, count: int, far: Sequence[Sequence[int]], base: Sequence[int], near: Sequence[int]
) -> tuple[int, int, list[int]]:
    """Return the cost of the set grown from `first`, its closeness to the GPUs left over, and its indices.

    `base`: distance of each GPU to those chosen already. `near`: closeness of each GPU to all others."""
    chosen: list[int] = []
    inside, left = list(base), list(near)
    apart = 0
    while True:
        chosen.append(first)
        apart += inside[first]
        for index, distance in enumerate(far[first]):
            if index != first:
                inside[index] += _FARNESS[distance]
                left[index] -= _NEARNESS[distance]
        if len(chosen) == count:
            return apart, sum(left[index] for index in chosen), sorted(chosen)
        rest = (index for index in range(len(far)) if index not in chosen)
        first = min(rest, key=lambda index: (inside[index], left[index], index))


def _distance(gpu: GpuState, other: GpuState) -> int:
    """Return twice the rank of their link in `KINDS`, plus one across NUMA nodes."""
    rank = gpu.links.get(other.uuid)
    if rank is None:
        same = gpu.numa is not None and gpu.numa == other.numa
        rank = NVLINK if gpu.island is not None and gpu.island == other.island else NODE if same else SYSTEM
    return 2 * rank + (gpu.numa is not None and other.numa is not None and gpu.numa != other.numa)
