"""What each user may have, laid over any policy: before it is asked, jobs that may not start are left out and running
ones bounded; while its plan goes beyond for some user, it is asked again with no more for them than may be. Pure.

Running jobs are never stopped for a quota.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from schedulearn.scheduler.core.model import Explanation, JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.core.states import Reason

Ask = Callable[[Snapshot], Plan | None]

EVERYBODY = "*"
"""The user whose quota is for all who have none of their own."""
WEEK_S = 7 * 86_400.0


@dataclass(frozen=True)
class Quota:
    """How much a user may have; None: no bound."""

    gpus: int | None = None
    """At once."""
    gpu_hours: float | None = None
    """Within seven days."""
    waiting: int | None = None
    """Jobs that have not started."""
    submissions: int | None = None
    """Within a minute."""
    weight: float = 1.0
    """Share of the cluster against other users, where shares are fair."""


NO_QUOTA = Quota()


@dataclass(frozen=True)
class Quotas:
    """Those in force, and what was used."""

    by_user: Mapping[str, Quota] = field(default_factory=dict)
    used_hours: Mapping[str, float] = field(default_factory=dict)
    """GPU-hours of each user within seven days."""
    decayed_hours: Mapping[str, float] | None = None
    """GPU-hours of each user, the older the less; None: shares need not be fair."""

    def of(self, user: str) -> Quota:
        return self.by_user.get(user) or self.by_user.get(EVERYBODY, NO_QUOTA)

    @property
    def bounds_plans(self) -> bool:
        bounds = any(quota.gpus is not None or quota.gpu_hours is not None for quota in self.by_user.values())
        return bounds or self.decayed_hours is not None


def plan_within(ask: Ask, snapshot: Snapshot, quotas: Quotas) -> Plan | None:
    """The plan of whoever is asked, within what each user may have; its reasons name the quota by which a job waits."""
    if not quotas.bounds_plans:
        return ask(snapshot)
    held = _held(snapshot.jobs)
    kept_back = {job.id: why for job in snapshot.jobs if (why := _refusal(job, quotas, held)) is not None}
    if quotas.decayed_hours is not None:
        others = [job for job in snapshot.jobs if job.id not in kept_back]
        kept_back |= _later_by_fairness(replace(snapshot, jobs=tuple(others)), quotas, quotas.decayed_hours)
    rest = _without(snapshot, kept_back.keys(), quotas, held)
    for _ in range(1 + len({job.user for job in rest.jobs})):  # each time at least one more user is bounded
        plan = ask(rest)
        sizes = _accepted(rest, plan, quotas) if plan is not None else {}
        if not sizes:
            break
        kept_back |= {
            job.id: _too_many(job, quotas, held) for job in rest.jobs if sizes.get(job.id) == 0 and not job.allocation
        }
        rest = replace(rest, jobs=tuple(_bounded(job, sizes) for job in rest.jobs if job.id not in kept_back))
    if plan is None:
        return None
    return replace(plan, reasons={**plan.reasons, **kept_back})


def _held(jobs: Iterable[JobView]) -> dict[str, int]:
    held: dict[str, int] = {}
    for job in jobs:
        held[job.user] = held.get(job.user, 0) + job.gpus
    return held


def _need(job: JobView) -> int:
    return job.min_gpus if job.elastic else job.required_gpus


def _refusal(job: JobView, quotas: Quotas, held: Mapping[str, int]) -> Explanation | None:
    """Why a waiting job may not start, however many GPUs are free."""
    if job.allocation:
        return None
    quota, used = quotas.of(job.user), quotas.used_hours.get(job.user, 0.0)
    if quota.gpu_hours is not None and used >= quota.gpu_hours:
        sentence = f"{_name(job)} has used {used:.1f} of {quota.gpu_hours:g} GPU-hours within seven days."
        return Explanation(Reason.OVER_QUOTA.value, sentence)
    if quota.gpus is not None and held.get(job.user, 0) + _need(job) > quota.gpus:
        return _too_many(job, quotas, held)
    return None


def _too_many(job: JobView, quotas: Quotas, held: Mapping[str, int]) -> Explanation:
    most, has = quotas.of(job.user).gpus, held.get(job.user, 0)
    sentence = f"It needs {gpu_count(_need(job))}; {_name(job)} may hold {most} at once, and holds {has}."
    return Explanation(Reason.OVER_QUOTA.value, sentence)


def _name(job: JobView) -> str:
    return job.user or "nobody"


def _without(snapshot: Snapshot, kept_back: Set[str], quotas: Quotas, held: Mapping[str, int]) -> Snapshot:
    """The snapshot without these jobs, and with no elastic one that may grow beyond what is left to its user."""
    jobs = []
    for job in snapshot.jobs:
        most = quotas.of(job.user).gpus
        if job.id in kept_back:
            continue
        if job.elastic and most is not None:
            jobs.append(_at_most(job, job.gpus + max(0, most - held.get(job.user, 0))))
        else:
            jobs.append(job)
    return replace(snapshot, jobs=tuple(jobs))


def _at_most(job: JobView, gpus: int) -> JobView:
    most = max(job.min_gpus, min(job.max_gpus, gpus))
    return replace(job, max_gpus=most, required_gpus=min(job.required_gpus, most))


def _accepted(snapshot: Snapshot, plan: Plan, quotas: Quotas) -> dict[str, int]:
    """job id -> how many GPUs it may have, of the jobs of users to whom the plan gives more than their quota; empty: it
    does so to nobody. What runs keeps what it holds; what is left goes by priority and submission."""
    planned = {job.id: sum(plan.allocations.get(job.id, {}).values()) for job in snapshot.jobs}
    by_user: dict[str, list[JobView]] = {}
    for job in snapshot.jobs:
        by_user.setdefault(job.user, []).append(job)
    sizes: dict[str, int] = {}
    for user, mine in by_user.items():
        most = quotas.of(user).gpus
        if most is None or sum(planned[job.id] for job in mine) <= most:
            continue
        left = most - sum(job.gpus for job in mine)
        for job in sorted(mine, key=lambda job: (not job.allocation, -job.priority, job.order)):
            more = max(0, min(planned[job.id] - job.gpus, left))
            if job.gpus + more < (_need(job) if job.elastic else planned[job.id]):
                more = 0
            sizes[job.id] = job.gpus + more
            left -= more
    return sizes


def _bounded(job: JobView, sizes: Mapping[str, int]) -> JobView:
    return _at_most(job, sizes[job.id]) if job.id in sizes and job.elastic else job


def _later_by_fairness(snapshot: Snapshot, quotas: Quotas, decayed: Mapping[str, float]) -> dict[str, Explanation]:
    """Waiting jobs that are not due yet, each with the reason.

    Progressive filling as in dominant-resource fairness (Ghodsi et al., 2011), job by job: the user with the smallest
    share of the cluster, over the weight, is next; whose next job does not fit waits. A user's share is what they hold,
    and what they used lately counts against it as a part of all that was used. The very first job is due also where it
    does not fit, and then alone: others would take what it waits for.
    """
    capacity = sum(host.gpus for host in snapshot.hosts if host.open)
    waiting: dict[str, list[JobView]] = {}
    for job in sorted(snapshot.jobs, key=lambda job: (-job.priority, job.order)):
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

    left = capacity - sum(min(job.gpus, _need(job)) for job in snapshot.jobs)
    due: set[str] = set()
    asking = {user: deque(jobs) for user, jobs in waiting.items()}
    while asking and left >= 0:
        user = min(asking, key=place)
        job = asking[user].popleft()
        if due and _need(job) > left:
            del asking[user]
            continue
        due.add(job.id)
        held[user] = held.get(user, 0) + _need(job)
        left -= _need(job)
        if not asking[user]:
            del asking[user]
    later = [job for jobs in waiting.values() for job in jobs if job.id not in due]
    return {job.id: _others_first(job, used[job.user]) for job in later}


def _others_first(job: JobView, used: float) -> Explanation:
    sentence = f"Others come first by fair share: {_name(job)} had {100 * used:.0f} % of what was used lately."
    return Explanation(Reason.FAIR_SHARE.value, sentence)
