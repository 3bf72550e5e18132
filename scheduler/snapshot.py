"""From the books to the snapshot that policies see. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any

from schedulearn.scheduler.digest import ran_seconds
from schedulearn.scheduler.domain import HostView, JobView, Snapshot
from schedulearn.scheduler.lengths import by_family, by_progress
from schedulearn.scheduler.membership import leaving
from schedulearn.scheduler.states import JobStatus

if TYPE_CHECKING:
    from schedulearn.scheduler.profiles import JobProfile
    from schedulearn.scheduler.store.repository import Books

_PART = " / "  # no host's name has it
UNREPORTED_S = 180.0  # a job that has run for so long without a report won't send any


def build_snapshot(
    books: Books,
    ready: Set[str],
    utilization: Callable[[str], float | None],
    now: float,
    profile_of: Callable[[str], JobProfile | None] = lambda job_id: None,
    caps_growth: bool = True,
    *,
    settled: bool = False,
    work_of: Callable[[str], float | None] = lambda family: None,
) -> Snapshot:
    """Hosts, and jobs that wait or run. Hosts that are not `ready` (silent, or not yet rid of old containers) count
    with what their jobs hold, and are closed to others. A job that is being stopped or restarted is left out: what it
    holds is taken off its host, since it can't be given to others yet, and so is what those workers hold that leave a
    job; with `settled` it is taken to have stopped already, and waits if it is to go on.

    `work_of`: family -> GPU-seconds that its jobs took on average, None if unknown.
    `caps_growth`: elastic jobs may only be tried on what their profiles cover, as is right for policies that resize.
    """
    passive = {
        task.id
        for task in books.tasks
        if task.job_id not in books.jobs or books.jobs[task.job_id].status in (JobStatus.STOPPING, JobStatus.RESIZING)
    } | leaving(books.jobs, books.tasks)
    hosts = []
    positions: dict[str, int] = {}  # GPU -> its place among those of its host
    part_of = parts(books.gpus)
    by_host: dict[str, dict[str, list[Any]]] = {}  # host -> part -> its GPUs
    for gpu in books.gpus:
        by_host.setdefault(gpu.host_id, {}).setdefault(part_of[gpu.uuid], []).append(gpu)
    of_hosts = ((host, *part) for host in books.hosts for part in sorted(by_host.get(host.id, {host.id: []}).items()))
    for host, name, mine in of_hosts:
        leases = {gpu.uuid: books.leases.get(gpu.uuid, {}) for gpu in mine}
        if settled:
            leases = {
                uuid: {slot: task for slot, task in slots.items() if task not in passive}
                for uuid, slots in leases.items()
            }
        is_open = host.state == "active" and host.id in ready
        usable = [
            gpu
            for gpu in mine
            if not any(task in passive for task in leases[gpu.uuid].values())
            and (leases[gpu.uuid] or (is_open and not gpu.fault and not gpu.occupied))
        ]
        hosts.append(
            HostView(
                id=name,
                gpus=len(usable),
                gpu_type=mine[0].type if mine else "gpu",
                labels=host.labels,
                open=is_open,
                parked_gpus=sum(1 for gpu in mine if not gpu.fault) if host.parking else 0,
                gpu_jobs=tuple(len(leases[gpu.uuid]) for gpu in usable),
                gpu_utilization=tuple(utilization(gpu.uuid) or 0.0 for gpu in usable),
            )
        )
        positions.update({gpu.uuid: index for index, gpu in enumerate(usable)})
    held: dict[str, dict[str, int]] = {}
    indices: dict[str, dict[str, tuple[int, ...]]] = {}
    ran: dict[str, float] = {}
    served: dict[str, float] = {}  # GPU-seconds by tasks that still live
    for task in books.tasks:
        if task.id not in passive:
            allocation, on = held.setdefault(task.job_id, {}), indices.setdefault(task.job_id, {})
            for uuid in task.gpu_uuids:
                name = part_of.get(uuid, task.host_id)
                allocation[name] = allocation.get(name, 0) + 1
                on[name] = on.get(name, ()) + ((positions[uuid],) if uuid in positions else ())
            served[task.job_id] = served.get(task.job_id, 0.0) + ran_seconds(task, now) * len(task.gpu_uuids)
            if task.rank == 0:
                ran[task.job_id] = ran_seconds(task, now)
    jobs = []
    for job in books.jobs.values():
        if job.status == JobStatus.STOPPING or (job.status == JobStatus.RESIZING and not settled):
            continue
        allocation = held.get(job.id, {})
        profile = profile_of(job.id) if job.elastic else None
        current = ran.get(job.id, 0.0)
        attained = job.gpu_seconds + served.get(job.id, 0.0)
        length = by_progress(books.progress.get(job.id), attained, profile.goodput if profile else None, job.min_gpus)
        length = length or by_family(work_of(job.family), attained)
        jobs.append(
            JobView(
                id=job.id,
                submitted_at=job.submitted_at,
                required_gpus=job.required_gpus,
                min_gpus=job.min_gpus,
                max_gpus=_cap(job, profile, ran.get(job.id, 0.0)) if caps_growth and job.elastic else job.max_gpus,
                elastic=job.elastic,
                priority=job.priority,
                weight=job.weight,
                deadline=job.deadline,
                attained_gpu_seconds=attained,
                run_seconds=job.run_seconds + current,
                restarts=job.restarts + job.generation - job.attempt,  # with resizes in place
                allocation=allocation,
                gpu_indices=indices.get(job.id, {}),
                remaining=length.seconds if length is not None else None,
                basis=length.basis if length is not None else None,
                goodput=profile.goodput if profile else None,
                profiled_gpus=profile.max_profiled if profile else None,
                resize_seconds=profile.resize_seconds if profile else None,
            )
        )
    return Snapshot(now=now, seed=0, hosts=tuple(hosts), jobs=tuple(jobs), last_host=books.last_host)


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
