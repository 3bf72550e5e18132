"""From the books to the containers that they ask for."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedulearn.scheduler.gang import Member, member_argv, member_env, place_of
from schedulearn.scheduler.launch import gang_command, launch_argv, service_env, split_command, worker_env
from schedulearn.scheduler.membership import members
from schedulearn.scheduler.runtimes.base import TaskSpec
from schedulearn.scheduler.runtimes.recipes import recipe_path

if TYPE_CHECKING:
    from schedulearn.scheduler.store.repository import Books


def task_spec(
    task: Any, job: Any, simulated: set[str], gang: Sequence[Any], books: Books, job_env: Mapping[str, str]
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
    env = {**job.env, **job_env, **who, "SCHEDULEARN_GRACE_PERIOD": f"{job.grace_period:g}"}
    if several_hosts:
        launcher, words = gang_command(job.launcher, job.command)
        argv = member_argv(_gang_source(), words)
        env.update(member_env(launcher, _member(task, gang, books)))
    return TaskSpec(
        job_id=job.id,
        attempt=task.attempt,
        rank=task.rank,
        image=job.container_image,
        argv=argv,
        gpu_uuids=tuple(task.gpu_uuids),
        env=env,
        shm_bytes=job.shm_bytes,
        host_network=several_hosts,
        simulated_gpus=all(uuid in simulated for uuid in task.gpu_uuids),
    )


def _member(task: Any, gang: Sequence[Any], books: Books) -> Member:
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
