"""Container specifications of tasks, made from the cluster state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedulearn.metrics.probe.readings import NumaNode
from schedulearn.scheduler.core.cluster_state import ClusterState, Job, Task
from schedulearn.scheduler.core.command import (
    gang_command,
    launch_argv,
    launcher_env,
    service_env,
    split_command,
    with_setup,
    worker_env,
)
from schedulearn.scheduler.core.gang import Member, member_argv, member_env, place_of
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.job_image import NamesImage, NeedsData
from schedulearn.scheduler.core.needs import input_variables
from schedulearn.scheduler.core.outcomes.in_place import members
from schedulearn.scheduler.core.planning.limits import data_variables, limits, sources
from schedulearn.scheduler.core.planning.run_trackers import tracker_env
from schedulearn.scheduler.core.task import TaskSpec
from schedulearn.scheduler.core.topology import Topology, binding
from schedulearn.scheduler.runtimes.recipes import recipe_path
from schedulearn.scheduler.specs.job import JobFields


@dataclass(frozen=True)
class HostResources:
    """Resources of the host of a task."""

    gpus: int
    facts: HostFacts | None
    topology: Topology
    nodes: Mapping[int, NumaNode]
    """NUMA nodes to bind tasks to; empty if tasks are not bound."""
    numa: Mapping[str, int | None]
    """GPU -> NUMA node."""
    data_sets: Mapping[str, str]
    """Name of a mount -> folder on the host."""
    writable: Mapping[str, Collection[str]]
    """Writable mount -> users whose jobs may write it."""
    image_of: Callable[[NamesImage], str]
    """Image of a job on this host."""
    login_of: Callable[[NeedsData], int]
    """Id of the registry login with which a job's image is pulled."""
    data_seen_at: Callable[[str, str], str]
    """Key of shared data, path in the container -> path as the task sees it."""
    code_path: Callable[[str], Path]
    """Digest of code -> its archive on the service's machine."""
    sys_nice: bool = False
    """Whether tasks with GPUs bind their processes to NUMA nodes themselves."""


def task_spec(
    task: Task,
    job: Job,
    keys: JobFields,
    simulated: set[str],
    gang: Sequence[Task],
    state: ClusterState,
    job_env: Mapping[str, str],
    all_jobs_env: Mapping[str, str],
    host: HostResources,
) -> TaskSpec:
    """Return the container specification of a task.

    `keys`: the job's keys that only a start needs. `simulated`: simulated GPUs. `gang`: the job's live tasks, including
    this one. `job_env`: variables for reports of the job's workers. `all_jobs_env`: variables of all jobs."""
    gpus = len(task.gpu_uuids)
    several_hosts = len(gang) > 1 and not task.generation
    if task.generation:
        others = members(gang)
        rank = sum(other.rank < task.rank for other in others)
        argv = split_command(keys.command)
        who = {
            **service_env(job.id, task.attempt, job.restarts, len(others)),
            **worker_env(task.rank, task.generation, rank),
        }
    else:
        argv = launch_argv(job.launcher, keys.command, gpus, elastic=job.elastic)
        who = service_env(job.id, task.attempt, job.restarts, gpus, task.rank, len(gang))
    mounts = sources(keys.mounts, host.data_sets)
    seen = mounts if host.facts is not None and not host.facts.isolates else {target: target for target in mounts}
    data = data_variables({name: seen[target] for name, target in keys.mounts.items()})
    data |= input_variables(keys.data, job.inputs, host.data_seen_at)
    env = {
        **launcher_env(job.launcher, keys.command),
        **tracker_env(
            job.id,
            job.name,
            job.family,
            container_image=job.container_image,
            command=keys.command,
            elastic=job.elastic,
        ),
        **all_jobs_env,
        **keys.env,
        **job_env,
        **data,
        **who,
        "SCHEDULEARN_GRACE_PERIOD": f"{job.grace_period:g}",
    }
    of_sdk = {"BATCH_SIZE": keys.batch_size, "MAX_BATCH_SIZE": keys.max_batch_size, "EPOCHS": keys.epochs}
    env.update({f"SCHEDULEARN_{name}": str(value) for name, value in of_sdk.items() if value is not None})
    bounds = limits(job, gpus, host.gpus, host.facts)
    writable = {name: target for name, target in keys.mounts.items() if name in host.writable}
    may_write = writable and all(job.user in host.writable[name] for name in writable)
    run_as = state.run_as.get(job.user) if may_write else None
    if several_hosts:
        launcher, words = gang_command(job.launcher, keys.command)
        argv = member_argv(_gang_source(), words)
        env.update(member_env(launcher, _member(task, gang, state)))
    return TaskSpec(
        job_id=job.id,
        attempt=task.attempt,
        rank=task.rank,
        image=host.image_of(job),
        login=host.login_of(job),
        argv=with_setup(keys.setup, argv),
        gpu_uuids=tuple(task.gpu_uuids),
        env=env,
        shm_bytes=bounds.shm_bytes,
        cpu_shares=bounds.cpu_shares,
        cpus=bounds.cpus,
        memory_bytes=bounds.memory_bytes,
        device_files=host.topology.device_files(task.gpu_uuids),
        binding=binding(host.nodes, [host.numa.get(u) for u in task.gpu_uuids], bounds.cpus, bounds.memory_bytes),
        mounts=mounts,
        writable=list(writable.values()),
        run_as=run_as,
        data=job.inputs,
        code=str(host.code_path(keys.code.digest)) if keys.code and keys.code.digest else "",
        host_network=several_hosts,
        sys_nice=host.sys_nice,
        simulated_gpus=all(uuid in simulated for uuid in task.gpu_uuids),
    )


def known_spec(task: Task, job: Job, host: HostResources) -> TaskSpec:
    """Return the specification of a task that is never started again.

    It lacks the command and all other properties that only a start needs."""
    return TaskSpec(
        job_id=job.id,
        attempt=task.attempt,
        rank=task.rank,
        image=host.image_of(job),
        login=host.login_of(job),
        argv=(),
        gpu_uuids=tuple(task.gpu_uuids),
    )


def _member(task: Task, gang: Sequence[Task], state: ClusterState) -> Member:
    ranks = sorted(gang, key=lambda each: each.rank)
    places = {host.id: place_of(host.address, host.network) for host in state.hosts}
    first = ranks[0]
    return Member(
        node=task.rank,
        slots=[len(each.gpu_uuids) for each in ranks],
        first=places[first.host_id],
        port=state.ports.get(first.id, 0),
        interface=places[task.host_id].interface,
    )


@functools.cache
def _gang_source() -> str:
    return recipe_path("gang.py").read_text()
