"""What will become of the jobs that there are: the simulator begun with the state of a live cluster. Pure.

Nobody knows what will be submitted: a forecast is of today's jobs alone. What is known of a job's speed is taken for
the truth; elastic jobs without a profile count as perfectly scaling up to `required_gpus`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.scheduler.core.host_scaling import Switching
from schedulearn.scheduler.core.model import (
    RESTART_S,
    Basis,
    JobView,
    Snapshot,
)
from schedulearn.scheduler.core.planning.quotas import NO_QUOTAS, Quotas, exceeds_quota
from schedulearn.scheduler.core.planning.remaining_work import guessed, pace, progress_speed
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.sim.application import Application, Modelled
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.run import Run
from schedulearn.scheduler.sim.simulator import Simulation
from schedulearn.scheduler.sim.workload import Running, TraceJob

MOST_EVENTS = 100_000  # of one forecast: several times what the time to compute allows
FETCH_S = 300.0  # where nobody knows how long the fetch of an image takes: other jobs are foreseen with this
MANY = 200  # jobs; with more of them decisions lie apart by a tenth of how long jobs take, so as to get further


@dataclass(frozen=True)
class Facts:
    """What a forecast needs of a job beside its `JobView`."""

    name: str
    max_gpus: int
    """Its own bound, not capped to what may be tried now."""
    started_at: float | None = None
    profiled_gpus: int = 0
    max_duration: float | None = None
    image_in: float = 0.0
    """Seconds until its image is there; infinite: it is being fetched, and nobody knows how long that takes."""
    length_spread: float | None = None
    """By which factor its length may be off, either way, where its family tells; None: as is usual."""


@dataclass(frozen=True)
class Eta:
    """When a job is expected to start and to end, seconds since the epoch; None: not within the time looked at, or not
    to be told (`awaits_image`)."""

    start: float | None
    end: float | None
    earliest: float | None
    """Bounds of the end, by how well the lengths that it depends on are known."""
    latest: float | None
    basis: Basis
    awaits_image: bool = False
    """Nobody knows how long the fetch of its image takes, so neither start nor end can be told."""
    beyond_quota: bool = False
    """Its user's quota, or the group's, is smaller than what it needs: it can't start while that is so."""


@dataclass(frozen=True)
class Forecast:
    """What comes of one policy. `until`: up to when it was looked at; infinite: to the end of all jobs that can run."""

    run: Run
    etas: Mapping[str, Eta]
    until: float
    cut: str
    """Why it ends there: `horizon`, `time` (to compute is over), `events` (too many), `failed`, or empty."""
    problem: Exception | None = None
    """What failed: a policy, or the simulator. What was found until then holds."""


def forecast(
    policy: Policy,
    snapshot: Snapshot,
    facts: Mapping[str, Facts],
    *,
    horizon_s: float,
    out_of_time: Callable[[], bool] = lambda: False,
    switching: Switching | None = None,
    always_on: Set[str] = frozenset(),
    quotas: Quotas = NO_QUOTAS,
) -> Forecast:
    """Plays on from `snapshot` under `policy` for at most `horizon_s`, or until `out_of_time()`, or for MOST_EVENTS.
    Hosts are switched off and on by `switching`, if given, but never those of `always_on`."""
    asked, cut = 0, ""

    def stop(elapsed: float) -> bool:
        nonlocal asked, cut
        asked += 1
        if out_of_time():
            cut = "time"
        elif elapsed > horizon_s:
            cut = "horizon"
        elif asked > MOST_EVENTS:
            cut = "events"
        return bool(cut)

    restarts = [job.restart_cost for job in snapshot.jobs if job.elastic]
    jobs = [_trace_job(view, facts[view.id], snapshot.now) for view in snapshot.jobs]
    lengths = [job.application.total_steps for job in jobs if job.application.times is None]
    usual = sum(lengths) / len(lengths) if lengths else 0.0
    conditions = Conditions(
        interval=max(60.0, usual) if len(jobs) > MANY else 60.0,
        gap=usual / 10 if len(jobs) > MANY else 0.0,
        family_memory=False,
        lengths="declared",  # those that are known here
        stall_up=sum(restarts) / len(restarts) if restarts else RESTART_S,
    )
    if switching is not None:
        rule = switching.rule
        conditions = replace(
            conditions,
            scaling=True,
            scale_window=switching.window_s,
            least_hosts=rule.least,
            most_hosts=rule.most,
            scale_target=rule.target,
            always_on=tuple(sorted(always_on)),
        )
    # Which GPUs are shared is true of now only; it is derived from the jobs' allocations where it is left out.
    hosts = [replace(host, gpu_jobs=(), gpu_utilization=(), gpu_memory_left=()) for host in snapshot.hosts]
    simulation = Simulation(policy, jobs, hosts, conditions, start=snapshot.now, stop=stop, quotas=quotas)
    simulation.last_host = snapshot.last_host
    problem: Exception | None = None
    try:
        run = simulation.run()
    except Exception as error:  # a policy may raise anything
        run, cut, problem = simulation.result(), "failed", error
    until = snapshot.now + simulation.now if cut else math.inf
    return Forecast(run, _etas(run, snapshot, facts, quotas), until, cut, problem)


def _trace_job(view: JobView, facts: Facts, now: float) -> TraceJob:
    known = view.goodput if isinstance(view.goodput, Goodput) else None
    left = view.remaining
    if known is not None:
        unit = pace(known, view.min_gpus)
        if left is None:
            here = progress_speed(known, max(1, len(view.allocation)), max(view.gpus, view.min_gpus))
            left = guessed(view.run_seconds) * here / unit
        work = left * unit / known.bounds.init_batch
        application = Application(view.id, Modelled(next(iter(known.models.values()))), known.bounds, max(work, 1e-9))
    else:
        seconds = guessed(view.run_seconds) if left is None else left / view.required_gpus
        if facts.max_duration is not None:
            seconds = min(seconds, facts.max_duration - view.run_seconds)
        application = Application(view.id, None, BatchBounds(1, 1), max(seconds, 1.0))
    image_in = facts.image_in if math.isfinite(facts.image_in) else FETCH_S
    return TraceJob(
        id=view.id,
        submitted_at=view.submitted_at,
        ready_at=now + image_in if image_in else 0.0,
        application=application,
        required_gpus=view.required_gpus,
        min_gpus=view.min_gpus,
        max_gpus=min(facts.max_gpus, application.max_gpus if known is not None else view.required_gpus),
        elastic=view.elastic,
        gpu_type=view.gpu_type,
        priority=view.priority,
        weight=view.weight,
        metric=view.metric,
        deadline=view.deadline,
        user=view.user,
        running=Running(
            allocation=view.allocation,
            attained_gpu_seconds=view.attained_gpu_seconds,
            run_seconds=view.run_seconds,
            held_seconds=math.inf if view.held_seconds is None else view.held_seconds,
            restarts=view.restarts,
            profile=known,
            profiled_gpus=facts.profiled_gpus,
            basis=view.basis,
        ),
    )


def _etas(run: Run, snapshot: Snapshot, facts: Mapping[str, Facts], quotas: Quotas) -> dict[str, Eta]:
    """Whoever waits depends on how well the lengths of those before it are known."""
    running = {job.id for job in snapshot.jobs if job.allocation}
    bases = {job.id: job.basis for job in snapshot.jobs}
    beyond = {job.id for job in snapshot.jobs if job.id not in running and exceeds_quota(job, quotas)}
    begins = {o.job.id: snapshot.now if o.job.id in running else o.started_at for o in run.outcomes}
    etas = {}
    spread = 1.0
    for outcome in sorted(run.outcomes, key=lambda outcome: begins[outcome.job.id]):
        job_id = outcome.job.id
        basis = bases[job_id] or Basis.GUESS
        if math.isinf(facts[job_id].image_in):
            etas[job_id] = Eta(None, None, None, None, basis, awaits_image=True)
            continue
        own = facts[job_id].length_spread or basis.spread
        spread = max(spread, own)
        factor = own if job_id in running else spread
        start: float | None = outcome.started_at
        if job_id in running:
            start = facts[job_id].started_at or snapshot.now  # those that hold GPUs and are not running yet soon are
        ends = math.isfinite(outcome.ended_at)
        span = outcome.ended_at - snapshot.now
        etas[job_id] = Eta(
            start if start is not None and math.isfinite(start) else None,
            outcome.ended_at if ends else None,
            snapshot.now + span / factor if ends else None,
            snapshot.now + span * factor if ends else None,
            basis,
            beyond_quota=job_id in beyond,
        )
    return etas
