"""Storage of a plan: starting and resizing jobs, their leases and tasks."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from schedulearn.scheduler.control.waiting_reasons import code_of
from schedulearn.scheduler.core.cluster_state import ClusterState, Job, Task
from schedulearn.scheduler.core.gang import GangNetwork, in_order, place_of
from schedulearn.scheduler.core.model import JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.core.outcomes.early_failures import is_open
from schedulearn.scheduler.core.outcomes.in_place import (
    IN_PLACE,
    WorkerChange,
    in_place,
    next_generation,
    settled,
    step_to,
)
from schedulearn.scheduler.core.planning.placement import GpuMemory, GpuState, LeaseClaim, Placement, place
from schedulearn.scheduler.core.planning.snapshot import parts
from schedulearn.scheduler.core.states import WAITS, JobState, Reason
from schedulearn.scheduler.core.task import task_id
from schedulearn.scheduler.core.topology import from_text
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.runtimes.contract import OWN_ENVIRONMENT
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import load_gpu_leases

log = logging.getLogger(__name__)


_NO_MEMORY = GpuMemory()
_NO_LINKS: Mapping[str, int] = {}
MAX_STARTS = 150
"""Maximum jobs that start in one scheduling cycle. A cycle with very many starts would delay all other work."""


@dataclass(frozen=True)
class Resize:
    """Resize by restart. `view`: the job as the policy saw it."""

    job: Job
    view: JobView


@dataclass(frozen=True)
class ResizeInPlace:
    job: Job
    change: WorkerChange


@dataclass(frozen=True)
class Changes:
    start: Sequence[Job]
    resize: Sequence[Resize]
    in_place: Sequence[ResizeInPlace]
    promised: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """See the function `promised`."""

    def __bool__(self) -> bool:
        return bool(self.start or self.resize or self.in_place)


def changes_of(state: ClusterState, snapshot: Snapshot, plan: Plan, ready: Set[str]) -> Changes:
    """Return the jobs to start or resize, according to the plan.

    Jobs that run at once come before suspended ones, to get the emptiest GPUs. A job on a silent host is not resized:
    it can't be stopped before the host is given up."""
    start: list[Job] = []
    resize: list[Resize] = []
    steps: list[ResizeInPlace] = []
    machines = snapshot.machines()
    tasks: dict[str, list[Task]] = {}
    for task in state.tasks:
        tasks.setdefault(task.job_id, []).append(task)
    for view in snapshot.jobs:
        job = state.jobs[view.id]
        wanted = dict(plan.allocations.get(view.id, {}))
        if job.state in WAITS and wanted:
            start.append(job)
        elif (
            job.state == JobState.RUNNING
            and (view.elastic or plan.preempts(view))
            and wanted != dict(view.allocation)
            and ready >= {machines.get(part, part) for part in view.allocation}
        ):
            mine = tasks.get(job.id, [])
            if in_place(mine) and not settled(job, mine):
                continue  # one change at a time
            step = step_to(job, mine, wanted)
            if step is None:
                resize.append(Resize(job, view))
            else:
                steps.append(ResizeInPlace(job, step))
    order = {job_id: place for place, job_id in enumerate(plan.allocations)}
    start.sort(key=lambda job: (job.id in plan.suspended, order[job.id]))
    return Changes(start, resize, steps, promised(state, plan))


def able_to_resize(resize: Sequence[JobView], plan: Plan, free: Mapping[str, int]) -> list[JobView]:
    """Return the jobs of `resize` that can restart once they have stopped.

    They restart on their own GPUs and on GPUs that are `free` now, by host. The other jobs keep training until those
    GPUs are free, since no one knows how long that takes. Jobs that wait only for each other are all stopped at
    once."""
    spare = dict(free)
    able = []
    for view in resize:
        wanted = plan.allocations.get(view.id, {})
        more = {host: max(0, gpus - view.allocation.get(host, 0)) for host, gpus in wanted.items()}
        if all(gpus <= spare.get(host, 0) for host, gpus in more.items() if gpus):
            able.append(view)
            spare.update({host: spare.get(host, 0) - gpus for host, gpus in more.items()})
    if able or not resize:
        return able
    wanted_in_all: Counter[str] = Counter()
    held_in_all: Counter[str] = Counter()
    for view in resize:
        wanted_in_all.update(plan.allocations.get(view.id, {}))
        held_in_all.update(view.allocation)
    fits = all(gpus <= held_in_all[host] + free.get(host, 0) for host, gpus in wanted_in_all.items())
    return list(resize) if fits else []


def promised(state: ClusterState, plan: Plan) -> dict[str, dict[str, int]]:
    """Return job -> part of a host -> number of reserved GPUs.

    The job was stopped for these GPUs, and does not hold them yet."""
    part_of = parts(state.gpus)
    held: dict[str, Counter[str]] = {}
    for task in state.tasks:
        held.setdefault(task.job_id, Counter()).update(part_of.get(uuid, task.host_id) for uuid in task.gpu_uuids)
    return {
        job.id: {part: max(0, n - held.get(job.id, Counter())[part]) for part, n in plan.allocations[job.id].items()}
        for job in state.jobs.values()
        if job.target and job.id in plan.allocations
    }


def apply_plan(
    conn: Connection,
    changes: Changes,
    plan: Plan,
    agents: Mapping[str, HostAgent],
    ready: Set[str],
    utilization: Callable[[str], float | None],
    now: float,
    workers_report: bool = True,
    memory: GpuMemory = _NO_MEMORY,
    settling: Set[str] = frozenset(),
) -> bool:
    """Claim leases for jobs that start or grow; stop leaving tasks.

    Changes whose GPUs are not free yet are left to the next cycle. Jobs are resized in place only if `workers_report`:
    workers learn of each other by reports. GPUs in `settling` are not used. Returns True if more jobs could start than
    one cycle may start."""
    found = load_gpu_leases(conn)
    places = {host.id: place_of(host.address, host.network) for host in found.hosts}
    hosts = {host.id: host for host in found.hosts}
    for each in changes.in_place:
        if each.change.leaving and _regroup(conn, each, plan, now):
            repository.stop_tasks(conn, each.job.id, each.change.leaving)
    open_hosts = {host.id for host in found.hosts if host.active} & ready
    on = parts(found.gpus)
    links = {host.id: from_text(host.topology).links for host in found.hosts}
    gpus = [
        GpuState(
            g.uuid,
            on[g.uuid],
            g.ordinal,
            frozenset(found.leases.get(g.uuid, {})),
            utilization(g.uuid),
            g.island,
            g.numa,
            memory.left.get(g.uuid),
            links[g.host_id].get(g.uuid, _NO_LINKS),
        )
        for g in found.gpus
        if g.host_id in open_hosts and is_open(g, hosts, now) and g.uuid not in settling
    ]
    machines = {on[gpu.uuid]: gpu.host_id for gpu in found.gpus}
    placed, free = _placed(changes, plan, gpus, memory.needs)
    placements = {job_id: _by_machine(placement, machines) for job_id, placement in placed.items()}
    able = {view.id for view in able_to_resize([resize.view for resize in changes.resize], plan, free)}
    for resize in changes.resize:
        if resize.job.id in able:
            _stop_for_resize(conn, resize, plan, now)
    starting = [job for job in changes.start if job.id in placements and open_hosts.issuperset(placements[job.id])]
    for job in starting[:MAX_STARTS]:
        try:
            with conn.begin_nested():
                one_each = workers_report and job.resize == IN_PLACE and len(placements[job.id]) == 1
                _start(conn, job, placements[job.id], places, agents, plan.reasons.get(job.id, ""), now, one_each)
        except IntegrityError:
            log.warning("job %s: a GPU was taken meanwhile; it waits for the next turn", job.id)
    for each in changes.in_place:
        job = each.job
        if job.id not in placements:
            continue
        try:
            with conn.begin_nested():
                if _regroup(conn, each, plan, now):
                    first = repository.next_rank(conn, job.id, job.attempt)
                    _add_workers(conn, job, job.attempt, job.generation + 1, first, placements[job.id], now)
        except IntegrityError:
            log.warning("job %s: a GPU was taken meanwhile; it grows later", job.id)
    return len(starting) > MAX_STARTS


def _placed(
    changes: Changes, plan: Plan, gpus: Sequence[GpuState], needs: Mapping[str, int]
) -> tuple[dict[str, Placement], dict[str, int]]:
    """Return placements, and the number of GPUs left by part.

    The placements are for jobs that start and workers that join; the GPUs left are for running jobs that grow. Jobs
    that were stopped for their GPUs come first. GPUs reserved for jobs that can't start yet are not used."""
    back = [job.id for job in changes.start if job.id in changes.promised]
    placements = place([(job_id, plan.allocations[job_id]) for job_id in back], gpus, plan.jobs_per_gpu, needs=needs)
    kept: Counter[str] = Counter()
    for job_id, parts_of_it in changes.promised.items():
        if job_id not in placements:
            kept.update(parts_of_it)
    gpus = _without(gpus, placements, kept)
    wanted = [(job.id, plan.allocations[job.id]) for job in changes.start if job.id not in placements]
    wanted += [(each.job.id, {each.change.host: each.change.more}) for each in changes.in_place if each.change.more]
    others = place(wanted, gpus, plan.jobs_per_gpu, plan.max_utilization, needs)
    free = Counter(gpu.host_id for gpu in _without(gpus, others, Counter()) if not gpu.taken_slots)
    return {**placements, **others}, dict(free)


def _without(gpus: Sequence[GpuState], placements: Mapping[str, Placement], kept: Counter[str]) -> list[GpuState]:
    """Return `gpus` with the slots of `placements` taken, without the reserved ones.

    `kept`: part of a host -> number of free GPUs reserved there."""
    taken: dict[str, set[int]] = {}
    for placement in placements.values():
        for claims in placement.values():
            for each in claims:
                taken.setdefault(each.gpu_uuid, set()).add(each.slot)
    left = []
    hidden: Counter[str] = Counter()
    for gpu in reversed(gpus):
        slots = gpu.taken_slots | taken.get(gpu.uuid, set())
        if not slots and hidden[gpu.host_id] < kept[gpu.host_id]:
            hidden[gpu.host_id] += 1
        else:
            left.append(replace(gpu, taken_slots=slots))
    return left[::-1]


def _stop_for_resize(conn: Connection, resize: Resize, plan: Plan, now: float) -> None:
    job = resize.job
    message = plan.reasons.get(job.id, "The policy changes its allocation.")
    target = dict(plan.allocations.get(job.id, {}))
    decided = {"decision": code_of(message), "allocation": target}
    if repository.move_job(
        conn, job, Reason.RESIZE_REQUESTED, message, now, data=decided,
        target=target or None, resized_at=now, resized_from=dict(resize.view.allocation),
    ):  # fmt: skip
        repository.stop_tasks(conn, job.id)


def _by_machine(placement: Placement, machines: Mapping[str, str]) -> Placement:
    """Return the placement by host, with the parts of each host merged."""
    hosts: dict[str, tuple[LeaseClaim, ...]] = {}
    for part, claims in placement.items():
        host = machines.get(part, part)  # a job without GPUs is planned for the host itself
        hosts[host] = hosts.get(host, ()) + tuple(claims)
    return hosts


def _start(
    conn: Connection,
    job: Job,
    placement: Placement,
    places: Mapping[str, GangNetwork],
    agents: Mapping[str, HostAgent],
    why: str,
    now: float,
    one_each: bool,
) -> None:
    """Start a job.

    `one_each`: one task per GPU, so that workers can join and leave."""
    hosts = in_order(placement, places, job.checkpoint_host)
    attempt = job.attempt + 1
    where = ", ".join(f"{len(placement[h])} on {h}" for h in hosts)
    given = f"Given GPUs: {where}." if job.required_gpus else f"It needs no GPU, and starts on {hosts[0]}."
    message = given + (f" {why}" if why else "")
    if any(agents[host].image_of(job) == OWN_ENVIRONMENT for host in hosts):
        message += (
            f" It uses the environment of the service, since local processes have none for {job.container_image}."
        )
    fields = next_generation(job)
    fields.update({"attempt": attempt, "pull_percent": None, "fetch_hosts": [], "target": None})
    if not repository.move_job(conn, job, Reason.PLACED, message, now, **fields):
        return
    if one_each:
        _add_workers(conn, job, attempt, job.generation + 1, 0, placement, now)
        return
    for rank, host in enumerate(hosts):
        claims = [(claim.gpu_uuid, claim.slot) for claim in placement[host]]
        repository.add_task(
            conn, claims, now,
            id=task_id(job.id, attempt, rank), job_id=job.id, attempt=attempt, rank=rank, host_id=host,
        )  # fmt: skip
    if len(hosts) > 1:
        repository.lease_port(conn, hosts[0], task_id(job.id, attempt, 0), attempt)


def _regroup(conn: Connection, resize: ResizeInPlace, plan: Plan, now: float) -> bool:
    """Move the job to its next generation of workers."""
    job, step = resize.job, resize.change
    gpus = plan.allocations[job.id][step.host]
    why = plan.reasons.get(job.id, "The policy changes its allocation.")
    message = f"{why} It continues with {gpu_count(gpus)} in place."
    decided = {"decision": code_of(why), "allocation": {step.host: gpus}}
    before = {step.host: gpus - step.more + len(step.leaving)}
    changes = next_generation(job)
    changes.update({"resized_at": now, "resized_from": before})
    return repository.move_job(conn, job, Reason.RESIZING_IN_PLACE, message, now, data=decided, **changes)


def _add_workers(
    conn: Connection, job: Job, attempt: int, generation: int, first: int, placement: Placement, now: float
) -> None:
    """Add one task per GPU, with consecutive ranks that begin with `first`."""
    [(host, claims)] = placement.items()
    for rank, claim in enumerate(claims, first):
        repository.add_task(
            conn, [(claim.gpu_uuid, claim.slot)], now,
            id=task_id(job.id, attempt, rank), job_id=job.id, attempt=attempt, rank=rank, generation=generation,
            host_id=host,
        )  # fmt: skip
