"""Placement of jobs on few hosts each, with few moves. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from schedulearn.scheduler.core.model import Allocation, HostView, JobView


@dataclass(frozen=True)
class Want:
    """GPUs that a job should get: a number of one type, or exactly what it has."""

    gpus: int
    gpu_type: str
    stays: bool = False


def stays_possible(jobs: Sequence[JobView], hosts: Sequence[HostView]) -> set[str]:
    """Return the ids of jobs that may keep exactly what they hold.

    Their hosts exist and have the capacity. Rigid jobs are counted first.
    """
    left = {host.id: host.gpus for host in hosts}
    able = set()
    for job in sorted(jobs, key=lambda job: (job.elastic, job.order)):
        if job.allocation and all(left.get(host, 0) >= gpus for host, gpus in job.allocation.items()):
            able.add(job.id)
            for host, gpus in job.allocation.items():
                left[host] -= gpus
    return able


def pack(
    wants: Mapping[str, Want],
    jobs: Sequence[JobView],
    hosts: Sequence[HostView],
    keeping: Set[str] = frozenset(),
    *,
    clears: bool = True,
    growing: Set[str] = frozenset(),
) -> dict[str, Allocation]:
    """Put each job on as few hosts as it needs.

    Staying jobs keep their place, those of `keeping` in any case. Jobs larger than a host take whole free hosts, their
    own first. If too few are free and `clears` is set, hosts of small jobs are cleared, the emptiest first. Other jobs
    go on their own host if it has enough free GPUs, else where they fit most tightly. Hosts without jobs of `growing`
    are preferred: those jobs gain by the GPUs of their own host without a restart. A job that finds no host free
    enough, or that is not in `wants`, gets what one host has, down to its `min_gpus` (an elastic job), or spreads over
    several. Otherwise it is left out.
    """
    order = {job.id: job for job in sorted(jobs, key=lambda job: job.order)}
    packer = _Packer(hosts, growing)
    for job_id, want in wants.items():
        if want.stays:
            packer.put(job_id, order[job_id].allocation)
    moving = [job for job in order.values() if job.id in wants and not wants[job.id].stays and wants[job.id].gpus]
    moving.sort(key=lambda job: -wants[job.id].gpus)
    small = [job for job in moving if wants[job.id].gpus < packer.width.get(wants[job.id].gpu_type, 0)]
    large = [job for job in moving if wants[job.id].gpus >= packer.width.get(wants[job.id].gpu_type, 0)]
    staying = [job for job in order.values() if job.id in wants and wants[job.id].stays]
    may_move = {job.id for job in staying if job.elastic and len(job.allocation) == 1 and job.id not in keeping}
    evicted: list[str] = []
    for gpu_type in sorted({wants[job.id].gpu_type for job in large} if clears else ()):
        whole = sum(wants[job.id].gpus // packer.width[gpu_type] for job in large if wants[job.id].gpu_type == gpu_type)
        evicted += packer.clear(gpu_type, whole, may_move)
    for job in large:
        packer.put(job.id, packer.whole_hosts(wants[job.id], job.allocation))
    for job in small:  # jobs that fit on a host of theirs
        home = [host for host in job.allocation if packer.fits(host, wants[job.id])]
        if home:
            packer.put(job.id, {min(home): wants[job.id].gpus})
    homeless = [job for job in small if job.id not in packer.placed]
    homeless += [order[job_id] for job_id in evicted]
    homeless.sort(key=lambda job: (-wants[job.id].gpus, job.order))
    for job in homeless:
        packer.put(job.id, packer.tightest(wants[job.id]))
    for job in order.values():  # remaining GPUs go to jobs that found no better place
        if not packer.placed.get(job.id) and (job.elastic or not job.allocation):
            least = job.needed_gpus
            want = wants.get(job.id, Want(least, ""))
            packer.put(job.id, packer.remains(want, least, job.unfit))
    return rebind({job_id: allocation for job_id, allocation in packer.placed.items() if allocation}, jobs, hosts)


def rebind(plan: Mapping[str, Allocation], jobs: Sequence[JobView], hosts: Sequence[HostView]) -> dict[str, Allocation]:
    """Return the same plan with equal hosts exchanged, so that the fewest workers and checkpoints move.

    The maximum number of GPUs stays on hosts where their job has some now. This is an assignment problem, as in
    VodaScheduler's placement manager. Hosts of jobs that keep what they have are left alone.
    """
    held = {job.id: dict(job.allocation) for job in jobs if job.allocation}
    moving = {job_id for job_id, allocation in plan.items() if job_id in held and dict(allocation) != held[job_id]}
    fixed = {name for job_id, allocation in held.items() if job_id not in moving for name in allocation}
    equal: dict[tuple[str, int], list[str]] = {}
    for host in hosts:
        if host.open and host.gpus and host.id not in fixed:
            equal.setdefault((host.gpu_type, host.gpus), []).append(host.id)
    new_name: dict[str, str] = {}
    for group in equal.values():
        names = sorted(group)
        row = {name: index for index, name in enumerate(names)}
        stays = np.zeros((len(names), len(names)))
        for job_id in moving:
            for name, gpus in plan[job_id].items():
                for before, had in held[job_id].items():
                    if name in row and before in row:
                        stays[row[name], row[before]] += min(gpus, had)
        if stays.sum() > stays.trace():
            from scipy.optimize import linear_sum_assignment  # here, since it takes 50 MB, and rigid jobs don't move

            stays += np.eye(len(names)) / (2 * len(names))  # no exchange without a gain
            planned, real = linear_sum_assignment(stays, maximize=True)
            new_name.update({names[a]: names[b] for a, b in zip(planned, real, strict=True)})
    return {job_id: {new_name.get(h, h): n for h, n in allocation.items()} for job_id, allocation in plan.items()}


class _Packer:
    def __init__(self, hosts: Sequence[HostView], growing: Set[str] = frozenset()) -> None:
        self.growing = growing
        self.hinders: set[str] = set()  # hosts of growing jobs
        self.hosts = {host.id: host for host in hosts}
        self.free = {host.id: host.gpus if host.open else 0 for host in hosts}
        self.placed: dict[str, Allocation] = {}
        self.by_free: dict[str, list[tuple[int, str]]] = {}  # (free GPUs, host) of each type, in order
        for host in hosts:
            if host.open and host.gpus:
                self.by_free.setdefault(host.gpu_type, []).append((host.gpus, host.id))
        # (-GPUs, host) of entirely free hosts, in order
        self.whole = {kind: sorted((-gpus, host) for gpus, host in of_type) for kind, of_type in self.by_free.items()}
        self.room: dict[str, int] = {}  # free GPUs by type
        self.width: dict[str, int] = {}
        for kind, of_type in self.by_free.items():
            of_type.sort()
            self.room[kind] = sum(gpus for gpus, _ in of_type)
            self.width[kind] = of_type[-1][0]

    def put(self, job_id: str, allocation: Allocation) -> None:
        self.placed[job_id] = dict(allocation)
        if job_id in self.growing:
            self.hinders.update(allocation)
        for host, gpus in allocation.items():
            if host in self.free and self.hosts[host].open:
                self._take(host, gpus)

    def _take(self, host: str, gpus: int) -> None:
        """Take `gpus` of the host; a negative number gives GPUs back."""
        kind, all_of_it = self.hosts[host].gpu_type, self.hosts[host].gpus
        before, after = self.free[host], self.free[host] - gpus
        if not gpus or not all_of_it:
            return
        self.free[host] = after
        self.room[kind] -= gpus
        by_free, whole = self.by_free[kind], self.whole[kind]
        del by_free[bisect_left(by_free, (before, host))]
        insort(by_free, (after, host))
        if before == all_of_it:
            del whole[bisect_left(whole, (-all_of_it, host))]
        elif after == all_of_it:
            insort(whole, (-all_of_it, host))

    def fits(self, host: str, want: Want) -> bool:
        return self.free.get(host, 0) >= want.gpus and self.hosts[host].gpu_type == want.gpu_type

    def clear(self, gpu_type: str, whole: int, may_move: set[str]) -> list[str]:
        """Clear hosts until `whole` of them are free; return the jobs that lose their place."""
        hosts = [host for _, host in self.by_free.get(gpu_type, [])]
        width = self.width[gpu_type]
        missing = whole - sum(1 for host in hosts if self.free[host] == self.hosts[host].gpus == width)
        if missing <= 0:
            return []
        owners: dict[str, list[str]] = {host: [] for host in hosts}
        for job_id, allocation in self.placed.items():
            for host in allocation:
                if host in owners:
                    owners[host].append(job_id)
        can = [
            host
            for host in hosts
            if self.hosts[host].gpus == width and 0 < self.free[host] < width and may_move.issuperset(owners[host])
        ]
        evicted = []
        for host in sorted(can, key=lambda host: (-self.free[host], host))[:missing]:
            for job_id in owners[host]:
                del self.placed[job_id]
                evicted.append(job_id)
            self._take(host, self.free[host] - self.hosts[host].gpus)
        return evicted

    def whole_hosts(self, want: Want, own: Allocation) -> dict[str, int]:
        """Choose whole free hosts, the job's own first, and one more for the rest; nothing if too few are free."""
        whole = self.whole.get(want.gpu_type, [])
        if own:
            whole = sorted(whole, key=lambda each: (each[0], each[1] not in own, each[1]))
        taken: dict[str, int] = {}
        left = want.gpus
        for minus, host in whole:
            if -minus <= left:
                taken[host] = -minus
                left += minus
            if not left:
                return taken
        by_free = self.by_free.get(want.gpu_type, [])
        rest = [each for each in by_free[bisect_left(by_free, (left, "")) :] if each[1] not in taken]
        if not rest:
            return {}
        taken[min(rest, key=lambda each: (each[1] not in own, *each))[1]] = left
        return taken

    def tightest(self, want: Want) -> dict[str, int]:
        by_free = self.by_free.get(want.gpu_type, [])
        best: tuple[bool, bool] | None = None
        found: dict[str, int] = {}
        for free, host in by_free[bisect_left(by_free, (want.gpus, "")) :]:
            # Prefer a host where it can start at once to one that other jobs are yet to leave.
            late = free - self.hosts[host].leaving < want.gpus
            if best is None or (late, host in self.hinders) < best:
                best, found = (late, host in self.hinders), {host: want.gpus}
                if not any(best):
                    break
        return found

    def remains(self, want: Want, least: int, barred: Collection[str] = ()) -> dict[str, int]:
        """Choose as much of `want` as one host has left, of any type if necessary that is not `barred`.

        If no host has `least`, choose `least` GPUs over as few hosts of one type as possible.
        """
        kinds = [kind for kind in sorted(self.by_free) if self.room[kind] >= least and kind not in barred]
        kinds.sort(key=lambda kind: kind != want.gpu_type)
        for kind in kinds:
            by_free = self.by_free[kind]
            most = by_free[-1][0]
            if most >= least:
                return {by_free[bisect_left(by_free, (most, ""))][1]: max(least, min(want.gpus, most))}
        for kind in kinds:
            taken: dict[str, int] = {}
            for minus, host in sorted((-free, host) for free, host in self.by_free[kind]):
                if (left := least - sum(taken.values())) > 0:
                    taken[host] = min(left, -minus)
            return {host: gpus for host, gpus in taken.items() if gpus}
        return {}
