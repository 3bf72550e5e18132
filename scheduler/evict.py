"""Jobs that must leave where they are, whatever the policy thinks of it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedulearn.scheduler.states import JobStatus

if TYPE_CHECKING:
    from schedulearn.scheduler.store.repository import Books


def evictions(books: Books, now: float) -> list[tuple[Any, str]]:
    """(job, why) for running jobs that hold a faulty GPU, or are on a host that is drained: elastic ones at once, since
    they lose nothing, rigid ones at its deadline."""
    drained = {host.id: host.drain_until for host in books.hosts if host.drain_until is not None}
    faults = {gpu.uuid: gpu for gpu in books.gpus if gpu.fault}
    found: dict[str, tuple[Any, str]] = {}
    for task in books.tasks:
        job = books.jobs.get(task.job_id)
        if job is None or job.status != JobStatus.RUNNING:
            continue
        faulty = next((faults[uuid] for uuid in task.gpu_uuids if uuid in faults), None)
        if faulty is not None:
            found[job.id] = (job, f"GPU {faulty.ordinal} of {task.host_id} is unhealthy ({faulty.fault}). It moves on.")
        elif task.host_id in drained and (job.elastic or now >= drained[task.host_id]):
            found.setdefault(job.id, (job, f"{task.host_id} is being drained. It moves on."))
    return list(found.values())


def next_deadline(books: Books, now: float) -> list[float]:
    """Seconds until the deadline of each drain that is still to come."""
    return [host.drain_until - now for host in books.hosts if host.drain_until is not None and host.drain_until > now]
