"""Maintenance windows: which jobs would run into one, and what is due. Pure.

A waiting job does not start on a host if it could still run when a window begins there. The longest run time of a job
is its `max_duration`, else the upper bound of its prediction. A job of unknown run time does not start in the last
`UNKNOWN_S` before a window. Elastic jobs start at any time, since they continue from a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from schedulearn.scheduler.core.cluster_state import ClusterState, Host, Job, MaintenanceWindow, Task, run_seconds
from schedulearn.scheduler.core.feasible_hosts import gpus_for
from schedulearn.scheduler.core.instants import bounded
from schedulearn.scheduler.core.model import HostView, JobView
from schedulearn.scheduler.core.states import HostState, JobState

UNKNOWN_S = 4 * 3600.0
"""Seconds before a window in which no job of unknown run time starts."""
TOLD_S = 24 * 3600.0
"""Seconds before a window from which running jobs are told."""


@dataclass(frozen=True)
class InTheWay:
    """Hosts where a window is in a job's way."""

    why: Mapping[str, str] = field(default_factory=dict)
    """Host -> the reason, a sentence without its full stop."""
    until: Mapping[str, float] = field(default_factory=dict)
    """Host -> when the job may start there, by the windows that are known. Hosts where it never may are missing."""


_NOTHING = InTheWay()


def longest_run(job: Job, predicted_gpu_seconds: float | None) -> float | None:
    """Return the longest run time of a waiting job, in seconds; None: unknown. An elastic one may stop at any time.

    `predicted_gpu_seconds`: upper bound of the prediction."""
    if job.elastic:
        return 0.0
    if job.max_duration is not None:
        return max(0.0, job.max_duration - job.run_seconds)
    return None if predicted_gpu_seconds is None else predicted_gpu_seconds / max(1, job.required_gpus)


def in_the_way(
    longest: float | None, windows: Sequence[MaintenanceWindow], hosts: Iterable[Host], now: float
) -> InTheWay:
    """Return the hosts on which a job can't start now. `longest`: its longest run time; None: unknown."""
    end = now + (UNKNOWN_S if longest is None else longest)
    if not any(_is_near(each, end, now) for each in windows):
        return _NOTHING
    ordered = sorted((each for each in windows if each.ends_at > now), key=_start)
    why, until = {}, {}
    for host in hosts:
        here = [window for window in ordered if window.covers(host.id)]
        first = next((window for window in here if _is_near(window, end, now)), None)
        if first is None:
            continue
        why[host.id] = f"{_sentence(first, host.id, now)}{_why_not_before(longest, first, here, now)}"
        if not any(_never_fits(longest, window) for window in here):
            until[host.id] = _free_from(here, end - now, now)
    return InTheWay(why, until)


def _free_from(windows: Iterable[MaintenanceWindow], seconds: float, now: float) -> float:
    """Return when a host is free for so many seconds. `windows`: its windows, in order."""
    at = now
    for window in windows:
        if window.ends_at > at and (window.starts_at <= at or window.starts_at < at + seconds):
            at = window.ends_at
    return at


def _never_fits(longest: float | None, window: MaintenanceWindow) -> bool:
    return (UNKNOWN_S if longest is None else longest) > window.longest_gap


def _why_not_before(
    longest: float | None, first: MaintenanceWindow, windows: Iterable[MaintenanceWindow], now: float
) -> str:
    """Return what keeps a job from a start before a window; empty if the window has begun."""
    never = next((window for window in windows if _never_fits(longest, window)), None)
    if never is not None:
        gap = _duration(never.longest_gap)
        if longest is None:
            return f"; the run time of this job is unknown, and maintenance repeats after {gap}: state `max_duration`"
        return (
            f"; this job could run for {_duration(longest)}, and maintenance repeats after {gap}: it never starts there"
        )
    return "" if first.starts_at <= now else f"; {_could_run(longest, first, now)}"


def _is_near(window: MaintenanceWindow, end: float, now: float) -> bool:
    return window.ends_at > now and (window.starts_at < end or window.starts_at <= now)


def _start(window: MaintenanceWindow) -> float:
    return window.starts_at


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.3g} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"


def _could_run(longest: float | None, window: MaintenanceWindow, now: float) -> str:
    if longest is None:
        return "the run time of this job is unknown, so state `max_duration`"
    return f"this job could run until {shown_time(now + longest, window, now)}"


def shown_time(at: float, window: MaintenanceWindow, now: float) -> str:
    """Return a time in the zone of a window, with its date unless it is today."""
    zone = ZoneInfo(window.time_zone)
    then, today = datetime.fromtimestamp(bounded(at), zone), datetime.fromtimestamp(bounded(now), zone).date()
    return f"{then:%H:%M}" if then.date() == today else f"{then:%Y-%m-%d %H:%M}"


def _sentence(window: MaintenanceWindow, host_id: str, now: float) -> str:
    begin, end = (shown_time(at, window, now) for at in (window.starts_at, window.ends_at))
    return f"host {host_id} is in maintenance from {begin} to {end} ({window.time_zone})"


def maintenance(window: MaintenanceWindow, host_id: str, now: float) -> str:
    """Return a sentence that says when a host is in maintenance, and why."""
    told = _sentence(window, host_id, now)
    return f"{told[0].upper()}{told[1:]}{': ' if window.reason else ''}{window.reason.rstrip('.')}."


def after_windows(job: JobView, hosts: Sequence[HostView]) -> tuple[JobView, float | None]:
    """Return a waiting job as forecasts see it, and when it may start.

    If it can't start elsewhere, it starts on its hosts at the end of a window. None: it waits for no window."""
    if not job.postponed or gpus_for(job, hosts) >= job.needed_gpus:
        return job, None
    for end in sorted(set(job.postponed.values())):
        over = {host for host, until in job.postponed.items() if until <= end}
        then = replace(job, unfit={host: why for host, why in job.unfit.items() if host not in over}, postponed={})
        if gpus_for(then, hosts) >= job.needed_gpus:
            return then, end
    return job, None


def with_hosts_returned(state: ClusterState) -> ClusterState:
    """Return the state as if maintained hosts were in service, for forecasts: jobs wait for the end of the window."""
    if all(host.window_id is None for host in state.hosts):
        return state
    hosts = [
        host if host.window_id is None else host._replace(state=HostState.ACTIVE, drain_until=None, window_id=None)
        for host in state.hosts
    ]
    return replace(state, hosts=hosts)


@dataclass(frozen=True)
class WindowSteps:
    """Steps that are due."""

    ended: Sequence[MaintenanceWindow]
    """Occurrences that are over: their hosts return."""
    begun: Sequence[tuple[MaintenanceWindow, str]]
    """Hosts to drain. Those that an operator closed stay as they are."""
    told: Sequence[tuple[MaintenanceWindow, Job, str]]
    """Running jobs to tell, with the sentence."""

    def __bool__(self) -> bool:
        return bool(self.ended or self.begun or self.told)


def window_steps(state: ClusterState, now: float) -> WindowSteps:
    """Return what is due. Any call may be the first after a start."""
    ended = [window for window in state.windows if window.ends_at <= now]
    over = {window.id for window in ended}
    open_windows = [window for window in state.windows if window.id not in over]
    begun = []
    for host in state.hosts:
        if host.window_id in over if host.window_id is not None else host.active:
            here = [each for each in open_windows if each.starts_at <= now and each.covers(host.id)]
            begun += [(here[0], host.id)] if here else []
    near = [each for each in open_windows if now < each.starts_at <= now + TOLD_S]
    told = [found for window in near for found in _to_tell(window, state, now)]
    return WindowSteps(ended, begun, told)


def _to_tell(
    window: MaintenanceWindow, state: ClusterState, now: float
) -> Iterable[tuple[MaintenanceWindow, Job, str]]:
    known = set(window.told)
    for task in state.tasks:
        job = state.jobs.get(task.job_id)
        if job is None or job.id in known or job.state != JobState.RUNNING or not window.covers(task.host_id):
            continue
        if _may_run_until(job, task, now) > window.starts_at:
            known.add(job.id)
            yield window, job, f"{maintenance(window, task.host_id, now)} {_fate(window, job, now)}"


def _fate(window: MaintenanceWindow, job: Job, now: float) -> str:
    if job.elastic:
        return "The job then saves a checkpoint, and continues elsewhere or afterwards."
    if window.starts_at + window.stops_rigid_s >= window.ends_at:
        return "The job runs on during the maintenance."
    end = shown_time(window.starts_at + window.stops_rigid_s, window, now)
    return f"If the job still runs at {end}, it is stopped and starts again from the beginning."


def _may_run_until(job: Job, task: Task, now: float) -> float:
    if job.max_duration is None:
        return float("inf")
    return now + job.max_duration - job.run_seconds - run_seconds(task, now)


def next_window_times(windows: Sequence[MaintenanceWindow], now: float) -> list[float]:
    """Return the seconds until windows have steps that are due."""
    times = [at for each in windows for at in (each.starts_at - TOLD_S, each.starts_at, each.ends_at)]
    return [max(0.05, at - now) for at in times if at > now]
