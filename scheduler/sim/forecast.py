"""Forecast of current jobs: a simulation from a live cluster's state. Pure.

Future submissions are unknown, so a forecast is of the current jobs alone. The known speed of a job is taken as true.
Elastic jobs without a profile count as perfectly scaling up to `required_gpus`.
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
from schedulearn.scheduler.core.planning.remaining_work import guessed, pace, progress_speed, time_left
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.sim.application import Application, Modelled
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.run import Run
from schedulearn.scheduler.sim.simulator import Simulation
from schedulearn.scheduler.sim.workload import Running, TraceJob

MAX_EVENTS = 100_000  # maximum of one forecast: several times what the computing time allows
FETCH_S = 300.0  # assumed for fetching an image if the time is unknown: forecasts of other jobs use it
MANY = 200  # jobs; with more, the gap between decisions is a tenth of the mean run time, so as to get further


@dataclass(frozen=True)
class Facts:
    """Facts about a job that a forecast needs beside its `JobView`."""

    name: str
    max_gpus: int
    """Its own bound, not capped to what may be tried now."""
    started_at: float | None = None
    profiled_gpus: int = 0
    max_duration: float | None = None
    image_in: float = 0.0
    """Seconds until its image is there; infinite: it is being fetched, for an unknown time."""
    length_spread: float | None = None
    """Factor by which its run time may be off, either way, as its family shows; None: the usual one."""
    start_after: float = 0.0
    """It does not start before this time."""


@dataclass(frozen=True)
class Eta:
    """Expected start and end of a job, seconds since the epoch.

    None: later than the forecast reaches, or unknown (`awaits_image`).
    """

    start: float | None
    end: float | None
    earliest: float | None
    """Bounds of the end, by how well the run times that it depends on are known."""
    latest: float | None
    basis: Basis
    awaits_image: bool = False
    """The time to fetch its image is unknown, and so are start and end."""
    beyond_quota: bool = False
    """It needs more than the quota of its user or group, and can't start while that is so."""


@dataclass(frozen=True)
class Forecast:
    """Forecast under one policy. `until`: time that it reaches; infinite: to the end of all jobs that can run."""

    run: Run
    etas: Mapping[str, Eta]
    until: float
    cut: str
    """Why it ends there: `horizon`, `time` (computing time is over), `events` (too many), `failed`, or empty."""
    problem: Exception | None = None
    """Error of a policy or the simulator. The results until then are valid."""


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
    """Simulate `policy` from `snapshot` on for at most `horizon_s`, or until `out_of_time()`, or for MAX_EVENTS.

    Hosts are switched off and on by `switching`, if given, but never those of `always_on`.
    """
    asked, cut = 0, ""

    def stop(elapsed: float) -> bool:
        nonlocal asked, cut
        asked += 1
        if out_of_time():
            cut = "time"
        elif elapsed > horizon_s:
            cut = "horizon"
        elif asked > MAX_EVENTS:
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
        lengths="declared",  # run times that are known here
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
    # The GPUs that are shared are known for now only. If left out, they are derived from the jobs' allocations.
    # The ends of jobs without GPUs are not known either.
    hosts = [replace(host, gpu_jobs=(), gpu_utilization=(), gpu_memory_left=(), cpu_jobs=0) for host in snapshot.hosts]
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
        seconds = time_left(view)
        if facts.max_duration is not None:
            seconds = min(seconds, facts.max_duration - view.run_seconds)
        application = Application(view.id, None, BatchBounds(1, 1), max(seconds, 1.0))
    image_in = facts.image_in if math.isfinite(facts.image_in) else FETCH_S
    return TraceJob(
        id=view.id,
        submitted_at=view.submitted_at,
        ready_at=max(now + image_in if image_in else 0.0, facts.start_after),
        application=application,
        required_gpus=view.required_gpus,
        min_gpus=view.min_gpus,
        max_gpus=min(facts.max_gpus, application.max_gpus if known is not None else view.required_gpus),
        elastic=view.elastic,
        preemptible=view.preemptible,
        gpu_type=view.gpu_type,
        unfit=view.unfit,
        wanted_hosts=view.wanted_hosts,
        exclusive=view.exclusive,
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
    """Return the expected times. Those of a waiting job depend on how well the run times before it are known."""
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
            start = facts[job_id].started_at or snapshot.now  # jobs that hold GPUs will soon run
        ends = math.isfinite(outcome.ended_at)
        # The time until it may start is certain, however long it runs.
        since = snapshot.now if job_id in running else max(snapshot.now, facts[job_id].start_after)
        span = outcome.ended_at - since
        etas[job_id] = Eta(
            start if start is not None and math.isfinite(start) else None,
            outcome.ended_at if ends else None,
            since + span / factor if ends else None,
            since + span * factor if ends else None,
            basis,
            beyond_quota=job_id in beyond,
        )
    return etas
