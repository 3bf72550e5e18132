"""From the books to the containers that they ask for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schedulearn.scheduler.core.command import (
    gang_command,
    launch_argv,
    launcher_env,
    service_env,
    split_command,
    worker_env,
)
from schedulearn.scheduler.core.gang import Member, member_argv, member_env, place_of
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.in_place import members
from schedulearn.scheduler.core.limits import data_variables, limits, sources
from schedulearn.scheduler.core.task import TaskSpec
from schedulearn.scheduler.runtimes.recipes import recipe_path

if TYPE_CHECKING:
    from schedulearn.scheduler.store.repository import ClusterState


@dataclass(frozen=True)
class HostResources:
    """What a task's host has."""

    gpus: int
    facts: HostFacts | None = None
    data_sets: Mapping[str, str] = field(default_factory=dict)
    """Name -> folder there."""
    image_of: Callable[[Any], str] = lambda job: str(job.container_image)
    """What a job runs in there."""


def task_spec(
    task: Any,
    job: Any,
    simulated: set[str],
    gang: Sequence[Any],
    books: ClusterState,
    job_env: Mapping[str, str],
    home: HostResources,
) -> TaskSpec:
    """`gang`: the job's live tasks, with this one. `job_env`: variables by which its workers report."""
    gpus = len(task.gpu_uuids)
    several_hosts = len(gang) > 1 and not task.generation
    if task.generation:
        others = members(gang)
        rank = sum(other.rank < task.rank for other in others)
        argv = split_command(job.command)
        who = {
            **service_env(job.id, task.attempt, job.restarts, len(others)),
            **worker_env(task.rank, task.generation, rank),
        }
    else:
        argv = launch_argv(job.launcher, job.command, gpus, elastic=job.elastic)
        who = service_env(job.id, task.attempt, job.restarts, gpus, task.rank, len(gang))
    mounts = sources(job.mounts, home.data_sets)
    seen = mounts if home.facts is not None and not home.facts.isolates else {target: target for target in mounts}
    data = data_variables({name: seen[target] for name, target in job.mounts.items()})
    env = {
        **launcher_env(job.launcher, job.command),
        **job.env,
        **job_env,
        **data,
        **who,
        "SCHEDULEARN_GRACE_PERIOD": f"{job.grace_period:g}",
    }
    for key in ("batch_size", "max_batch_size", "epochs"):
        if (value := getattr(job, key)) is not None:
            env[f"SCHEDULEARN_{key.upper()}"] = str(value)
    bounds = limits(job, gpus, home.gpus, home.facts)
    if several_hosts:
        launcher, words = gang_command(job.launcher, job.command)
        argv = member_argv(_gang_source(), words)
        env.update(member_env(launcher, _member(task, gang, books)))
    return TaskSpec(
        job_id=job.id,
        attempt=task.attempt,
        rank=task.rank,
        image=home.image_of(job),
        argv=argv,
        gpu_uuids=tuple(task.gpu_uuids),
        env=env,
        shm_bytes=job.shm_bytes,
        cpu_shares=bounds.cpu_shares,
        cpus=bounds.cpus,
        memory_bytes=bounds.memory_bytes,
        mounts=mounts,
        host_network=several_hosts,
        simulated_gpus=all(uuid in simulated for uuid in task.gpu_uuids),
    )


def known_spec(task: Any, job: Any, home: HostResources) -> TaskSpec:
    """Of a task that has started: what is still asked of it. It is never started again, so its command is not."""
    return TaskSpec(
        job_id=job.id,
        attempt=task.attempt,
        rank=task.rank,
        image=home.image_of(job),
        argv=(),
        gpu_uuids=tuple(task.gpu_uuids),
    )


def _member(task: Any, gang: Sequence[Any], books: ClusterState) -> Member:
    ranks = sorted(gang, key=lambda each: each.rank)
    places = {host.id: place_of(host.address, host.network) for host in books.hosts}
    first = ranks[0]
    return Member(
        node=task.rank,
        slots=[len(each.gpu_uuids) for each in ranks],
        first=places[first.host_id],
        port=books.ports.get(first.id, 0),
        interface=places[task.host_id].interface,
    )


@functools.cache
def _gang_source() -> str:
    return recipe_path("gang.py").read_text()
