"""Construction of the snapshot that policies see. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from schedulearn.scheduler.core.cluster_state import (
    ClusterState,
    Gpu,
    Host,
    HostConstraints,
    Job,
    JobProgress,
    ProgressInLog,
    Task,
    run_seconds,
)
from schedulearn.scheduler.core.host_constraints import Misfits, requirement
from schedulearn.scheduler.core.model import HostView, JobView, Snapshot
from schedulearn.scheduler.core.outcomes.early_failures import is_open
from schedulearn.scheduler.core.outcomes.in_place import IN_PLACE, leaving
from schedulearn.scheduler.core.planning.placement import GpuMemory
from schedulearn.scheduler.core.planning.predecessors import blocked_by_dependencies
from schedulearn.scheduler.core.planning.remaining_work import by_family, by_log, by_progress
from schedulearn.scheduler.core.planning.windows import InTheWay, in_the_way, longest_run
from schedulearn.scheduler.core.predictions.lengths import Prediction
from schedulearn.scheduler.core.predictions.run_times import RunTimes
from schedulearn.scheduler.core.profile import JobProfile
from schedulearn.scheduler.core.states import WAITS, JobState

_PLENTY = 1 << 60  # bytes of a GPU whose memory is unknown
UNREPORTED_S = 180.0  # run time after which a job without reports is taken never to send any


def build_snapshot(
    state: ClusterState,
    ready: Set[str],
    utilization: Callable[[str], float | None],
    now: float,
    profile_of: Callable[[str], JobProfile | None] = lambda job_id: None,
    caps_growth: bool = True,
    *,
    awaited: Set[str] = frozenset(),
    resting: Set[str] = frozenset(),
    settled: bool = False,
    length_of: Callable[[str], Prediction | None] = lambda job_id: None,
    memory: GpuMemory | None = None,
    settling: Set[str] = frozenset(),
    unfit: Callable[[Job], Mapping[str, str]] = lambda job: {},
    run_times: RunTimes | None = None,
) -> Snapshot:
    """Return the snapshot of hosts, and of jobs that wait or run.

    Hosts that are not `ready` (silent, or with containers that were given up) have only the GPUs that jobs hold, and
    are closed to other jobs. Until a resized job runs again, it counts with its new allocation: other jobs would take
    these GPUs meanwhile. GPUs that jobs are about to leave may be planned with (`HostView.gpu_leaving`); with
    `settled` they count as free. Jobs that end, or wait for other jobs, are left out.

    `awaited`: jobs whose family's profile is being fitted; new ones are left out, and running ones stay as they are.
    `resting`: jobs that may not start yet. `length_of`: job id -> predicted work in GPU-seconds; None: unknown.
    `memory`: memory of shared GPUs; None: none are shared. `settling`: GPUs that were left and are not free yet.
    `unfit`: job -> hosts on which it can't run, with the reason. `run_times`: those of ended jobs.
    `caps_growth`: elastic jobs grow only to sizes near those that their profiles cover, for policies that resize.
    """
    ending = _ending_tasks(state)
    part_of = parts(state.gpus)
    hosts = _Parts(state, ready, ending, part_of, memory, now, settling)
    held = _held_now(state.tasks, ending, part_of, hosts, now)
    _reserve_targets(state, hosts, held)
    misfits = Misfits(state.hosts, state.gpus, part_of)
    views = []
    out = resting | blocked_by_dependencies(state).keys()
    for job in state.jobs.values():
        if job.state == JobState.STOPPING or job.id in out or (job.state in WAITS and job.id in awaited):
            continue
        if not job.required_gpus and job.state not in WAITS:
            continue  # there is nothing left to decide
        profile = profile_of(job.id) if job.elastic else None
        view = _Viewed(job, held.get(job.id, _NOTHING), profile, caps_growth, job.id in awaited, now)
        predicted = length_of(job.id)
        work = predicted.value if predicted is not None else None
        seen = view.as_job_view(state.progress.get(job.id), state.in_logs.get(job.id), work, run_times)
        seen = with_limits(seen, job.host_constraints, misfits, unfit(job) if job.required_gpus else {})
        if state.windows and job.state in WAITS and not seen.allocation:
            longest = longest_run(job, predicted.high if predicted is not None else None)
            seen = with_windows(seen, in_the_way(longest, state.windows, state.hosts, now))
        views.append(seen if memory is None else replace(seen, gpu_memory=memory.needs.get(job.id)))
    return Snapshot(
        now=now, seed=0, hosts=hosts.views(utilization, settled), jobs=tuple(views), last_host=state.last_host
    )


def with_limits(
    seen: JobView, wanted: HostConstraints | None, misfits: Misfits, unfit: Mapping[str, str] = MappingProxyType({})
) -> JobView:
    """Return the view with the hosts on which the job can't run. `unfit`: those found otherwise."""
    if wanted is None:
        return replace(seen, unfit=unfit) if unfit else seen
    return replace(
        seen,
        unfit={**misfits.of(wanted), **unfit},
        wanted_hosts=requirement(wanted),
        exclusive=bool(wanted.get("exclusive")),
    )


def with_windows(seen: JobView, found: InTheWay) -> JobView:
    """Return the view without the hosts where a maintenance window is in the way."""
    if not found.why:
        return seen
    until = {host: at for host, at in found.until.items() if host not in seen.unfit}
    return replace(seen, unfit={**found.why, **seen.unfit}, postponed=until)


def _ending_tasks(state: ClusterState) -> set[str]:
    """Return the ids of tasks that are about to leave their GPUs."""
    ends = (JobState.STOPPING, JobState.RESIZING)
    return {
        task.id for task in state.tasks if task.job_id not in state.jobs or state.jobs[task.job_id].state in ends
    } | leaving(state.jobs, state.tasks)


@dataclass
class _Held:
    """Allocation that one job holds or will hold, and its times."""

    allocation: dict[str, int] = field(default_factory=dict)
    indices: dict[str, tuple[int, ...]] = field(default_factory=dict)
    served: float = 0.0
    """GPU-seconds of live tasks."""
    ran: float = 0.0
    """Run time of its first task, in seconds."""
    since: float = math.inf
    """Run time of its newest task, in seconds; infinite: it has none."""


_NOTHING = _Held()


def _held_now(
    tasks: Sequence[Task], ending: Set[str], part_of: Mapping[str, str], hosts: _Parts, now: float
) -> dict[str, _Held]:
    found: dict[str, _Held] = {}
    for task in tasks:
        if task.id in ending:
            continue
        held = found.setdefault(task.job_id, _Held())
        for uuid in task.gpu_uuids:
            name = part_of.get(uuid, task.host_id)
            held.allocation[name] = held.allocation.get(name, 0) + 1
            held.indices[name] = held.indices.get(name, ()) + hosts.index(uuid)
        ran = run_seconds(task, now)
        held.served += ran * len(task.gpu_uuids)
        held.since = min(held.since, ran)
        if task.rank == 0:
            held.ran = ran
    return found


def _reserve_targets(state: ClusterState, hosts: _Parts, held: dict[str, _Held]) -> None:
    """Reserve the new allocations of jobs that are being resized, the oldest job first."""
    targets = [job for job in state.jobs.values() if job.target and job.id not in held]
    for job in sorted(targets, key=lambda job: job.submitted_at):
        own = {uuid for task in state.tasks if task.job_id == job.id for uuid in task.gpu_uuids}
        if job.target and job.state != JobState.STOPPING:
            picked = hosts.reserve(job.target, own)
            if picked is not None:
                held[job.id] = _Held(dict(job.target), picked, since=0.0)


@dataclass
class _Part:
    """GPUs of one type of a host: usable ones, and the number of jobs on each."""

    host: Host
    name: str
    open: bool
    gpus: Sequence[Gpu]
    usable: list[Gpu] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    """Jobs on each usable GPU, without those about to leave it."""
    leaving: list[bool] = field(default_factory=list)
    """Whether a job is about to leave each usable GPU."""
    memory_left: list[int] = field(default_factory=list)
    """Predicted free bytes of each usable GPU; empty: GPUs are not shared."""
    cpu_jobs: int = 0
    """Tasks of the host that hold no usable GPU."""

    def free(self, own: Set[str]) -> list[int]:
        """Return the usable GPUs without jobs: those of `own` first, those that a job is leaving last."""
        free = [index for index, jobs in enumerate(self.jobs) if not jobs]
        return sorted(free, key=lambda index: (self.usable[index].uuid not in own, self.leaving[index], index))

    def view(self, utilization: Callable[[str], float | None], settled: bool) -> HostView:
        return HostView(
            id=self.name,
            part_of="" if self.name == self.host.id else self.host.id,
            gpus=len(self.usable),
            gpu_type=self.gpus[0].type if self.gpus else "gpu",
            labels=self.host.labels,
            open=self.open,
            cpu_jobs=self.cpu_jobs,
            parked_gpus=sum(1 for gpu in self.gpus if not gpu.fault) if self.host.parking else 0,
            returning_gpus=0 if self.host.window_id is None else sum(1 for gpu in self.gpus if not gpu.fault),
            gpu_jobs=tuple(self.jobs),
            gpu_utilization=tuple(utilization(gpu.uuid) or 0.0 for gpu in self.usable),
            gpu_memory_left=tuple(self.memory_left),
            gpu_leaving=() if settled or not any(self.leaving) else tuple(self.leaving),
        )


class _Parts:
    """Parts of all hosts, while a snapshot is made."""

    def __init__(
        self,
        state: ClusterState,
        ready: Set[str],
        ending: Set[str],
        part_of: Mapping[str, str],
        memory: GpuMemory | None,
        now: float,
        settling: Set[str],
    ) -> None:
        self._memory = memory
        self._settling = settling
        self._hosts = {host.id: host for host in state.hosts}
        self._now = now
        self._parts: dict[str, _Part] = {}
        self._index: dict[str, int] = {}
        """GPU -> index among the usable GPUs of its part."""
        by_host: dict[str, dict[str, list[Gpu]]] = {}
        for gpu in state.gpus:
            by_host.setdefault(gpu.host_id, {}).setdefault(part_of[gpu.uuid], []).append(gpu)
        for host in state.hosts:
            is_open = host.active and host.id in ready
            for name, gpus in sorted(by_host.get(host.id, {host.id: []}).items()):
                part = self._parts[name] = _Part(host, name, is_open, gpus)
                for gpu in gpus:
                    self._add(part, gpu, state.leases.get(gpu.uuid, {}), ending)
        self._count_other_tasks(state.tasks)

    def _add(self, part: _Part, gpu: Gpu, holders: Mapping[int, str], ending: Set[str]) -> None:
        staying = sum(1 for task_id in holders.values() if task_id not in ending)
        if staying or (part.open and is_open(gpu, self._hosts, self._now)):
            self._index[gpu.uuid] = len(part.usable)
            part.usable.append(gpu)
            part.jobs.append(staying)
            part.leaving.append(staying < len(holders) or gpu.uuid in self._settling)
            if self._memory is not None:
                part.memory_left.append(self._memory.left.get(gpu.uuid, _PLENTY))

    def _count_other_tasks(self, tasks: Sequence[Task]) -> None:
        others = Counter(task.host_id for task in tasks if self._index.keys().isdisjoint(task.gpu_uuids))
        for part in self._parts.values():
            part.cpu_jobs = others[part.host.id]

    def index(self, uuid: str) -> tuple[int, ...]:
        return (self._index[uuid],) if uuid in self._index else ()

    def reserve(self, target: Mapping[str, int], own: Set[str]) -> dict[str, tuple[int, ...]] | None:
        """Reserve GPUs for a job's `target`, and return their indices by part.

        GPUs that it still holds (`own`) come first. None, and nothing is reserved, if a part has too few free GPUs."""
        picked: dict[str, tuple[int, ...]] = {}
        for name, count in target.items():
            part = self._parts.get(name)
            free = part.free(own) if part is not None and part.open else []
            if len(free) < count:
                return None
            picked[name] = tuple(sorted(free[:count]))
        for name, indices in picked.items():
            for index in indices:
                self._parts[name].jobs[index] += 1
        return picked

    def views(self, utilization: Callable[[str], float | None], settled: bool) -> tuple[HostView, ...]:
        return tuple(part.view(utilization, settled) for part in self._parts.values())


@dataclass(frozen=True)
class _Viewed:
    """One job, from which its view for policies is made."""

    job: Job
    held: _Held
    profile: JobProfile | None
    caps_growth: bool
    awaited: bool
    now: float

    def as_job_view(
        self,
        progress: JobProgress | None,
        in_log: ProgressInLog | None,
        family_work: float | None,
        run_times: RunTimes | None,
    ) -> JobView:
        job, held, profile = self.job, self.held, self.profile
        attained = job.gpu_seconds + held.served
        length = by_progress(progress, attained, profile.goodput if profile else None, job.min_gpus)
        if length is None and progress is None and in_log is not None and in_log.attempt == job.attempt:
            length = by_log(in_log, held.ran, sum(held.allocation.values()), self.now)
        # Earlier attempts of a rigid job don't count: it starts again from the beginning.
        done = attained if job.elastic else held.served
        length = length or by_family(family_work, done, rigid=not job.elastic)
        return JobView(
            id=job.id,
            submitted_at=job.submitted_at,
            required_gpus=job.required_gpus,
            min_gpus=job.min_gpus,
            max_gpus=_cap(job, profile, held.ran) if self.caps_growth and job.elastic else job.max_gpus,
            elastic=job.elastic,
            preemptible=job.preemptible,
            priority=job.priority,
            weight=job.weight,
            metric=job.metric,
            deadline=job.deadline,
            start_after=max((at for at in (job.start_after, job.released_at) if at is not None), default=None),
            attained_gpu_seconds=attained,
            run_seconds=job.run_seconds + held.ran,
            restarts=job.restarts + job.generation - job.attempt,  # with resizes in place
            allocation=held.allocation,
            held_seconds=self._held_seconds(),
            gpu_indices=held.indices,
            remaining=length.seconds if length is not None else None,
            basis=length.basis if length is not None else None,
            expected_left=self._expected_left(run_times),
            ends_by=self._ends_by(),
            goodput=profile.goodput if profile else None,
            profiled_gpus=profile.max_profiled if profile else None,
            gpu_type=job.gpu_type,
            user=job.user,
            resize_seconds=profile.resize_seconds if profile else None,
            startup_seconds=profile.startup_seconds if profile else None,
            in_place=job.resize == IN_PLACE,
        )

    def _ends_by(self) -> float | None:
        limit = self.job.max_duration
        if limit is None or not self.held.allocation:
            return None
        return self.now + max(0.0, limit - self.job.run_seconds - self.held.ran)

    def _expected_left(self, run_times: RunTimes | None) -> float | None:
        """Return the expected seconds left of a rigid job, at most until its `max_duration`."""
        job = self.job
        if run_times is None or job.elastic:
            return None
        limit = job.max_duration
        at_most = None if limit is None else max(0.0, limit - job.run_seconds - self.held.ran)
        return run_times.left(job.user, job.required_gpus, self.held.ran, at_most)

    def _held_seconds(self) -> float | None:
        """Return the seconds since its allocation changed; 0 while its profile is awaited, so that it stays."""
        if self.awaited:
            return 0.0
        if not self.held.allocation:
            return None
        decided = math.inf if self.job.resized_at is None else max(0.0, self.now - self.job.resized_at)
        return min(self.held.since, decided)


def parts(gpus: Sequence[Gpu]) -> dict[str, str]:
    """Return GPU -> name of its part: the host as policies see it.

    A host with GPUs of several types, as MIG makes them, is one part for each type. Host names have no slash."""
    types: dict[str, set[str]] = {}
    for gpu in gpus:
        types.setdefault(gpu.host_id, set()).add(gpu.type)
    return {gpu.uuid: gpu.host_id if len(types[gpu.host_id]) == 1 else f"{gpu.host_id} / {gpu.type}" for gpu in gpus}


def _cap(job: Job, profile: JobProfile | None, ran: float) -> int:
    """Return the maximum GPUs of an elastic job now.

    A job without measurements starts small. If it sends no reports, it gets the GPUs that its user requested."""
    if profile is not None:
        return profile.cap(job.max_gpus, job.min_gpus)
    return job.required_gpus if job.run_seconds + ran > UNREPORTED_S else job.min_gpus
