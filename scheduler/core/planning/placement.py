"""From counts per host to concrete GPUs: pure, deterministic, and the last check before leases are claimed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from schedulearn.scheduler.core.cluster_state import ClusterState
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
    memory_left: int | None = None
    """Bytes that its jobs are predicted to leave free; None: not known."""


MEMORY_MARGIN = 0.1
"""Of a GPU's memory, kept free where jobs share it: contexts and caches of several processes, and what predictions
miss."""


@dataclass(frozen=True)
class GpuMemory:
    """What jobs take of each of their GPUs, as predicted, and what is left where they share GPUs. Bytes."""

    needs: Mapping[str, int] = field(default_factory=dict)
    """job id -> at its peak; missing: nobody knows."""
    left: Mapping[str, int] = field(default_factory=dict)
    """GPU -> of its memory, less the margin and what its jobs are predicted to need; missing: not known."""


def gpu_memory(state: ClusterState, needs: Mapping[str, int]) -> GpuMemory:
    """The same, from what each job of `state` needs."""
    job_of = {task.id: task.job_id for task in state.tasks}
    left: dict[str, int] = {}
    for gpu in state.gpus:
        if gpu.memory_bytes:
            holders = {job_of.get(task_id, "") for task_id in state.leases.get(gpu.uuid, {}).values()}
            left[gpu.uuid] = int(gpu.memory_bytes * (1 - MEMORY_MARGIN)) - sum(needs.get(job, 0) for job in holders)
    return GpuMemory(needs, left)


def predicted_memory(own: int | None, family: int | None, asked: int | None, hint: int | None = None) -> int | None:
    """Bytes that a job takes of each of its GPUs at its peak: what its family took before, else what it asks for, and
    more if it was seen with more itself. `hint`: what others' jobs of the family took, where nothing else is known.
    None: nobody knows."""
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
"""host id -> the slots that a job takes there."""


def place(
    wanted: Iterable[tuple[str, Allocation]],
    gpus: Iterable[GpuState],
    jobs_per_gpu: int = 1,
    max_utilization: float = 100.0,
    needs: Mapping[str, int] = {},
) -> dict[str, Placement]:
    """Finds distinct GPUs for each (job id, allocation), in the order given; a job that does not fit is left out.

    On a host the emptiest GPUs come first, and of those such as are close to each other: in as few NVLink islands and
    NUMA nodes as go, the one that fits most tightly, so that large ones stay whole for jobs that need them. `needs`:
    bytes that jobs are predicted to take of each GPU; one joins no others where they don't leave it as much.
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
                picked += _close(alike, min(len(alike), count - len(picked)), _LEVELS)
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
