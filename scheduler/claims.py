"""From a plan to what is written down: which jobs start or are to change, their leases and their tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from schedulearn.scheduler.domain import Plan, Snapshot
from schedulearn.scheduler.explain import code_of
from schedulearn.scheduler.gang import Place, in_order, place_of
from schedulearn.scheduler.host_agent import HostAgent
from schedulearn.scheduler.placement import GpuState, Placement, place
from schedulearn.scheduler.runtimes.base import task_id
from schedulearn.scheduler.states import JobStatus, Reason
from schedulearn.scheduler.store import repository

if TYPE_CHECKING:
    from schedulearn.scheduler.store.repository import Books

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Changes:
    start: list[Any]
    resize: list[Any]

    def __bool__(self) -> bool:
        return bool(self.start or self.resize)


def changes_of(books: Books, snapshot: Snapshot, plan: Plan, ready: Set[str]) -> Changes:
    """Jobs that the plan starts, and elastic ones that it gives something else than they hold. Those that are to run at
    once start first: they get the emptiest GPUs. What is on a host that does not answer stays until that host is given
    up: it can't be stopped anyway."""
    start, resize = [], []
    for view in snapshot.jobs:
        job = books.jobs[view.id]
        wanted = dict(plan.allocations.get(view.id, {}))
        if job.status == JobStatus.QUEUED and wanted:
            start.append(job)
        elif (
            job.status == JobStatus.RUNNING
            and view.elastic
            and wanted != dict(view.allocation)
            and ready >= set(view.allocation)
        ):
            resize.append(job)
    order = {job_id: place for place, job_id in enumerate(plan.allocations)}
    start.sort(key=lambda job: (job.id in plan.suspended, order[job.id]))
    return Changes(start, resize)


def claim(
    db: Connection,
    changes: Changes,
    plan: Plan,
    agents: Mapping[str, HostAgent],
    ready: Set[str],
    utilization: Callable[[str], float | None],
    now: float,
) -> None:
    """Claims leases for jobs that start and asks for the end of tasks that are to be resized."""
    found, leases = repository.load_hosts(db), repository.load_leases(db)
    places = {host.id: place_of(host.address, host.network) for host in found.hosts}
    for job in changes.resize:
        message = plan.reasons.get(job.id, "The policy gives it another allocation.")
        decided = {"decision": code_of(message), "allocation": dict(plan.allocations.get(job.id, {}))}
        if repository.move_job(db, job, Reason.RESIZE_REQUESTED, message, now, data=decided):
            repository.stop_tasks(db, job.id)
    open_hosts = {host.id for host in found.hosts if host.state == "active"} & ready
    gpus = [
        GpuState(g.uuid, g.host_id, g.ordinal, frozenset(leases.get(g.uuid, {})), utilization(g.uuid), g.island, g.numa)
        for g in found.gpus
        if g.host_id in open_hosts and not g.fault and not g.occupied
    ]
    wanted = [(job.id, plan.allocations[job.id]) for job in changes.start]
    placements = place(wanted, gpus, plan.jobs_per_gpu, plan.max_utilization)
    for job in changes.start:
        if job.id not in placements:
            continue
        try:
            with db.begin_nested():
                _start(db, job, placements[job.id], places, agents, plan.reasons.get(job.id, ""), now)
        except IntegrityError:
            log.warning("job %s: a GPU was taken meanwhile; it waits for the next turn", job.id)


def _start(
    db: Connection,
    job: Any,
    placement: Placement,
    places: Mapping[str, Place],
    agents: Mapping[str, HostAgent],
    why: str,
    now: float,
) -> None:
    hosts = in_order(placement, places, job.checkpoint_host)
    attempt = job.attempt + 1
    missing = [host for host in hosts if not agents[host].has_image(job.container_image)]
    where = ", ".join(f"{len(placement[h])} on {h}" for h in hosts)
    reason = Reason.IMAGE_PULL if missing else Reason.PLACED
    message = (
        f"Given GPUs: {where}." + (f" {why}" if why else "") + (f" Fetching {job.container_image}." if missing else "")
    )
    fields = {"attempt": attempt, "pull_percent": 0.0 if missing else None}
    if not repository.move_job(db, job, reason, message, now, **fields):
        return
    for rank, host in enumerate(hosts):
        claims = [(claim.gpu_uuid, claim.slot) for claim in placement[host]]
        repository.add_task(
            db, claims, now,
            id=task_id(job.id, attempt, rank), job_id=job.id, attempt=attempt, rank=rank, host_id=host,
        )  # fmt: skip
    if len(hosts) > 1:
        repository.lease_port(db, hosts[0], task_id(job.id, attempt, 0), attempt)
