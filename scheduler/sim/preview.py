"""Preview of a policy with the current jobs, for comparisons. Pure.

It shows what a policy would do at once and within a fixed time. It depends on the state, the policy and the horizon
alone: not on the other policies compared, nor on how fast the machine computes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from schedulearn.scheduler.core.feasible_hosts import gpus_for
from schedulearn.scheduler.core.host_scaling import Switching
from schedulearn.scheduler.core.model import Allocation, Explanation, JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.core.pipeline import decide, layers
from schedulearn.scheduler.core.planning.quotas import NO_QUOTAS, Quotas, exceeds_quota
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.sim.forecast import Facts, Forecast, forecast
from schedulearn.scheduler.sim.result import busy_periods
from schedulearn.scheduler.sim.run import JobResult


@dataclass(frozen=True)
class Change:
    """Change that a policy would make to a job at once."""

    job: str
    action: str
    """start, grow, shrink, move, wait or pause"""
    before: Allocation
    after: Allocation
    code: str
    reason: str


@dataclass(frozen=True)
class Totals:
    """Figures of the jobs that can run, from now to the horizon. Seconds and hours."""

    mean_completion: float
    """From submission to end; a job that has not ended by then counts up to then."""
    median_wait: float
    """From submission to start; a job that has not started by then counts up to then."""
    p90_wait: float
    gpu_hours: float
    host_hours: float
    ended: int
    """Jobs that end by then."""
    changes: int
    """Jobs that it would change at once."""


@dataclass(frozen=True)
class PreviewedPolicy:
    """Preview of one policy."""

    forecast: Forecast
    changes: Sequence[Change]
    unchanged: int
    until: float
    """End of the period that its figures cover, seconds since the epoch."""
    totals: Totals | None
    """None: the simulation did not reach the horizon (`forecast.cut`), so its figures can't be compared; or no job can
    run."""
    left_out: int = 0
    """Jobs that can't run with this cluster and these quotas, whatever the policy. No figure counts them."""


def play(
    policy: Policy,
    snapshot: Snapshot,
    facts: Mapping[str, Facts],
    *,
    horizon_s: float,
    out_of_time: Callable[[], bool] = lambda: False,
    switching: Switching | None = None,
    always_on: Set[str] = frozenset(),
    quotas: Quotas = NO_QUOTAS,
) -> PreviewedPolicy:
    """Simulate from `snapshot` on. Raises what the policy raises, and PolicyFault for one that makes faulty plans."""
    due = replace(snapshot, jobs=tuple(job for job in snapshot.jobs if facts[job.id].start_after <= snapshot.now))
    plan = decide(policy.allocate, due, layers(quotas=quotas))
    changes = [change for job in due.jobs if (change := _change(job, plan)) is not None]
    found = forecast(
        policy,
        snapshot,
        facts,
        horizon_s=horizon_s,
        out_of_time=out_of_time,
        switching=switching,
        always_on=always_on,
        quotas=quotas,
    )
    if found.problem is not None:
        raise found.problem
    until = snapshot.now + horizon_s
    far = found.cut in ("", "horizon")
    never = {job.id for job in snapshot.jobs if _can_never_run(job, snapshot, quotas)}
    outcomes = [outcome for outcome in found.run.outcomes if outcome.job.id not in never]
    totals = _totals(found, outcomes, until, len(changes)) if far and outcomes else None
    return PreviewedPolicy(found, changes, len(snapshot.jobs) - len(changes), until, totals, len(never))


def _can_never_run(job: JobView, snapshot: Snapshot, quotas: Quotas) -> bool:
    """Return whether a waiting job needs more than all hosts have, or than its quota ever allows."""
    if job.allocation:
        return False
    return job.needed_gpus > gpus_for(job, snapshot.hosts) or exceeds_quota(job, quotas)


def _totals(found: Forecast, outcomes: Sequence[JobResult], until: float, changes: int) -> Totals:
    waits = sorted(min(o.started_at, until) - o.job.submitted_at for o in outcomes)
    times = [min(o.ended_at, until) - o.job.submitted_at for o in outcomes]
    held = [replace(h, end=min(h.end, until)) for h in found.run.held if h.begin < until]
    busy = busy_periods(replace(found.run, held=tuple(held)))
    on = busy if found.run.on is None else [(begin, min(end, until)) for begin, end in found.run.on if begin < until]
    return Totals(
        sum(times) / len(times),
        statistics.median(waits),
        waits[math.ceil(0.9 * len(waits)) - 1],
        sum((h.end - h.begin) * sum(h.allocation.values()) for h in held) / 3600,
        sum(end - begin for begin, end in on) / 3600,
        sum(1 for o in outcomes if o.ended_at <= until),
        changes,
    )


def _change(job: JobView, plan: Plan) -> Change | None:
    before, after = dict(job.allocation), dict(plan.allocations.get(job.id, {}))
    suspended = job.id in plan.suspended
    if before == after and not suspended:
        return None
    gpus = sum(after.values())
    if suspended:
        action, sentence = "pause", f"It takes turns on {gpu_count(gpus)}."
    elif not before:
        action, sentence = "start", f"Starts on {gpu_count(gpus)} of {', '.join(sorted(after))}."
    elif not after:
        if not job.elastic and not plan.preempts(job):
            return None  # a rigid job that runs is left alone
        action, sentence = "wait", "Its GPUs go to others."
    elif gpus == job.gpus:
        action, sentence = "move", f"Moves to {', '.join(sorted(after))}."
    else:
        action = "grow" if gpus > job.gpus else "shrink"
        sentence = f"Goes from {job.gpus} to {gpu_count(gpus)}."
    why = plan.reasons.get(job.id, sentence)
    return Change(job.id, action, before, after, why.code if isinstance(why, Explanation) else action, str(why))
