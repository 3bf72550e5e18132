"""Image fetches as `core/planning/fetching.py` decides them, and their progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.cluster_state import Job
from schedulearn.scheduler.core.job_image import NeedsData
from schedulearn.scheduler.core.needs import Image, Need
from schedulearn.scheduler.core.outcomes.findings import JobChanges, JobMoved
from schedulearn.scheduler.core.planning.fetching import (
    SOON_S,
    ImagePlan,
    fetch_hosts,
    how_long,
    is_stalled,
    refused_fetches,
    seconds_left,
)
from schedulearn.scheduler.core.states import WAITS, JobState, Reason
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.hosts.host_needs import Fetch
from schedulearn.scheduler.runtimes.contract import FetchProgress
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database

ALWAYS = "always"
"""Value of a job's key `pull`: pull the image even if a host has it."""
Agents = Mapping[str, HostAgent]


@dataclass(frozen=True)
class JobNeeds:
    """State of the images and data of `jobs`, known from agents."""

    agents: Agents
    jobs: Mapping[str, Job]
    now: float
    _unfit: dict[tuple[str, str, str], Mapping[str, str]] = field(default_factory=dict)
    """Cache of `unfit`, by the properties that it depends on."""

    def is_there(self, job_id: str, host_id: str) -> bool | None:
        agent, job = self.agents[host_id], self.jobs[job_id]
        known = [self._knows(job, agent, need) for need in agent.needs_of(job)]
        return False if False in known else None if None in known else True

    def _knows(self, job: Job, agent: HostAgent, need: Need) -> bool | None:
        if wants_anew(job, agent, need) and not agent.fetched_since(need, job.submitted_at):
            return False
        return agent.knows(need)

    def unfit(self, job: Job) -> Mapping[str, str]:
        """Return host -> reason for hosts that can't run a job's image.

        The reason is about the GPUs of the host."""
        key = (job.container_image, job.launcher, job.layer)
        if key not in self._unfit:
            found = {host_id: agent.unfit(job) for host_id, agent in self.agents.items()}
            self._unfit[key] = {host_id: why for host_id, why in found.items() if why}
        return self._unfit[key]

    def is_fetching(self, job_id: str, host_id: str) -> bool:
        agent = self.agents[host_id]
        answers = agent.status.observation is not None
        return answers and any(agent.fetch_under_way(need) is not None for need in agent.needs_of(self.jobs[job_id]))

    def lacking(self, job_id: str, agent: HostAgent) -> list[Need]:
        """Return the images and data that the host may lack."""
        job = self.jobs[job_id]
        return [need for need in agent.needs_of(job) if not self._knows(job, agent, need)]

    def soon(self, job_id: str) -> bool:
        """Return whether the job's image is expected within `SOON_S`.

        A fetch without an estimate counts as soon for its first `SOON_S` / 2 seconds."""
        job = self.jobs[job_id]
        for host_id in job.fetch_hosts:
            agent = self.agents.get(host_id)
            under_way = [agent.fetch_under_way(need) for need in agent.needs_of(job)] if agent is not None else []
            for fetch in under_way:
                if fetch is None:
                    continue
                elapsed = self.now - fetch.began_at
                left = seconds_left(fetch.progress.percent, elapsed) if fetch.progress is not None else None
                if (left if left is not None else 2 * elapsed) > SOON_S:
                    return False
        return True

    def told(self, job: Job, hosts: Sequence[str]) -> str:
        """Return the job's image and data that these hosts lack."""
        lacking = [need for host in hosts if host in self.agents for need in self.lacking(job.id, self.agents[host])]
        return " and ".join(dict.fromkeys(_name_of(need, job) for need in lacking)) or job.container_image

    def look(self, asked: Iterable[tuple[str, str]]) -> None:
        for job_id, host_id in asked:
            agent = self.agents[host_id]
            for need in agent.needs_of(self.jobs[job_id]) if job_id in self.jobs else ():
                if agent.knows(need) is None:
                    agent.check(need)


def wants_anew(job: Job, agent: HostAgent, need: Need) -> bool:
    """Return whether `need` is the job's image, and always pulled."""
    return job.pull == ALWAYS and isinstance(need, Image) and need.name == agent.image_of(job)


def take_refusals(agents: Agents, jobs: Mapping[str, Job]) -> list[JobMoved]:
    """Return the ends of jobs whose image turned out to be unavailable.

    It covers the failed fetches since the last call."""
    refused = {host_id: agent.take_refused_fetches() for host_id, agent in agents.items()}
    if not any(refused.values()):
        return []

    def why(job: Job, host: str) -> str | None:
        told = refused.get(host)
        return next((told[need] for need in agents[host].needs_of(job) if need in told), None) if told else None

    return refused_fetches(jobs, why)


def fetch_images(db: Database, images: JobNeeds, decision: ImagePlan, in_service: Set[str], now: float) -> None:
    """Begin the checks and fetches of a decision, and record progress.

    Fetches under way go on only on hosts `in_service`: hosts that are neither cordoned nor lost."""
    images.look(sorted(decision.look))
    hosts = fetch_hosts(images.jobs, decision.fetch, in_service, images.is_there, images.is_fetching)
    moving = [job for job in images.jobs.values() if job.state in WAITS and _changes(job, hosts.get(job.id, ()))]
    if moving:
        db.write(lambda conn: _write(conn, images, moving, hosts, now))
    told = list(_tell(db, images, hosts, {job.id for job in moving}, now))
    running = {job for job in decision.fetch if job in images.jobs and images.jobs[job].state == JobState.RUNNING}
    wanted = {**hosts, **{job: decision.fetch[job] for job in running}}
    for host_id, agent in images.agents.items():
        needed = [(job, need) for job, to in wanted.items() if host_id in to for need in images.lacking(job, agent)]
        anew = {need for job, need in needed if wants_anew(images.jobs[job], agent, need)}
        agent.fetch_for_jobs({need for job, need in needed if job not in running or agent.may_fetch(need)}, anew)
    for change in told:
        change.result()


def time_left(agents_now: Callable[[], Agents], job: NeedsData, hosts: Sequence[str]) -> float:
    """Return the seconds until a waiting job's image is on a host.

    Infinite if unknown. `hosts`: hosts that fetch it for this job; if empty, any host counts."""
    agents = agents_now()
    if hosts:
        return max((_host_left(agents[host], job) for host in hosts if host in agents), default=0.0)
    reached = [agent for agent in agents.values() if agent.status.observation is not None]
    if not reached or any(all(agent.knows(n) is not False for n in agent.needs_of(job)) for agent in reached):
        return 0.0
    return min(_host_left(agent, job) for agent in reached)


def _host_left(agent: HostAgent, job: NeedsData) -> float:
    return max(_need_left(agent, need) for need in agent.needs_of(job))


def _need_left(agent: HostAgent, need: Need) -> float:
    if agent.has(need):
        return 0.0
    fetch = agent.fetch_under_way(need)
    left = seconds_left(fetch.progress.percent, time.time() - fetch.began_at) if fetch and fetch.progress else None
    return math.inf if left is None else left


def _changes(job: Job, hosts: Sequence[str]) -> bool:
    """Return whether a waiting job's fetches begin, end or change hosts."""
    return job.state == JobState.PULLING if not hosts else tuple(job.fetch_hosts) != tuple(hosts)


def _write(
    conn: Connection, images: JobNeeds, moving: Sequence[Job], hosts: Mapping[str, Sequence[str]], now: float
) -> None:
    for job in moving:
        if to := hosts.get(job.id):
            message = f"Fetching {images.told(job, to)} on {', '.join(to)}. It holds no GPUs meanwhile."
            repository.move_job(conn, job, Reason.IMAGE_PULL, message, now, pull_percent=0.0, fetch_hosts=list(to))
        else:
            there = any(host in images.agents and images.is_there(job.id, host) for host in job.fetch_hosts)
            what = "image and data" if job.inputs else "image"
            message = f"Its {what} is there." if there else f"The host that fetched its {what} can't be used now."
            ends = JobChanges(pull_percent=None, fetch_hosts=[])
            reason = Reason.WAITING_FOR_GPUS if job.required_gpus else Reason.WAITING_FOR_HOST
            waits = "It waits for GPUs." if job.required_gpus else "It needs no GPU, and waits for a host."
            repository.move_job(conn, job, reason, f"{message} {waits}", now, **ends)


def _tell(
    db: Database, images: JobNeeds, hosts: Mapping[str, Sequence[str]], moved: set[str], now: float
) -> Iterator[Future[bool]]:
    """Record the progress of fetches, in whole percent, for waiting jobs."""
    for job_id in hosts.keys() - moved:
        job = images.jobs[job_id]
        slowest = _slowest_fetch(images, job, hosts[job_id])
        if slowest is None:
            continue
        percent, message = slowest.percent, slowest.message
        anew = percent is None or slowest.stalled
        if (percent is not None and percent != job.pull_percent) or (anew and message != job.message):
            changes = JobChanges() if percent is None else JobChanges(pull_percent=percent)
            yield db.submit(partial(_move, job=job, message=message, now=now, changes=changes))


def _move(conn: Connection, job: Job, message: str, now: float, changes: JobChanges) -> bool:
    return repository.move_job(conn, job, Reason.IMAGE_PULL, message, now, **changes)


@dataclass(frozen=True)
class _Fetch:
    """Progress of a fetch."""

    percent: float | None
    """Whole percent; None: the fetch failed, and will be tried again."""
    message: str
    stalled: bool = False


def _slowest_fetch(images: JobNeeds, job: Job, hosts: Sequence[str]) -> _Fetch | None:
    """Return the slowest fetch, or one that will be tried again.

    None: no progress is known yet."""
    found: list[_Fetch] = []
    for host_id in hosts:
        agent = images.agents[host_id]
        for need in images.lacking(job.id, agent):
            fetch = agent.fetch_under_way(need)
            if fetch is None:
                if trouble := agent.fetch_trouble(need).why:
                    return _Fetch(None, f"{trouble} Trying again.")
            elif fetch.progress is not None:
                found.append(_told_of(fetch, fetch.progress, _name_of(need, job), host_id, images.now))
    return min(found, key=lambda fetch: fetch.percent or 0.0, default=None)


def _told_of(fetch: Fetch, progress: FetchProgress, what: str, host_id: str, now: float) -> _Fetch:
    times = (progress.percent, fetch.advanced_at - fetch.began_at, now - fetch.advanced_at)
    message = f"Fetching {what} on {host_id}: {progress.message}; {how_long(*times)}."
    return _Fetch(float(int(progress.percent)), message, is_stalled(*times))


def _name_of(need: Need, job: Job) -> str:
    """Return the image as the job names it, or data's path."""
    if isinstance(need, Image):
        return job.container_image
    return next(path for path, key in job.inputs.items() if key == need.key)
