"""Carries out what `fetching` decides: jobs become `pulling`, hosts fetch, and the rows tell how far that is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.cluster_state import Job
from schedulearn.scheduler.core.job_image import NamesImage
from schedulearn.scheduler.core.outcomes.findings import JobChanges, JobMoved
from schedulearn.scheduler.core.planning.image_fetching import (
    SOON_S,
    Decision,
    fetch_hosts,
    refused_fetches,
    seconds_left,
)
from schedulearn.scheduler.core.states import WAITS, JobStatus, Reason
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database

ALWAYS = "always"
"""The key `pull` of a job whose image is pulled again where it is there."""
Agents = Mapping[str, HostAgent]


@dataclass(frozen=True)
class Images:
    """What the agents know of the images of `jobs`, by id."""

    agents: Agents
    jobs: Mapping[str, Job]

    def is_there(self, job_id: str, host_id: str) -> bool | None:
        agent, job = self.agents[host_id], self.jobs[job_id]
        image = agent.image_of(job)
        if job.pull == ALWAYS and not agent.fetched_since(image, job.submitted_at):
            return False
        return agent.knows_image(image)

    def is_fetching(self, job_id: str, host_id: str) -> bool:
        agent = self.agents[host_id]
        answers = agent.status.observation is not None
        return answers and agent.fetch_under_way(agent.image_of(self.jobs[job_id])) is not None

    def soon(self, job_id: str) -> bool:
        """Whether the image of a job is expected in a moment; of a fetch that has just begun, it is."""
        job = self.jobs[job_id]
        for host_id in job.fetch_hosts:
            agent = self.agents.get(host_id)
            fetch = agent.fetch_under_way(agent.image_of(job)) if agent is not None else None
            if fetch is not None:
                elapsed = time.time() - fetch.began_at
                left = seconds_left(fetch.progress.percent, elapsed) if fetch.progress is not None else None
                if (left if left is not None else 2 * elapsed) > SOON_S:
                    return False
        return True

    def look(self, asked: Iterable[tuple[str, str]]) -> None:
        for job_id, host_id in asked:
            if job_id in self.jobs:
                self.agents[host_id].look_for(self.agents[host_id].image_of(self.jobs[job_id]))


def take_refusals(agents: Agents, jobs: Mapping[str, Job]) -> list[JobMoved]:
    """The ends of jobs whose image turned out not to be had since the last call."""
    refused = {host_id: agent.take_refused_images() for host_id, agent in agents.items()}
    if not any(refused.values()):
        return []
    return refused_fetches(
        jobs, lambda job, host: refused[host].get(agents[host].image_of(job)) if host in refused else None
    )


def follow(db: Database, images: Images, decision: Decision, in_service: Set[str], now: float) -> None:
    """Begins the looks and fetches that `decision` asks for, and goes on with those under way on hosts that are
    neither closed nor lost, `in_service`."""
    images.look(sorted(decision.look))
    hosts = fetch_hosts(images.jobs, decision.fetch, in_service, images.is_there, images.is_fetching)
    moving = [job for job in images.jobs.values() if job.status in WAITS and _changes(job, hosts.get(job.id, ()))]
    if moving:
        db.write(lambda conn: _write(conn, images, moving, hosts, now))
    told = list(_tell(db, images, hosts, {job.id for job in moving}, now))
    running = {job for job in decision.fetch if job in images.jobs and images.jobs[job].status == JobStatus.RUNNING}
    wanted = {**hosts, **{job: decision.fetch[job] for job in running}}
    for host_id, agent in images.agents.items():
        needed = {job: agent.image_of(images.jobs[job]) for job, to in wanted.items() if host_id in to}
        anew = {image for job, image in needed.items() if images.jobs[job].pull == ALWAYS}
        agent.fetch_for_jobs(
            {image for job, image in needed.items() if job not in running or agent.may_fetch(image)}, anew
        )
    for change in told:
        change.result()


def time_left(agents_now: Callable[[], Agents], job: NamesImage, hosts: Sequence[str]) -> float:
    """Seconds until the image of a waiting job is there; infinite while nobody knows.
    `hosts`: those that fetch it for this job, if any does; else it may be on any host."""
    agents = agents_now()
    if hosts:
        return max((_host_left(agents[host], job) for host in hosts if host in agents), default=0.0)
    reached = [agent for agent in agents.values() if agent.status.observation is not None]
    if not reached or any(agent.knows_image(agent.image_of(job)) is not False for agent in reached):
        return 0.0
    return min(_host_left(agent, job) for agent in reached)


def _host_left(agent: HostAgent, job: NamesImage) -> float:
    image = agent.image_of(job)
    if agent.has_image(image):
        return 0.0
    fetch = agent.fetch_under_way(image)
    left = seconds_left(fetch.progress.percent, time.time() - fetch.began_at) if fetch and fetch.progress else None
    return math.inf if left is None else left


def _changes(job: Job, hosts: Sequence[str]) -> bool:
    """Whether a waiting job begins or ends to wait for its image, or does so on other hosts."""
    return job.status == JobStatus.PULLING if not hosts else tuple(job.fetch_hosts) != tuple(hosts)


def _write(
    conn: Connection, images: Images, moving: Sequence[Job], hosts: Mapping[str, Sequence[str]], now: float
) -> None:
    for job in moving:
        if to := hosts.get(job.id):
            message = f"Fetching {job.container_image} on {', '.join(to)}. It holds no GPUs meanwhile."
            repository.move_job(conn, job, Reason.IMAGE_PULL, message, now, pull_percent=0.0, fetch_hosts=list(to))
        else:
            there = any(host in images.agents and images.is_there(job.id, host) for host in job.fetch_hosts)
            message = "Its image is there." if there else "The host that fetched its image can't be used now."
            ends = JobChanges(pull_percent=None, fetch_hosts=[])
            reason = Reason.WAITING_FOR_GPUS if job.required_gpus else Reason.WAITING_FOR_HOST
            waits = "It waits for GPUs." if job.required_gpus else "It needs no GPU, and waits for a host."
            repository.move_job(conn, job, reason, f"{message} {waits}", now, **ends)


def _tell(
    db: Database, images: Images, hosts: Mapping[str, Sequence[str]], moved: set[str], now: float
) -> Iterator[Future[bool]]:
    """Writes down how far the fetches are, in whole per cent, for the jobs that wait for them."""
    for job_id in hosts.keys() - moved:
        job = images.jobs[job_id]
        slowest = _slowest_fetch(images, job, hosts[job_id])
        if slowest is None:
            continue
        percent, message = slowest.percent, slowest.message
        if (percent is not None and percent != job.pull_percent) or (percent is None and message != job.message):
            changes = JobChanges() if percent is None else JobChanges(pull_percent=percent)
            yield db.submit(partial(_move, job=job, message=message, now=now, changes=changes))


def _move(conn: Connection, job: Job, message: str, now: float, changes: JobChanges) -> bool:
    return repository.move_job(conn, job, Reason.IMAGE_PULL, message, now, **changes)


@dataclass(frozen=True)
class _Fetch:
    """How far a fetch is."""

    percent: float | None
    """Whole per cent; None: it has to try again."""
    message: str


def _slowest_fetch(images: Images, job: Job, hosts: Sequence[str]) -> _Fetch | None:
    """Of the host that is least far, or has to try again; None: nothing is known yet."""
    found: list[_Fetch] = []
    for host_id in hosts:
        agent = images.agents[host_id]
        image = agent.image_of(job)
        fetch = agent.fetch_under_way(image)
        if fetch is None:
            if trouble := agent.image_trouble(image).why:
                return _Fetch(None, f"{trouble} Trying again.")
        elif fetch.progress is not None:
            left = seconds_left(fetch.progress.percent, time.time() - fetch.began_at)
            how_long = "it is too early to tell how long that takes" if left is None else f"about {_words(left)} left"
            sentence = f"Fetching {job.container_image} on {host_id}: {fetch.progress.message}; {how_long}."
            found.append(_Fetch(float(int(fetch.progress.percent)), sentence))
    return min(found, key=lambda fetch: fetch.percent or 0.0, default=None)


def _words(seconds: float) -> str:
    """One number: no estimate is good to two."""
    if seconds < 90:
        return f"{max(1.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
