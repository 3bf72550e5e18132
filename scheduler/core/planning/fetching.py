"""Layer of the pipeline that gives GPUs only where images and data are. Pure.

The policy is asked with all jobs first. Its plan shows where jobs that lack their image would start, and the image is
fetched there. Then it is asked without these jobs, so that others use the GPUs meanwhile. No running job gives up GPUs
for one that can't start yet. "Image" stands for everything that a job needs on its host (`core/needs.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from schedulearn.scheduler.core.cluster_state import Job
from schedulearn.scheduler.core.feasible_hosts import kept_for_exclusive, suits
from schedulearn.scheduler.core.model import Allocation, Explanation, HostView, JobView, Plan, Snapshot
from schedulearn.scheduler.core.outcomes.findings import JobChanges, JobMoved
from schedulearn.scheduler.core.states import WAITS, JobState, Reason

Ask = Callable[[Snapshot], Plan]
IsThere = Callable[[str, str], bool | None]
"""(job id, host id) -> whether the job's image is on that host; None: not checked yet."""

ROUNDS = 4
"""Maximum policy calls per scheduling cycle. GPUs still planned for jobs without their image then stay free."""
SOON_S = 60.0
"""Running jobs do not grow onto GPUs that are needed again within this time: each resize costs them a restart."""
_LITTLE = 3.0  # per cent, below which the rest of a fetch can't be estimated
_SHORT_S = 5.0  # elapsed time below which it can't be estimated
_STILL_S = 20.0
"""Seconds without progress after which an estimate is no longer shown."""
_ELSEWHERE = "Its image is on no host yet. It is being fetched for jobs before it."


@dataclass(frozen=True)
class ImagePlan:
    """Plan that gives GPUs only where images are, and the images that it lacks."""

    plan: Plan = field(default_factory=lambda: Plan({}))
    """Plan that can be applied at once."""
    fetch: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Job id -> hosts without its image on which the policy would start it."""
    look: Set[tuple[str, str]] = frozenset()
    """(job id, host id) pairs to check for the job's image first."""


class WithImages:
    """Layer of the pipeline that keeps its last plan and the images that were missing."""

    def __init__(self, is_there: IsThere, soon: Callable[[str], bool]) -> None:
        self._is_there = is_there
        self._soon = soon
        self.last = ImagePlan()

    def __call__(self, ask: Ask, snapshot: Snapshot) -> Plan:
        self.last = plan_with_images(ask, snapshot, self._is_there, self._soon)
        return self.last.plan


def plan_with_images(
    ask: Ask, snapshot: Snapshot, is_there: IsThere, soon: Callable[[str], bool] = lambda job_id: False
) -> ImagePlan:
    """Plan GPUs only where images are. `soon`: whether a job's image is expected within SOON_S."""
    machines = snapshot.machines()
    hosts = list(dict.fromkeys(host.machine for host in snapshot.hosts if host.open))
    fetch: dict[str, tuple[str, ...]] = {}
    look: set[tuple[str, str]] = set()
    plans: list[Plan] = []
    rest = snapshot
    for _ in range(ROUNDS):
        plan = _closer(rest, ask(rest), is_there)
        going = {
            job.id: to for job in rest.jobs if job.id in plan.allocations and (to := _new_hosts(job, plan, machines))
        }
        look |= {(job, host) for job in going for host in hosts if is_there(job, host) is None}
        lacking = {job: tuple(h for h in to if is_there(job, h) is False) for job, to in going.items()}
        lacking = {job: to for job, to in lacking.items() if to}
        fetch |= lacking
        absent = {job for job, to in going.items() if not all(is_there(job, host) for host in to)}
        plans.append(_nothing_taken_for(absent, rest, _without(rest, plan, absent)))
        if not lacking:
            break
        rest = replace(rest, jobs=tuple(_others(rest, fetch, hosts, is_there, any(map(soon, fetch)))))
    first, last = plans[0], plans[-1]
    if not fetch:
        return ImagePlan(last, fetch, look)
    left_out = {job.id for job in snapshot.jobs} - {job.id for job in rest.jobs} - fetch.keys()
    reasons = {**last.reasons, **{job: Explanation(Reason.WAITING_FOR_IMAGE.value, _ELSEWHERE) for job in left_out}}
    now = replace(last, reasons=reasons, desired_hosts=first.desired_hosts, utility=first.utility)
    return ImagePlan(now, fetch, look)


def _new_hosts(job: JobView, plan: Plan, machines: Mapping[str, str]) -> tuple[str, ...]:
    """Return the hosts that the plan adds to a job."""
    wanted, now = plan.allocations.get(job.id, {}), {machines.get(part, part) for part in job.allocation}
    return tuple(sorted({machines.get(part, part) for part in wanted} - now))


def _without(snapshot: Snapshot, plan: Plan, jobs: Set[str]) -> Plan:
    """Return the plan with `jobs` left as they are."""
    if not jobs:
        return plan
    held = {job.id: job.allocation for job in snapshot.jobs if job.id in jobs}
    kept = {job: held[job] if job in jobs else to for job, to in plan.allocations.items()}
    waiting = {job for job in jobs if not held[job]}
    allocations = {job: to for job, to in kept.items() if job not in waiting}
    return replace(plan, allocations=allocations, suspended=plan.suspended - waiting)


def _nothing_taken_for(absent: Set[str], snapshot: Snapshot, plan: Plan) -> Plan:
    """Return the plan in which running jobs keep the GPUs meant for the `absent` jobs, which can't start yet.

    They keep only GPUs that no other job gets."""
    if not absent or plan.jobs_per_gpu > 1:
        return plan
    free = {host.id: host.gpus for host in snapshot.hosts}
    for allocation in plan.allocations.values():
        for part, gpus in allocation.items():
            free[part] = free.get(part, 0) - gpus
    kept: dict[str, Allocation] = {}
    for job in snapshot.jobs:
        wanted = plan.allocations.get(job.id, {})
        more = {part: gpus - wanted.get(part, 0) for part, gpus in job.allocation.items()}
        if any(gpus > 0 for gpus in more.values()) and all(gpus <= free.get(part, 0) for part, gpus in more.items()):
            kept[job.id] = job.allocation
            for part in more.keys() | wanted.keys():
                free[part] = free.get(part, 0) + wanted.get(part, 0) - job.allocation.get(part, 0)
    return replace(plan, allocations={**plan.allocations, **kept}) if kept else plan


def _others(
    snapshot: Snapshot, fetch: Mapping[str, Sequence[str]], hosts: Sequence[str], is_there: IsThere, soon: bool
) -> list[JobView]:
    """Return the jobs to plan without those of `fetch`.

    Waiting jobs whose image is on no host are left out. Running jobs of `fetch` stay as they are. If the GPUs are
    needed again `soon`, no job grows."""
    jobs = []
    for job in snapshot.jobs:
        if job.allocation:
            jobs.append(_rigid(job) if job.id in fetch else _at_most(job) if soon and job.elastic else job)
        elif job.id not in fetch and not all(is_there(job.id, host) is False for host in hosts):
            jobs.append(job)
    return jobs


def _rigid(job: JobView) -> JobView:
    return replace(job, elastic=False, required_gpus=job.gpus, min_gpus=job.gpus, max_gpus=job.gpus)


def _at_most(job: JobView) -> JobView:
    return replace(job, required_gpus=min(job.required_gpus, job.gpus), max_gpus=max(job.min_gpus, job.gpus))


def _closer(snapshot: Snapshot, plan: Plan, is_there: IsThere) -> Plan:
    """Return the plan with waiting jobs moved to similar hosts that have their image and free GPUs."""
    if plan.jobs_per_gpu > 1:
        return plan
    views = {host.id: host for host in snapshot.hosts}
    alone = kept_for_exclusive(snapshot, plan)
    free = {host.id: host.gpus for host in snapshot.hosts if host.open and host.machine not in alone}
    for allocation in plan.allocations.values():
        for part, gpus in allocation.items():
            if part in free:
                free[part] -= gpus
    allocations = dict(plan.allocations)
    for job in snapshot.jobs:
        to = allocations.get(job.id, {})
        if len(to) != 1 or not job.required_gpus or job.allocation or job.id in plan.suspended:
            continue
        [(part, gpus)] = to.items()
        if is_there(job.id, views[part].machine) is not False:
            continue
        better = _host_with_image(job, views[part], gpus, free, views, is_there)
        if better is not None:
            allocations[job.id] = {better: gpus}
            free[better] -= gpus
            free[part] = free.get(part, 0) + gpus
    return replace(plan, allocations=allocations)


def _host_with_image(
    job: JobView, like: HostView, gpus: int, free: Mapping[str, int], views: Mapping[str, HostView], is_there: IsThere
) -> str | None:
    """Return the suitable host with the fewest free GPUs."""
    fitting = [
        part for part, room in free.items()
        if room >= gpus and views[part].gpu_type == like.gpu_type and is_there(job.id, views[part].machine)
        and suits(views[part], job) and not job.exclusive
    ]  # fmt: skip
    return min(fitting, key=lambda part: free[part], default=None)


def fetch_hosts(
    jobs: Mapping[str, Job],
    decided: Mapping[str, tuple[str, ...]],
    in_service: Set[str],
    is_there: IsThere,
    is_fetching: Callable[[str, str], bool],
) -> dict[str, tuple[str, ...]]:
    """Return the hosts that fetch the image of each waiting job.

    A fetch under way goes on, also if later plans differ, until the image is there or the host is cordoned or lost.
    `jobs`: all unfinished jobs. `decided`: fetches of this cycle's plan. `in_service`: hosts neither cordoned nor
    lost."""
    found = {}
    for job in jobs.values():
        if job.state not in WAITS:
            continue
        wanted = decided.get(job.id, ())
        begun = tuple(h for h in job.fetch_hosts if h in in_service and not is_there(job.id, h))
        if begun and (not wanted or wanted == begun or any(is_fetching(job.id, host) for host in begun)):
            found[job.id] = begun
        elif wanted:
            found[job.id] = wanted
    return found


def refused_fetches(jobs: Mapping[str, Job], refused: Callable[[Job, str], str | None]) -> list[JobMoved]:
    """Return the ends of jobs whose image is unavailable. `refused`: (job, host id) -> reason."""
    moved = []
    for job in jobs.values():
        if job.state == JobState.PULLING:
            why = next((why for host in job.fetch_hosts if (why := refused(job, host)) is not None), None)
            if why is not None:
                changes = JobChanges(pull_percent=None, fetch_hosts=[])
                moved.append(JobMoved(job, Reason.IMAGE_UNAVAILABLE, why, changes))
    return moved


def seconds_left(percent: float, elapsed_s: float) -> float | None:
    """Return the seconds that a fetch still takes at its average speed; None: too early to tell."""
    if percent < _LITTLE or elapsed_s < _SHORT_S:
        return None
    return elapsed_s * (100.0 - percent) / percent


def is_stalled(percent: float, elapsed_s: float, still_s: float) -> bool:
    """Return whether a fetch has made no progress for twice the time estimated for its rest.

    `elapsed_s`: seconds until its last progress; `still_s`: seconds since then.
    """
    return still_s > max(_STILL_S, 2 * (seconds_left(percent, elapsed_s) or 0.0))


def how_long(percent: float, elapsed_s: float, still_s: float) -> str:
    """Return the estimated rest of a fetch in words. Parameters as of `is_stalled`."""
    if is_stalled(percent, elapsed_s, still_s):
        return f"no progress for {_words(max(step for step in _STEPS if step <= still_s))}, so its end is unknown"
    left = seconds_left(percent, elapsed_s)
    if left is None:
        return "the time left is not known yet"
    return f"about {_words(left / 2)} to {_words(left * 2)} left"


_STEPS = (0, 20, 60, 120, 300, 600, 1200, 1800, *range(3600, 14 * 86_400, 3600))


def _words(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
