"""Guaranteed GPUs of groups: who borrows them, and who has to give them back. Pure.

A group may use more GPUs than its guarantee while others leave theirs unused: it borrows them. A job of another group
that waits within its own guarantee takes borrowed GPUs back. Elastic jobs shrink first, the newest before older ones.
If that is not enough, elastic and preemptible jobs stop. Other rigid jobs keep their GPUs until they end.

It is a layer around any policy. The policy is asked first. If it leaves out a job within its guarantee, it is asked
again with a snapshot in which that job runs already, and the jobs that give GPUs back are smaller or gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from schedulearn.scheduler.core.feasible_hosts import is_of_type, suits
from schedulearn.scheduler.core.instants import to_the_second
from schedulearn.scheduler.core.model import Explanation, HostView, JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.core.people import ANY
from schedulearn.scheduler.core.states import Reason

Ask = Callable[[Snapshot], Plan]
Guarantee = Mapping[str, int]
"""GPU type -> guaranteed number; `ANY`: number of GPUs of any type, in addition to the others."""

_MOST_LENDERS = 3  # jobs that a reason names
_Gpu = tuple[str, int]  # host, index


@dataclass(frozen=True)
class Guarantees:
    """Guarantees of all groups, and the group of each user."""

    by_group: Mapping[str, Guarantee] = field(default_factory=dict)
    group_of: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.by_group.values())

    def owner(self, job: JobView) -> str | None:
        """Return the group of a job if it has a guarantee, and the job needs GPUs."""
        group = self.group_of.get(job.user)
        return group if group is not None and self.by_group.get(group) and job.needed_gpus else None


def overbooked(by_group: Mapping[str, Guarantee], gpus_by_type: Mapping[str, int]) -> str | None:
    """Return how the guarantees exceed the cluster, as a clause; None: they don't."""
    total, there = sum(sum(each.values()) for each in by_group.values()), sum(gpus_by_type.values())
    if total > there:
        return f"the guarantees of all groups are {gpu_count(total)}, and the cluster has {there}"
    wanted: Counter[str] = Counter()
    for guarantee in by_group.values():
        wanted.update({name: gpus for name, gpus in guarantee.items() if name != ANY})
    matching = {name: {each for each in gpus_by_type if is_of_type(each, name)} for name in wanted}
    for name, types in sorted(matching.items()):
        gpus = sum(wanted[other] for other, narrower in matching.items() if narrower <= types)
        if gpus > (there := sum(gpus_by_type[each] for each in types)):
            return f"the guarantees of all groups are {gpu_count(gpus)} of type {name}, and the cluster has {there}"
    return None


class GroupHoldings:
    """GPUs that groups hold, compared with their guarantees.

    GPUs of a type with a guarantee of its own count for that one first, then for the guarantee of any type."""

    def __init__(self, guarantees: Guarantees, type_of: Mapping[str, str]) -> None:
        """`type_of`: host -> GPU type."""
        self._guarantees = guarantees
        self._type_of = type_of
        self._held: dict[str | None, Counter[str]] = {}
        self._keys: dict[tuple[str | None, str], str] = {}

    def _guarantee(self, group: str | None) -> Guarantee:
        return self._guarantees.by_group.get(group, {}) if group is not None else {}

    def key(self, group: str | None, host_id: str) -> str:
        """Return the type of a group's guarantee for which GPUs of a host count: the longest that matches."""
        gpu_type = self._type_of.get(host_id, "")
        if (group, gpu_type) not in self._keys:
            names = (name for name in self._guarantee(group) if name != ANY and is_of_type(gpu_type, name))
            self._keys[group, gpu_type] = min(names, key=lambda name: (-len(name), name), default=ANY)
        return self._keys[group, gpu_type]

    def add(self, group: str | None, gpus: Mapping[str, int], sign: int = 1) -> None:
        """Count GPUs by host."""
        held = self._held.setdefault(group, Counter())
        for host_id, number in gpus.items():
            held[self.key(group, host_id)] += sign * number

    def _beyond(self, group: str | None) -> int:
        """Return the GPUs beyond the guarantees of their types."""
        guarantee = self._guarantee(group)
        held = self._held.get(group, Counter())
        return sum(max(0, gpus - (guarantee.get(key, 0) if key != ANY else 0)) for key, gpus in held.items())

    def borrowed(self, group: str | None) -> int:
        return max(0, self._beyond(group) - self._guarantee(group).get(ANY, 0))

    def left(self, group: str, keys: Collection[str]) -> int:
        """Return the unused GPUs of a guarantee, on hosts that count for `keys`."""
        guarantee, held = self._guarantee(group), self._held.get(group, Counter())
        typed = sum(max(0, guarantee.get(key, 0) - held[key]) for key in keys if key != ANY)
        return typed + max(0, guarantee.get(ANY, 0) - self._beyond(group))

    def borrowed_part(self, group: str | None, gpus: Mapping[str, int]) -> int:
        """Return how many of a group's `gpus` are borrowed, if it gives these up before all others."""
        before = self.borrowed(group)
        self.add(group, gpus, -1)
        after = self.borrowed(group)
        self.add(group, gpus)
        return before - after


def borrowed_now(guarantees: Guarantees, group: str, held: Mapping[str, int]) -> int:
    """Return the GPUs that a group borrows. `held`: those that its jobs hold, by GPU type."""
    holdings = GroupHoldings(guarantees, {gpu_type: gpu_type for gpu_type in held})
    holdings.add(group, held)
    return holdings.borrowed(group)


def within_guarantee(snapshot: Snapshot, guarantees: Guarantees) -> set[str]:
    """Return the waiting jobs that fit the unused guarantees of their groups, by priority and submission."""
    holdings = _holdings(snapshot, guarantees, {job.id: job.allocation for job in snapshot.jobs})
    room = _RoomOnHosts(holdings, snapshot.hosts)
    promised: Counter[str] = Counter()
    found = set()
    for job in sorted(snapshot.jobs, key=lambda job: job.by_priority):
        group = guarantees.owner(job)
        if group is None or job.allocation:
            continue
        if room.left(group, job) - promised[group] >= job.needed_gpus:
            promised[group] += job.needed_gpus
            found.add(job.id)
    return found


def with_guarantees(ask: Ask, snapshot: Snapshot, guarantees: Guarantees) -> Plan:
    """Return a plan in which no job waits within its group's guarantee while others could give GPUs back.

    The policy is asked at most three times: freely, with the jobs placed that it left out, and with all such jobs
    placed, if it then left out others."""
    plan = ask(snapshot)
    if not guarantees:
        return plan
    claims = _Claims(snapshot, guarantees)
    for is_last in (False, True):
        wronged = _left_out(snapshot, plan, guarantees, claims)
        if not wronged:
            break
        before = claims.version
        claims.make(_all_owners(snapshot, guarantees) if is_last else wronged, pins_all=is_last)
        if claims.version == before and not claims.lent_anew(plan):
            break
        plan = ask(claims.shown())
    return claims.explained(plan)


def _holdings(snapshot: Snapshot, guarantees: Guarantees, held: Mapping[str, Mapping[str, int]]) -> GroupHoldings:
    holdings = GroupHoldings(guarantees, {host.id: host.gpu_type for host in snapshot.hosts})
    for job in snapshot.jobs:
        holdings.add(guarantees.group_of.get(job.user), held.get(job.id, {}))
    return holdings


class _RoomOnHosts:
    """Unused parts of guarantees on the hosts where jobs may run."""

    def __init__(self, holdings: GroupHoldings, hosts: Iterable[HostView]) -> None:
        self._holdings = holdings
        self._hosts = [host for host in hosts if host.open]
        self._known: dict[tuple[object, ...], int] = {}
        """What jobs of equal constraints share, since thousands may wait."""

    def left(self, group: str, job: JobView) -> int:
        """Return the GPUs that a group's guarantee has left for a job."""
        alike = (group, job.gpu_type, frozenset(job.unfit), job.needed_gpus > 1)
        if alike not in self._known:
            keys = {self._holdings.key(group, host.id) for host in self._hosts if suits(host, job)}
            self._known[alike] = self._holdings.left(group, keys) if keys else 0
        return self._known[alike]


def _all_owners(snapshot: Snapshot, guarantees: Guarantees) -> list[JobView]:
    return sorted((job for job in snapshot.jobs if guarantees.owner(job) is not None), key=_by_claim)


def _by_claim(job: JobView) -> tuple[bool, tuple[int, tuple[float, int, str]]]:
    return not job.allocation, job.by_priority


def _left_out(snapshot: Snapshot, plan: Plan, guarantees: Guarantees, claims: _Claims) -> list[JobView]:
    """Return the jobs without GPUs under a plan, though their groups have guaranteed GPUs left under it."""
    planned = {job.id: _planned(job, plan) for job in snapshot.jobs}
    room = _RoomOnHosts(_holdings(snapshot, guarantees, planned), snapshot.hosts)
    found = []
    for job in _all_owners(snapshot, guarantees):
        group = guarantees.owner(job)
        if group is None or planned[job.id] or job.id in claims.refused:
            continue
        if room.left(group, job) >= job.needed_gpus:
            found.append(job)
    return found


def _planned(job: JobView, plan: Plan) -> Mapping[str, int]:
    """Return the GPUs of a job under a plan. Rigid jobs run on, unless they are preempted."""
    if job.allocation and not job.elastic and not plan.preempts(job):
        return job.allocation
    return plan.allocations.get(job.id, {})


@dataclass(frozen=True)
class _ClaimedPlace:
    """Place for a job, and the cost of making it."""

    hosts: tuple[str, ...]
    size: int
    cost: tuple[int, int, int, tuple[str, ...]]
    """Jobs that stop, GPUs taken back, hosts, and their names."""


class _Claims:
    """GPUs that jobs take within the guarantees of their groups."""

    def __init__(self, snapshot: Snapshot, guarantees: Guarantees) -> None:
        self._snapshot = snapshot
        self._guarantees = guarantees
        self._jobs = {job.id: job for job in snapshot.jobs}
        self._hosts = {host.id: host for host in snapshot.hosts}
        self._machines = snapshot.machines()
        self._held = {job.id: frozenset[_Gpu]() for job in snapshot.jobs} | snapshot.held_gpus()
        self._before = dict(self._held)
        self._on: dict[str, dict[int, set[str]]] = {host.id: {} for host in snapshot.hosts}
        """Host -> index of each used GPU -> its jobs."""
        for job_id, gpus in self._held.items():
            for host_id, index in gpus:
                self._on[host_id].setdefault(index, set()).add(job_id)
        self._holdings = _holdings(snapshot, guarantees, {job.id: job.allocation for job in snapshot.jobs})
        self._journal: list[tuple[str, frozenset[_Gpu]]] = []
        self.placed: dict[str, str] = {}
        """Waiting job that got a place -> its group."""
        self.refused: set[str] = set()
        """Jobs that fit their guarantee, and found no place."""
        self._given_for: dict[str, str] = {}
        """Job that gives GPUs back -> job that gets them."""
        self._pinned: set[str] = set()
        self._kept: dict[str, tuple[str, ...]] = {}
        """Refused job -> hosts that are kept for it: the first of each group."""
        self._whys: dict[str, Explanation] = {}
        self.version = 0
        """It grows with each change."""
        self._failed: dict[tuple[object, ...], int] = {}

    def make(self, jobs: Sequence[JobView], *, pins_all: bool) -> None:
        """Place waiting jobs, and let running ones keep their GPUs."""
        for job in jobs:
            group = self._guarantees.owner(job)
            if group is None:
                continue
            if job.allocation:
                if not pins_all:
                    self._pin(job)
            elif job.id not in self.placed and job.id not in self.refused:
                self._claim(job, group)
        if pins_all:
            for job in jobs:
                if job.allocation:
                    self._pin(job)

        self._return_spare()

    def _return_spare(self) -> None:
        """Return the GPUs that later claims left over, to the oldest jobs first."""
        for job_id in sorted(self._given_for, key=lambda each: self._jobs[each].order):
            held, mark = self._held[job_id], len(self._journal)
            lost = self._before[job_id] - held
            if not lost or self._jobs[job_id].exclusive:
                continue
            for gpu in sorted(lost):
                if self._vacate(*gpu):
                    self._set(job_id, self._held[job_id] | {gpu})
            got = len(self._held[job_id]) - len(held)
            if got and (held or got == len(lost)):
                self.version += 1
            else:
                self._undo(mark)
        self._journal.clear()

    def _vacate(self, host_id: str, index: int) -> bool:
        """Return whether a GPU is free. A job that only starts there takes another GPU of the host, if one is free."""
        jobs = self._on[host_id].get(index, set())
        if not jobs:
            return True
        other = next((at for at in range(self._hosts[host_id].gpus) if at not in self._on[host_id]), None)
        if other is None or not jobs <= self.placed.keys():
            return False
        for job_id in sorted(jobs):
            self._set(job_id, self._held[job_id] - {(host_id, index)} | {(host_id, other)})
        return True

    def _pin(self, job: JobView) -> None:
        if job.id not in self._pinned and self._held[job.id] == self._before[job.id]:
            self._pinned.add(job.id)
            self.version += 1

    def _claim(self, job: JobView, group: str) -> None:
        asked = (group, job.gpu_type, frozenset(job.unfit), job.exclusive)
        if job.exclusive or job.needed_gpus >= self._failed.get(asked, job.needed_gpus + 1):
            self.refused.add(job.id)
            return
        largest = max(job.needed_gpus, min(job.required_gpus, job.max_gpus))
        for size in dict.fromkeys((largest, job.needed_gpus)):
            best = self._best_place(job, group, size)
            if best is not None:
                self._take_place(job, group, best)
                return
        self._failed[asked] = job.needed_gpus
        self.refused.add(job.id)
        self._explain_refusal(job, group)

    def _take_place(self, job: JobView, group: str, best: _ClaimedPlace) -> None:
        mark = len(self._journal)
        self._make_room(best.hosts, best.size)
        for giver in {name for name, _ in self._journal[mark:]}:
            if self._held[giver] != self._before[giver]:
                self._given_for.setdefault(giver, job.id)
        taken: set[_Gpu] = set()
        for host_id in sorted(best.hosts, key=lambda each: (-self._free(each), each)):
            taken.update((host_id, index) for index in self._free_indices(host_id)[: best.size - len(taken)])
        self._set(job.id, frozenset(taken))
        self._journal.clear()
        self.placed[job.id] = group
        self.version += 1

    def _best_place(self, job: JobView, group: str, size: int) -> _ClaimedPlace | None:
        """Return the place that stops the fewest jobs and takes the fewest GPUs: one host, else several."""
        able = [host for host in self._snapshot.hosts if host.open and suits(host, job)]
        keys: dict[str, list[HostView]] = {}
        for host in able:
            keys.setdefault(self._holdings.key(group, host.id), []).append(host)
        fitting = {key: hosts for key, hosts in keys.items() if self._holdings.left(group, (key,)) >= size}
        found = [
            place
            for hosts in fitting.values()
            for host in hosts
            if host.gpus >= size and (place := self._try((host.id,), size)) is not None
        ]
        if not found:
            sets = list(fitting.values())
            if self._holdings.left(group, ()) >= size:
                sets.append(able)
            found = [place for hosts in sets if (place := self._span(hosts, size)) is not None]
        return min(found, key=lambda place: place.cost, default=None)

    def _span(self, hosts: Iterable[HostView], size: int) -> _ClaimedPlace | None:
        """Return a place on as few hosts as possible."""
        chosen: list[str] = []
        could = 0
        for host in sorted(hosts, key=lambda host: (-self._possible(host), host.id)):
            chosen.append(host.id)
            could += self._possible(host)
            if could >= size and (place := self._try(tuple(chosen), size)) is not None:
                return place
        return None

    def _possible(self, host: HostView) -> int:
        """Return an upper bound of the GPUs that can become free on a host."""
        fixed = {
            index
            for index, jobs in self._on[host.id].items()
            if any(not (self._jobs[job].elastic or self._jobs[job].preemptible) or job in self.placed for job in jobs)
        }
        return host.gpus - len(fixed)

    def _try(self, hosts: tuple[str, ...], size: int) -> _ClaimedPlace | None:
        """Return what a place would cost; None: no room can be made there."""
        if sum(self._possible(self._hosts[host_id]) for host_id in hosts) < size:
            return None
        mark = len(self._journal)
        fits = self._make_room(hosts, size)
        givers = {job for job, _ in self._journal[mark:]}
        before = dict(reversed(self._journal[mark:]))
        stopped = sum(1 for job in givers if before[job] and not self._held[job])
        taken = sum(len(before[job]) - len(self._held[job]) for job in givers)
        self._undo(mark)
        return _ClaimedPlace(hosts, size, (stopped, taken, len(hosts), hosts)) if fits else None

    def _make_room(self, hosts: tuple[str, ...], size: int) -> bool:
        """Take GPUs of borrowers back until `size` are free on these hosts; False: that is impossible."""
        mark = len(self._journal)
        if not all(self._stop(job) for job in self._exclusive_on(hosts)):
            return False
        newest_first = sorted(self._jobs_on(hosts), key=lambda job: job.order, reverse=True)
        for job in newest_first:
            for host_id in hosts:
                if (short := size - self._free_on(hosts)) > 0:
                    self._shrink(job, host_id, short)
        for job in newest_first:
            if self._free_on(hosts) < size:
                self._stop(job)
        if self._free_on(hosts) < size:
            return False
        self._give_needless_back(hosts, size, mark)
        return True

    def _jobs_on(self, hosts: Iterable[str]) -> list[JobView]:
        names = {job for host_id in hosts for jobs in self._on[host_id].values() for job in jobs}
        return [self._jobs[name] for name in sorted(names)]

    def _exclusive_on(self, hosts: Iterable[str]) -> list[JobView]:
        """Return the exclusive jobs on the machines of these hosts. Nobody else may start there."""
        machines = {self._machines[host_id] for host_id in hosts}
        parts = [host_id for host_id, machine in self._machines.items() if machine in machines]
        return [job for job in self._jobs_on(parts) if job.exclusive]

    def _give_needless_back(self, hosts: tuple[str, ...], size: int, mark: int) -> None:
        """Return to each job, oldest first, what need not be taken after all."""
        before = dict(reversed(self._journal[mark:]))
        oldest_first = sorted(before, key=lambda job: self._jobs[job].order)
        for job_id in oldest_first:
            now, job = self._held[job_id], self._jobs[job_id]
            if job.exclusive:
                continue
            lost = sorted(before[job_id] - now)
            back = [frozenset(lost)] if not now else [frozenset(lost[:n]) for n in range(len(lost), 0, -1)]
            for gpus in back:
                self._set(job_id, now | gpus)
                if self._free_on(hosts) >= size:
                    break
                self._set(job_id, now)

    def _is_fixed(self, job: JobView) -> bool:
        return job.id in self.placed or job.id in self._pinned or len(self._held[job.id]) != self._gpus_counted(job)

    def _gpus_counted(self, job: JobView) -> int:
        return job.gpus if self._held[job.id] == self._before[job.id] else len(self._held[job.id])

    def _shrink(self, job: JobView, host_id: str, short: int) -> None:
        if not job.elastic or self._is_fixed(job):
            return
        alone = sorted(
            index for host, index in self._held[job.id] if host == host_id and len(self._on[host][index]) == 1
        )
        gpus = min(short, len(alone), len(self._held[job.id]) - job.min_gpus)
        if gpus <= 0:
            return
        gpus = min(gpus, self._holdings.borrowed_part(self._group(job), {host_id: gpus}))
        if gpus > 0:
            self._set(job.id, self._held[job.id] - {(host_id, index) for index in alone[-gpus:]})

    def _stop(self, job: JobView) -> bool:
        """Stop a job, if it borrows even at its minimum; return whether it holds nothing now."""
        held = self._held[job.id]
        if not held:
            return True
        if self._is_fixed(job) or not (job.elastic or job.preemptible):
            return False
        spare = len(held) - job.min_gpus if job.elastic else 0
        if self._holdings.borrowed_part(self._group(job), _by_host(held)) <= spare:
            return False
        self._set(job.id, frozenset())
        return True

    def _group(self, job: JobView) -> str | None:
        return self._guarantees.group_of.get(job.user)

    def _set(self, job_id: str, gpus: frozenset[_Gpu]) -> None:
        before, group = self._held[job_id], self._group(self._jobs[job_id])
        self._journal.append((job_id, before))
        for host_id, index in before - gpus:
            self._on[host_id][index].discard(job_id)
            if not self._on[host_id][index]:
                del self._on[host_id][index]
        for host_id, index in gpus - before:
            self._on[host_id].setdefault(index, set()).add(job_id)
        self._holdings.add(group, _by_host(before), -1)
        self._holdings.add(group, _by_host(gpus))
        self._held[job_id] = gpus

    def _undo(self, mark: int) -> None:
        for job_id, gpus in reversed(self._journal[mark:]):
            self._set(job_id, gpus)
        del self._journal[mark:]

    def _free(self, host_id: str) -> int:
        host = self._hosts[host_id]
        return host.gpus - len(self._on[host_id]) if host.open else 0

    def _free_on(self, hosts: Iterable[str]) -> int:
        return sum(self._free(host_id) for host_id in hosts)

    def _free_indices(self, host_id: str) -> list[int]:
        host = self._hosts[host_id]
        free = [index for index in range(host.gpus) if index not in self._on[host_id]]
        return sorted(free, key=lambda index: (index < len(host.gpu_leaving) and host.gpu_leaving[index], index))

    def _explain_refusal(self, job: JobView, group: str) -> None:
        """Keep hosts for a job that found no place, and say which borrowers it waits for."""
        able = [host for host in self._snapshot.hosts if host.open and suits(host, job)]
        able = [host for host in able if self._holdings.left(group, (self._holdings.key(group, host.id),)) > 0]
        later = {host.id: self._possible_later(host) for host in able}
        able.sort(key=lambda host: (later[host.id] < job.needed_gpus, -self._possible(host), host.id))
        hosts: list[HostView] = []
        for host in able:
            if sum(later[each.id] for each in hosts) < job.needed_gpus:
                hosts.append(host)
        if sum(later[host.id] for host in hosts) < job.needed_gpus:
            return
        lenders = [each for each in self._jobs_on([host.id for host in hosts]) if self._keeps_borrowed(each)]
        if not lenders:
            return
        if group not in {self._group(self._jobs[name]) for name in self._kept}:
            self._kept[job.id] = tuple(host.id for host in hosts)
        self._whys[job.id] = Explanation(
            Reason.GPUS_LENT.value,
            f"It needs {gpu_count(job.needed_gpus)}, which the guarantee of the group {group} has left. GPUs are lent "
            f"to jobs that can't be stopped: {self._ends(lenders)}.",
        )

    def _possible_later(self, host: HostView) -> int:
        """Return an upper bound of the GPUs that can become free on a host once rigid borrowers have ended."""
        ending = [job for job in self._jobs_on([host.id]) if self._keeps_borrowed(job)]
        return min(host.gpus, self._possible(host) + sum(_by_host(self._held[job.id])[host.id] for job in ending))

    def _keeps_borrowed(self, job: JobView) -> bool:
        stops = job.elastic or job.preemptible
        held = _by_host(self._held[job.id])
        return not stops and job.id not in self.placed and self._holdings.borrowed_part(self._group(job), held) > 0

    def _ends(self, lenders: Sequence[JobView]) -> str:
        now = self._snapshot.now
        ends = []
        for job in lenders:
            guessed = None if job.expected_left is None else now + job.expected_left
            ends.append(min((at for at in (guessed, job.ends_by) if at is not None), default=None))
        order = sorted(range(len(lenders)), key=lambda i: (ends[i] is None, ends[i] or 0.0, lenders[i].order))
        said = [
            f"job {lenders[i].id} until about {to_the_second(at)}"
            if (at := ends[i]) is not None
            else f"job {lenders[i].id}, whose end is unknown"
            for i in order[:_MOST_LENDERS]
        ]
        more = len(lenders) - len(said)
        return "; ".join(said) + (f"; and {more} more" if more else "")

    def _barred(self, job: JobView) -> dict[str, str]:
        """Return the hosts on which a waiting job may not start, since it could not give GPUs back."""
        if job.allocation or job.elastic or job.preemptible or not job.needed_gpus or job.id in self.placed:
            return {}
        group = self._group(job)
        return {
            host_id: f"GPUs of {host_id} are kept for job {first}, which waits within its group's guarantee"
            for first, hosts in self._kept.items()
            if group != self._group(self._jobs[first])
            for host_id in hosts
        }

    def lent_anew(self, plan: Plan) -> bool:
        """Return whether a plan lends kept GPUs to jobs that could not give them back."""
        return any(
            not self._barred(job).keys().isdisjoint(plan.allocations.get(job.id, {}))
            for job in self._snapshot.jobs
            if self._kept
        )

    def shown(self) -> Snapshot:
        """Return the snapshot in which the claims have been met."""
        hosts = tuple(
            replace(host, gpu_jobs=tuple(len(self._on[host.id].get(index, ())) for index in range(host.gpus)))
            if host.gpu_jobs
            else host
            for host in self._snapshot.hosts
        )
        jobs = tuple(view for job in self._snapshot.jobs if (view := self._shown(job)) is not None)
        return replace(self._snapshot, hosts=hosts, jobs=jobs)

    def _shown(self, job: JobView) -> JobView | None:
        held = self._held[job.id]
        if job.id in self.placed:
            return _rigid(_holding(replace(job, unfit={}), held), len(held))
        if held == self._before[job.id]:
            if job.id in self._pinned:
                return _rigid(job, job.gpus)
            barred = self._barred(job) if self._kept else {}
            return replace(job, unfit={**barred, **job.unfit}) if barred else job
        if not job.elastic:
            return None
        if not held:  # it may go on elsewhere
            return replace(job, allocation={}, gpu_indices={}, held_seconds=None)
        smaller = _holding(job, held)
        return replace(smaller, max_gpus=len(held), required_gpus=min(job.required_gpus, len(held)))

    def explained(self, plan: Plan) -> Plan:
        """Return the plan with the reasons of jobs that give GPUs back, or wait within a guarantee."""
        reasons = {
            **plan.reasons,
            **{job: why for job, why in self._whys.items() if not plan.allocations.get(job)},
        }
        plan = self._with_all_placed(plan)
        takers: dict[str, list[str]] = {}
        for giver, taker in self._given_for.items():
            job, after = self._jobs[giver], sum(plan.allocations.get(giver, {}).values())
            if self._held[giver] == self._before[giver] or not plan.allocations.get(taker):
                continue
            takers.setdefault(taker, []).append(giver)
            what = f"to the group {self.placed[taker]}, for job {taker}, which waits within the guarantee"
            if not after:
                sentence = f"It gives its {gpu_count(job.gpus)} back {what}."
                reasons[giver] = Explanation(Reason.PREEMPTED.value, sentence)
            elif after < job.gpus:
                sentence = f"It gives {gpu_count(job.gpus - after)} back {what}."
                reasons[giver] = Explanation(Reason.RESIZED.value, sentence)
        for taker, givers in takers.items():
            from_whom = ", ".join(f"job {giver}" for giver in sorted(givers)[:_MOST_LENDERS])
            more = f" and {len(givers) - _MOST_LENDERS} more" if len(givers) > _MOST_LENDERS else ""
            sentence = f"The group {self.placed[taker]} takes lent GPUs back for it, from {from_whom}{more}."
            reasons[taker] = Explanation(Reason.GPUS_LENT.value, sentence)
        return replace(plan, reasons=reasons)

    def _with_all_placed(self, plan: Plan) -> Plan:
        """Return the plan with the placed jobs, if it left them out as a policy may do with rigid jobs that run."""
        missing = {job: dict(_by_host(self._held[job])) for job in self.placed if not plan.allocations.get(job)}
        used = Counter[str]()
        for allocation in (*plan.allocations.values(), *missing.values()):
            used.update(allocation)
        fits = all(gpus <= self._hosts[host].gpus * plan.jobs_per_gpu for host, gpus in used.items())
        return replace(plan, allocations={**plan.allocations, **missing}) if missing and fits else plan


def _by_host(gpus: Iterable[_Gpu]) -> Counter[str]:
    return Counter(host_id for host_id, _ in gpus)


def _holding(job: JobView, gpus: Iterable[_Gpu]) -> JobView:
    indices: dict[str, tuple[int, ...]] = {}
    for host_id, index in sorted(gpus):
        indices[host_id] = (*indices.get(host_id, ()), index)
    return replace(job, allocation={host: len(each) for host, each in indices.items()}, gpu_indices=indices)


def _rigid(job: JobView, gpus: int) -> JobView:
    return replace(job, elastic=False, preemptible=False, required_gpus=gpus, min_gpus=gpus, max_gpus=gpus)
