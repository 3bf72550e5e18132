"""Quotas of users and groups, as a layer around any policy. Pure.

Before the policy is asked, jobs that may not start are left out, and the growth of running jobs is limited. If its plan
exceeds a quota, it is asked again with tighter limits.

A job counts for its user and the user's group, and starts only within the quotas of both. Running jobs are never
stopped for a quota. Jobs without GPUs have limits of their own (`cpu_only.py`). They count among waiting jobs and
submissions, whose limits are checked when jobs are submitted.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from schedulearn.scheduler.core.model import Explanation, JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.core.planning.guarantees import Guarantee, Guarantees, within_guarantee
from schedulearn.scheduler.core.states import Reason

Ask = Callable[[Snapshot], Plan]

EVERYBODY = "*"
"""User name of the quota for all users without their own."""
WEEK_S = 7 * 86_400.0


@dataclass(frozen=True)
class Bounds:
    """Limits of a user or group; None: no limit."""

    gpus: int | None = None
    """GPUs at the same time."""
    gpu_hours: float | None = None
    """GPU-hours within seven days."""
    waiting: int | None = None
    """Jobs that have not started."""
    submissions: int | None = None
    """Jobs submitted within a minute."""
    cpu_jobs: int | None = None
    """Jobs without GPUs that run at the same time."""
    cpus: float | None = None
    """Total processors that those jobs request."""
    memory_gib: float | None = None
    """Total memory that those jobs request, in GiB."""
    priority: int | None = None
    """Highest priority of a job."""
    max_duration: float | None = None
    """Maximum `max_duration` of a job, in seconds."""
    default_duration: float | None = None
    """`max_duration` of jobs that state none, in seconds."""


@dataclass(frozen=True)
class Quota(Bounds):
    """Limits of a user, and the weight of their share."""

    weight: float = 1.0
    """Share of the cluster against other users, where shares are fair."""


NO_QUOTA = Quota()
NO_BOUNDS = Bounds()


class QuotaHolder(NamedTuple):
    """Holder of a quota: a user, or a group with all its users."""

    name: str
    is_group: bool = False

    def __str__(self) -> str:
        return f"the group {self.name}" if self.is_group else self.name or "nobody"


@dataclass(frozen=True)
class Quotas:
    """Quotas in force, and past use."""

    by_user: Mapping[str, Quota] = field(default_factory=dict)
    used_hours: Mapping[str, float] = field(default_factory=dict)
    """GPU-hours of each user within seven days."""
    decayed_hours: Mapping[str, float] | None = None
    """Decayed GPU-hours of each user; None: fair share is off."""
    by_group: Mapping[str, Bounds] = field(default_factory=dict)
    group_of: Mapping[str, str] = field(default_factory=dict)
    """User -> group, of users in a group."""
    guarantee_of: Mapping[str, Guarantee] = field(default_factory=dict)
    """Guaranteed GPUs of each group that has some."""

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(self.guarantee_of, self.group_of)

    def of(self, user: str) -> Quota:
        return self.by_user.get(user) or self.by_user.get(EVERYBODY, NO_QUOTA)

    def holders_of(self, user: str) -> tuple[QuotaHolder, ...]:
        """Return the holders whose quotas limit this user's jobs."""
        group = self.group_of.get(user)
        return (QuotaHolder(user),) if group is None else (QuotaHolder(user), QuotaHolder(group, is_group=True))

    def bounds_of(self, holder: QuotaHolder) -> Bounds:
        return self.by_group.get(holder.name, NO_BOUNDS) if holder.is_group else self.of(holder.name)

    def by_holder(self, by_user: Mapping[str, int]) -> Counter[QuotaHolder]:
        """Return counts by holder, given counts by user."""
        found: Counter[QuotaHolder] = Counter()
        for user, count in by_user.items():
            for holder in self.holders_of(user):
                found[holder] += count
        return found

    def hours_of(self, holder: QuotaHolder) -> float:
        """Return the GPU-hours within seven days. A group has those of its present users."""
        if not holder.is_group:
            return self.used_hours.get(holder.name, 0.0)
        return sum(self.used_hours.get(user, 0.0) for user, group in self.group_of.items() if group == holder.name)

    def priority_of(self, user: str) -> int | None:
        """Return the highest priority that this user's jobs may have; None: any."""
        bounds = (self.bounds_of(holder).priority for holder in self.holders_of(user))
        return min((most for most in bounds if most is not None), default=None)

    def max_duration_of(self, user: str) -> float | None:
        """Return the maximum run time that this user's jobs may state; None: any."""
        bounds = (self.bounds_of(holder).max_duration for holder in self.holders_of(user))
        return min((most for most in bounds if most is not None), default=None)

    def duration_of(self, user: str, stated: float | None) -> float | None:
        """Return the maximum run time of a job: as stated, else the default, at most the maximum; None: no limit."""
        defaults = (self.bounds_of(holder).default_duration for holder in self.holders_of(user))
        wanted = stated if stated is not None else min((each for each in defaults if each is not None), default=None)
        most = self.max_duration_of(user)
        return min((each for each in (wanted, most) if each is not None), default=None)

    @property
    def all_bounds(self) -> list[Bounds]:
        return [*self.by_user.values(), *self.by_group.values()]

    @property
    def bounds_plans(self) -> bool:
        bounds = any(each.gpus is not None or each.gpu_hours is not None for each in self.all_bounds)
        return bounds or self.decayed_hours is not None


NO_QUOTAS = Quotas()


def exceeds_quota(job: JobView, quotas: Quotas) -> bool:
    """Return whether a job needs more GPUs than its user or group may hold."""
    bounds = (quotas.bounds_of(holder).gpus for holder in quotas.holders_of(job.user))
    return any(most is not None and job.needed_gpus > most for most in bounds)


def used_up(user: str, quotas: Quotas) -> bool:
    """Return whether a user or their group has used up the GPU-hours of seven days."""
    return any(
        most is not None and quotas.hours_of(holder) >= most
        for holder in quotas.holders_of(user)
        for most in (quotas.bounds_of(holder).gpu_hours,)
    )


def plan_within(ask: Ask, snapshot: Snapshot, quotas: Quotas) -> Plan:
    """Return the plan within the quotas. Its reasons name the quota for which a job waits."""
    if any(bounds.priority is not None for bounds in quotas.all_bounds):
        # A quota may have been lowered since a job was submitted.
        snapshot = replace(snapshot, jobs=tuple(_at_most_urgent(job, quotas) for job in snapshot.jobs))
    if not quotas.bounds_plans:
        return ask(snapshot)
    held = quotas.by_holder(_held(snapshot.jobs))
    kept_back = {job.id: why for job in snapshot.jobs if (why := _refusal(job, quotas, held)) is not None}
    if quotas.decayed_hours is not None:
        others = [job for job in snapshot.jobs if job.id not in kept_back and job.required_gpus]
        fair = replace(snapshot, jobs=tuple(others))
        first = within_guarantee(fair, quotas.guarantees) if quotas.guarantees else set()
        later = _later_by_fairness(fair, quotas, quotas.decayed_hours)
        kept_back |= {job_id: why for job_id, why in later.items() if job_id not in first}
    rest = _without(snapshot, kept_back.keys(), quotas, held)
    holders = {holder for job in rest.jobs for holder in quotas.holders_of(job.user)}
    for _ in range(1 + len(holders)):  # each pass limits at least one more of them
        plan = ask(rest)
        sizes = _accepted(rest, plan, quotas)
        if not sizes:
            break
        kept_back |= {
            job.id: _too_many(job, quotas, held)
            for job in rest.jobs
            if sizes.get(job.id) == 0 and job.required_gpus and not job.allocation
        }
        rest = replace(rest, jobs=tuple(_bounded(job, sizes) for job in rest.jobs if job.id not in kept_back))
    return replace(plan, reasons={**plan.reasons, **kept_back})


def _at_most_urgent(job: JobView, quotas: Quotas) -> JobView:
    most = quotas.priority_of(job.user)
    return job if most is None or job.priority <= most else replace(job, priority=most)


def _held(jobs: Iterable[JobView]) -> dict[str, int]:
    held: dict[str, int] = {}
    for job in jobs:
        held[job.user] = held.get(job.user, 0) + job.gpus
    return held


def _refusal(job: JobView, quotas: Quotas, held: Mapping[QuotaHolder, int]) -> Explanation | None:
    """Return why a waiting job may not start, even if GPUs are free."""
    if job.allocation or not job.required_gpus:
        return None
    for holder in quotas.holders_of(job.user):
        most, used = quotas.bounds_of(holder).gpu_hours, quotas.hours_of(holder)
        if most is not None and used >= most:
            sentence = f"{_sentence(holder)} used {used:.1f} of {most:g} GPU-hours within seven days."
            return Explanation(Reason.OVER_QUOTA.value, sentence)
    return _too_many(job, quotas, held) if _left(job, quotas, held) < job.needed_gpus else None


def _sentence(holder: QuotaHolder) -> str:
    name = str(holder)
    return f"{name[0].upper()}{name[1:]} has" if holder.is_group else f"{name} has"


def _left(job: JobView, quotas: Quotas, held: Mapping[QuotaHolder, int]) -> float:
    """Return the GPUs that the quotas of user and group still allow a job."""
    bounds = [(quotas.bounds_of(holder).gpus, holder) for holder in quotas.holders_of(job.user)]
    return min((most - held.get(holder, 0) for most, holder in bounds if most is not None), default=math.inf)


def _too_many(job: JobView, quotas: Quotas, held: Mapping[QuotaHolder, int]) -> Explanation:
    """Return the reason that names the tightest limit."""
    bounds = [
        (most, holder) for holder in quotas.holders_of(job.user) if (most := quotas.bounds_of(holder).gpus) is not None
    ]
    most, holder = min(bounds, key=lambda bound: bound[0] - held.get(bound[1], 0))
    sentence = (
        f"It needs {gpu_count(job.needed_gpus)}; {holder} may hold {most} at once, and holds {held.get(holder, 0)}."
    )
    return Explanation(Reason.OVER_QUOTA.value, sentence)


def _without(snapshot: Snapshot, kept_back: Set[str], quotas: Quotas, held: Mapping[QuotaHolder, int]) -> Snapshot:
    """Return the snapshot without these jobs, and with elastic jobs limited to their users' quotas."""
    jobs = []
    for job in snapshot.jobs:
        if job.id in kept_back:
            continue
        left = _left(job, quotas, held) if job.elastic else math.inf
        jobs.append(job if left == math.inf else _at_most(job, job.gpus + max(0, int(left))))
    return replace(snapshot, jobs=tuple(jobs))


def _at_most(job: JobView, gpus: int) -> JobView:
    most = max(job.min_gpus, min(job.max_gpus, gpus))
    return replace(job, max_gpus=most, required_gpus=min(job.required_gpus, most))


def _accepted(snapshot: Snapshot, plan: Plan, quotas: Quotas) -> dict[str, int]:
    """Return the GPUs that each job of a holder may get if the plan exceeds the holder's quota.

    Empty: the plan exceeds no quota. Running jobs keep their GPUs; the rest goes by priority and submission. Users come
    before groups: GPUs above a user's quota don't count against others in the group."""
    planned = {job.id: sum(plan.allocations.get(job.id, {}).values()) for job in snapshot.jobs}
    by_holder: dict[QuotaHolder, list[JobView]] = {}
    for job in snapshot.jobs:
        for holder in quotas.holders_of(job.user):
            by_holder.setdefault(holder, []).append(job)
    sizes: dict[str, int] = {}
    for holder, jobs in sorted(by_holder.items(), key=lambda each: each[0].is_group):
        most = quotas.bounds_of(holder).gpus
        given = {job.id: min(planned[job.id], sizes.get(job.id, planned[job.id])) for job in jobs}
        if most is not None and sum(given.values()) > most:
            sizes |= _shared_out(most, jobs, given)
    return sizes


def _shared_out(most: int, jobs: Sequence[JobView], given: Mapping[str, int]) -> dict[str, int]:
    """Return job id -> GPUs that it may get, where all together may get `most`."""
    sizes: dict[str, int] = {}
    left = most - sum(job.gpus for job in jobs)
    for job in sorted(jobs, key=lambda job: (not job.allocation, job.by_priority)):
        more = max(0, min(given[job.id] - job.gpus, left))
        if job.gpus + more < (job.needed_gpus if job.elastic else given[job.id]):
            more = 0
        sizes[job.id] = job.gpus + more
        left -= more
    return sizes


def _bounded(job: JobView, sizes: Mapping[str, int]) -> JobView:
    return _at_most(job, sizes[job.id]) if job.id in sizes and job.elastic else job


def _later_by_fairness(snapshot: Snapshot, quotas: Quotas, decayed: Mapping[str, float]) -> dict[str, Explanation]:
    """Return the waiting jobs that must wait for other users by fair share, with the reason.

    Progressive filling as in dominant-resource fairness (Ghodsi et al., 2011), job by job. The user with the smallest
    share divided by weight is next. If their next job does not fit, the user is skipped. A share is the held part of
    the cluster, plus the user's part of all decayed GPU-hours. The very first job is due even if it does not fit, and
    then alone: others would take the GPUs that it waits for.
    """
    capacity = sum(host.gpus for host in snapshot.hosts if host.open)
    waiting: dict[str, list[JobView]] = {}
    for job in sorted(snapshot.jobs, key=lambda job: job.by_priority):
        if not job.allocation:
            waiting.setdefault(job.user, []).append(job)
    held = _held(snapshot.jobs)
    users = held.keys() | waiting.keys()
    if len(users) < 2 or not capacity:
        return {}
    all_used = sum(decayed.get(user, 0.0) for user in users) or 1.0
    used = {user: decayed.get(user, 0.0) / all_used for user in users}

    def place(user: str) -> tuple[float, tuple[float, int, str]]:
        share = held.get(user, 0) / capacity + used[user]
        return share / quotas.of(user).weight, asking[user][0].order

    left = capacity - sum(min(job.gpus, job.needed_gpus) for job in snapshot.jobs)
    due: set[str] = set()
    asking = {user: deque(jobs) for user, jobs in waiting.items()}
    while asking and left >= 0:
        user = min(asking, key=place)
        job = asking[user].popleft()
        if due and job.needed_gpus > left:
            del asking[user]
            continue
        due.add(job.id)
        held[user] = held.get(user, 0) + job.needed_gpus
        left -= job.needed_gpus
        if not asking[user]:
            del asking[user]
    later = [job for jobs in waiting.values() for job in jobs if job.id not in due]
    return {job.id: _others_first(job, used[job.user]) for job in later}


def _others_first(job: JobView, used: float) -> Explanation:
    sentence = f"Others come first by fair share: {job.user or 'nobody'} had {100 * used:.0f} % of the recent use."
    return Explanation(Reason.FAIR_SHARE.value, sentence)
