"""From the books to the snapshot that policies see. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schedulearn.scheduler.core.in_place import IN_PLACE, leaving
from schedulearn.scheduler.core.model import IN_PLACE_S, HostView, JobView, Snapshot
from schedulearn.scheduler.core.outcomes import ran_seconds
from schedulearn.scheduler.core.remaining_work import by_family, by_progress
from schedulearn.scheduler.core.states import WAITS, JobStatus

if TYPE_CHECKING:
    from schedulearn.scheduler.core.profile import JobProfile
    from schedulearn.scheduler.store.repository import ClusterState

_PART = " / "  # no host's name has it
UNREPORTED_S = 180.0  # a job that has run for so long without a report won't send any


def build_snapshot(
    books: ClusterState,
    ready: Set[str],
    utilization: Callable[[str], float | None],
    now: float,
    profile_of: Callable[[str], JobProfile | None] = lambda job_id: None,
    caps_growth: bool = True,
    *,
    awaited: Set[str] = frozenset(),
    settled: bool = False,
    work_of: Callable[[str], float | None] = lambda family: None,
) -> Snapshot:
    """Hosts, and jobs that wait or run. Hosts that are not `ready` (silent, or not yet rid of old containers) count
    with what their jobs hold, and are closed to others.

    A job that is stopped and started again for a resize stands there with what it will hold, from the decision until
    it runs again: else the others would take its place meanwhile. GPUs that jobs or workers are about to leave may be
    planned with (`HostView.gpu_leaving`); with `settled` they count as free already. A job that ends is left out.

    `awaited`: jobs whose family's profile is still being fitted. New ones are not decided on before it is there, and
    running ones are left as they are.
    `work_of`: family -> GPU-seconds that its jobs took on average, None if unknown.
    `caps_growth`: elastic jobs may only be tried on what their profiles cover, as is right for policies that resize.
    """
    passive = {
        task.id
        for task in books.tasks
        if task.job_id not in books.jobs or books.jobs[task.job_id].status in (JobStatus.STOPPING, JobStatus.RESIZING)
    } | leaving(books.jobs, books.tasks)
    part_of = parts(books.gpus)
    hosts = _Hosts(books, ready, passive, part_of)
    held = _held(books.tasks, passive, part_of, hosts, now)
    for job in sorted(books.jobs.values(), key=lambda job: job.submitted_at):
        again = job.target and job.id not in held and job.status != JobStatus.STOPPING
        if again and (picked := hosts.reserve(job, books.tasks)) is not None:
            held[job.id] = _Held(dict(job.target), picked)
    jobs = []
    for job in books.jobs.values():
        if job.status == JobStatus.STOPPING or (job.status in WAITS and job.id in awaited):
            continue
        profile = profile_of(job.id) if job.elastic else None
        mine = held.get(job.id, _NOTHING)
        jobs.append(_view(job, mine, profile, books.progress.get(job.id), work_of, now, caps_growth, awaited))
    views = hosts.views(utilization, settled)
    return Snapshot(now=now, seed=0, hosts=views, jobs=tuple(jobs), last_host=books.last_host)


@dataclass
class _Held:
    """What one job holds, or will hold, and for how long it has."""

    allocation: dict[str, int] = field(default_factory=dict)
    indices: dict[str, tuple[int, ...]] = field(default_factory=dict)
    served: float = 0.0
    """GPU-seconds by tasks that still live."""
    ran: float = 0.0
    """Seconds that its first task has run."""
    since: float = 0.0
    """Seconds that the last of its tasks to start has run."""


_NOTHING = _Held()


def _held(
    tasks: Sequence[Any], passive: Set[str], part_of: Mapping[str, str], hosts: _Hosts, now: float
) -> dict[str, _Held]:
    found: dict[str, _Held] = {}
    for task in tasks:
        if task.id in passive:
            continue
        first = task.job_id not in found
        mine = found.setdefault(task.job_id, _Held())
        for uuid in task.gpu_uuids:
            name = part_of.get(uuid, task.host_id)
            mine.allocation[name] = mine.allocation.get(name, 0) + 1
            mine.indices[name] = mine.indices.get(name, ()) + hosts.index(uuid)
        ran = ran_seconds(task, now)
        mine.served += ran * len(task.gpu_uuids)
        mine.since = ran if first else min(mine.since, ran)
        if task.rank == 0:
            mine.ran = ran
    return found


class _Hosts:
    """The hosts while a snapshot is made: which of their GPUs may be planned with, and how many jobs each will have."""

    def __init__(self, books: ClusterState, ready: Set[str], passive: Set[str], part_of: Mapping[str, str]) -> None:
        self._rows: list[tuple[Any, str, bool, list[Any]]] = []  # host, its part's name, whether it is open, all GPUs
        self._usable: dict[str, list[Any]] = {}
        self._jobs: dict[str, list[int]] = {}
        self._leaving: dict[str, list[bool]] = {}
        self._index: dict[str, int] = {}
        """GPU -> its place among those of its part."""
        by_host: dict[str, dict[str, list[Any]]] = {}
        for gpu in books.gpus:
            by_host.setdefault(gpu.host_id, {}).setdefault(part_of[gpu.uuid], []).append(gpu)
        for host in books.hosts:
            is_open = host.state == "active" and host.id in ready
            for name, gpus in sorted(by_host.get(host.id, {host.id: []}).items()):
                self._rows.append((host, name, is_open, gpus))
                usable: list[Any] = []
                jobs: list[int] = []
                leaves: list[bool] = []
                for gpu in gpus:
                    tasks = list(books.leases.get(gpu.uuid, {}).values())
                    staying = sum(1 for task in tasks if task not in passive)
                    if staying or (is_open and not gpu.fault and not gpu.occupied):
                        self._index[gpu.uuid] = len(usable)
                        usable.append(gpu)
                        jobs.append(staying)
                        leaves.append(staying < len(tasks))
                self._usable[name], self._jobs[name], self._leaving[name] = usable, jobs, leaves

    def index(self, uuid: str) -> tuple[int, ...]:
        return (self._index[uuid],) if uuid in self._index else ()

    def reserve(self, job: Any, tasks: Sequence[Any]) -> dict[str, tuple[int, ...]] | None:
        """GPUs for the target of `job`, by host, the first those that it holds still; None, and nothing taken, if a
        host has not so many any more that nobody else holds."""
        open_parts = {name for _, name, is_open, _ in self._rows if is_open}
        own = {uuid for task in tasks if task.job_id == job.id for uuid in task.gpu_uuids}
        picked: dict[str, tuple[int, ...]] = {}
        for name, count in job.target.items():
            free = [i for i, jobs in enumerate(self._jobs.get(name, ())) if not jobs]
            if name not in open_parts or len(free) < count:
                return None
            usable, leaves = self._usable[name], self._leaving[name]
            free.sort(key=lambda i: (usable[i].uuid not in own, leaves[i], i))
            picked[name] = tuple(sorted(free[:count]))
        for name, indices in picked.items():
            for index in indices:
                self._jobs[name][index] += 1
        return picked

    def views(self, utilization: Callable[[str], float | None], settled: bool) -> tuple[HostView, ...]:
        return tuple(
            HostView(
                id=name,
                gpus=len(self._usable[name]),
                gpu_type=gpus[0].type if gpus else "gpu",
                labels=host.labels,
                open=is_open,
                parked_gpus=sum(1 for gpu in gpus if not gpu.fault) if host.parking else 0,
                gpu_jobs=tuple(self._jobs[name]),
                gpu_utilization=tuple(utilization(gpu.uuid) or 0.0 for gpu in self._usable[name]),
                gpu_leaving=() if settled or not any(self._leaving[name]) else tuple(self._leaving[name]),
            )
            for host, name, is_open, gpus in self._rows
        )


def _view(
    job: Any,
    held: _Held,
    profile: JobProfile | None,
    progress: Any,
    work_of: Callable[[str], float | None],
    now: float,
    caps_growth: bool,
    awaited: Set[str],
) -> JobView:
    attained = job.gpu_seconds + held.served
    length = by_progress(progress, attained, profile.goodput if profile else None, job.min_gpus)
    length = length or by_family(work_of(job.family), attained)
    since = held.since if job.resized_at is None else min(held.since, max(0.0, now - job.resized_at))
    measured = profile.resize_seconds if profile else None
    return JobView(
        id=job.id,
        submitted_at=job.submitted_at,
        required_gpus=job.required_gpus,
        min_gpus=job.min_gpus,
        max_gpus=_cap(job, profile, held.ran) if caps_growth and job.elastic else job.max_gpus,
        elastic=job.elastic,
        priority=job.priority,
        weight=job.weight,
        deadline=job.deadline,
        attained_gpu_seconds=attained,
        run_seconds=job.run_seconds + held.ran,
        restarts=job.restarts + job.generation - job.attempt,  # with resizes in place
        allocation=held.allocation,
        held_seconds=0.0 if job.id in awaited else since if held.allocation else None,
        gpu_indices=held.indices,
        remaining=length.seconds if length is not None else None,
        basis=length.basis if length is not None else None,
        goodput=profile.goodput if profile else None,
        profiled_gpus=profile.max_profiled if profile else None,
        resize_seconds=IN_PLACE_S if measured is None and job.resize == IN_PLACE else measured,
    )


def parts(gpus: Sequence[Any]) -> dict[str, str]:
    """GPU -> what policies see it on. A host with GPUs of several types, as MIG makes them, is one host for each of
    them: to a job they are as different as those of different hosts."""
    types: dict[str, set[str]] = {}
    for gpu in gpus:
        types.setdefault(gpu.host_id, set()).add(gpu.type)
    return {
        gpu.uuid: gpu.host_id if len(types[gpu.host_id]) == 1 else f"{gpu.host_id}{_PART}{gpu.type}" for gpu in gpus
    }


def host_of(part: str) -> str:
    """The host that a part belongs to."""
    return part.partition(_PART)[0]


def _cap(job: Any, profile: JobProfile | None, ran: float) -> int:
    """How many GPUs the job may be tried on now. One that was never measured starts small; if it turns out not to
    report, it gets what its user asked for."""
    if profile is not None:
        return profile.cap(job.max_gpus, job.min_gpus)
    return int(job.required_gpus if job.run_seconds + ran > UNREPORTED_S else job.min_gpus)
