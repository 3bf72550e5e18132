"""Jobs without GPUs: no policy sees them, since they take nothing that a policy gives. Pure.

They run beside the others, on the host that has most room for them: so many a host, and together no more processors and
memory than it has. They wait for each other only, by priority and then by submission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from schedulearn.scheduler.core.cluster_state import ClusterState, CpuNeed, Job
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.model import Explanation, Plan, Snapshot
from schedulearn.scheduler.core.planning.limits import usual_memory
from schedulearn.scheduler.core.states import WAITS, Reason

Places = Mapping[str, str | Explanation]
"""Job -> the host where it starts, or why it waits."""


@dataclass
class _Room:
    """What a host has left for them. `cpus`, `memory`: None where the host does not tell."""

    jobs: int
    cpus: float | None
    memory: int | None

    def fits(self, need: CpuNeed) -> bool:
        enough = self.cpus is None or _processors(need) <= self.cpus
        return self.jobs > 0 and enough and (self.memory is None or _memory(need) <= self.memory)

    def take(self, need: CpuNeed) -> None:
        self.jobs -= 1
        self.cpus = None if self.cpus is None else self.cpus - _processors(need)
        self.memory = None if self.memory is None else self.memory - _memory(need)


def place_cpu_only(
    state: ClusterState,
    ready: Set[str],
    facts: Mapping[str, HostFacts | None],
    most: int,
    is_there: Callable[[str, str], bool | None],
    resting: Set[str] = frozenset(),
) -> Places:
    """Where each waiting job without GPUs starts. `ready`: hosts that answer; `most`: such jobs on one host;
    `is_there`: whether the image of a job is on a host; `resting`: jobs that may not start yet."""
    waiting = [job for job in state.jobs.values() if not job.required_gpus and job.status in WAITS]
    if not waiting:
        return {}
    hosts = [host.id for host in state.hosts if host.active and host.id in ready]
    whole = {host: _room(facts.get(host), most) for host in hosts}
    left = {host: replace(room) for host, room in whole.items()}
    for task in state.tasks:
        if task.host_id in left and (need := state.cpu_needs.get(task.job_id)) is not None:
            left[task.host_id].take(need)
    places: dict[str, str | Explanation] = {}
    behind = ""
    for job in sorted(waiting, key=lambda job: (-job.priority, job.submitted_at, job.id)):
        need = state.cpu_needs[job.id]
        if job.id in resting:
            continue
        if not any(room.fits(need) for room in whole.values()):
            places[job.id] = _unsatisfiable(need, hosts, most)
        elif behind or not (fitting := [host for host in hosts if left[host].fits(need)]):
            places[job.id] = _wait(job, behind, most)
            behind = behind or job.id
        else:
            host = min(fitting, key=lambda host: (is_there(job.id, host) is not True, -left[host].jobs))
            left[host].take(need)
            places[job.id] = host
    return places


def without_cpu_only(snapshot: Snapshot) -> Snapshot:
    """What a policy sees."""
    if all(job.required_gpus for job in snapshot.jobs):
        return snapshot
    return replace(snapshot, jobs=tuple(job for job in snapshot.jobs if job.required_gpus))


def with_cpu_only(plan: Plan, snapshot: Snapshot, places: Places) -> Plan:
    """The plan of a policy, with those of the snapshot's jobs that need no GPUs: they get none, on their host."""
    mine = {job.id: places[job.id] for job in snapshot.jobs if job.id in places}
    if not mine:
        return plan
    starts = {job: {to: 0} for job, to in mine.items() if not isinstance(to, Explanation)}
    waits = {job: why for job, why in mine.items() if isinstance(why, Explanation)}
    return replace(plan, allocations={**plan.allocations, **starts}, reasons={**plan.reasons, **waits})


def _processors(need: CpuNeed) -> float:
    return 1.0 if need.cpus is None else need.cpus


def _memory(need: CpuNeed) -> int:
    return usual_memory(need) if need.memory_bytes is None else need.memory_bytes


def _room(facts: HostFacts | None, most: int) -> _Room:
    cpus = float(facts.cpus) if facts is not None and facts.cpus else None
    return _Room(most, cpus, facts.memory_bytes if facts is not None and facts.memory_bytes else None)


def _wait(job: Job, behind: str, most: int) -> Explanation:
    if behind:
        return Explanation(Reason.WAITING_FOR_HOST.value, f"It needs no GPU, and waits behind job {behind}.")
    sentence = f"It needs no GPU; no host has room for it now: {most} such jobs at a time, and what they ask for."
    return Explanation(Reason.WAITING_FOR_HOST.value, sentence)


def _unsatisfiable(need: CpuNeed, hosts: Sequence[str], most: int) -> Explanation:
    if not hosts or not most:
        why = "no host is open" if most else "the operator allows no such jobs (setting cpu_jobs)"
        return Explanation(Reason.WAITING_FOR_HOST.value, f"It needs no GPU, and {why}.")
    asked = f"{_processors(need):g} processors and {_memory(need) / (1 << 30):.1f} GiB of memory"
    return Explanation(Reason.UNSATISFIABLE.value, f"It needs no GPU, but {asked}: no open host has as much.")
