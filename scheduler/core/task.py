"""A task: one container of a job, as it should be (`TaskSpec`) and as an engine shows it (`ObservedTask`). Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from schedulearn.scheduler.core.topology import UNBOUND, Binding

GIB = 1 << 30


HIGHEST_ID = (1 << 31) - 1
"""Of a user or group of the hosts: engines take none above it."""


@dataclass(frozen=True)
class RunAs:
    """The account of the hosts that a task runs as. Never root's."""

    user: str
    uid: int
    gid: int
    gids: tuple[int, ...] = ()
    """Its further groups."""

    def __post_init__(self) -> None:
        if not all(0 < number <= HIGHEST_ID for number in (self.uid, self.gid, *self.gids)):
            raise ValueError(f"{self}: a uid or gid is between 1 and {HIGHEST_ID}")


@dataclass(frozen=True)
class TaskSpec:
    """One container to be: one host's share of one attempt of a job."""

    job_id: str
    attempt: int
    rank: int
    image: str
    argv: tuple[str, ...]
    """The whole command, launcher included; never passed through a shell."""
    gpu_uuids: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """The user's and the service's variables. The runtime itself sets the pinning last, so that nothing here can
    set or widen it."""
    shm_bytes: int = GIB
    cpu_shares: int = 0
    """Weight against other containers; 0: the engine's default."""
    cpus: float | None = None
    memory_bytes: int | None = None
    """At most so much; None: no bound. Local processes know neither these bounds nor weights."""
    device_files: tuple[str, ...] = ()
    """Of its GPUs, as far as they are known. A container keeps these over a reload of systemd."""
    gpu_request: bool = True
    """Ask the engine itself for GPUs that it has no CDI devices of, and not its nvidia runtime."""
    binding: Binding = UNBOUND
    """Processors and memory nodes that are close to its GPUs. Local processes are not bound."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Path in the container -> folder of the host, read-only. Local processes see the folders as they are."""
    writable: Collection[str] = ()
    """Those paths of `mounts` that the task may write."""
    run_as: RunAs | None = None
    """In place of the image's own user. A task that may write folders of the hosts has it."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Path in the container -> key of data that jobs share, which the host has, read-only."""
    code: str = ""
    """Path of an archive of this service, unpacked as the command's directory before it starts; empty: none."""
    host_network: bool = False
    """Share the host's network: the containers of a job over several hosts find each other there."""
    raise_limits: bool = True
    """With GPUs, it may lock any memory, and has 64 MiB of stack."""
    sys_nice: bool = False
    """With GPUs, it may bind its own processes to NUMA nodes."""
    simulated_gpus: bool = False
    """The GPUs exist only in the database: pin by the environment, ask the engine for no device."""

    @property
    def task_id(self) -> str:
        return task_id(self.job_id, self.attempt, self.rank)


def task_id(job_id: str, attempt: int, rank: int) -> str:
    """Also the container's name: an engine refuses the same name twice, so a task can't be doubled."""
    return f"schedulearn-{job_id}-{attempt}-{rank}"


_TASK_ID = re.compile(r"schedulearn-([0-9a-z]+)-(\d+)-(\d+)")


def parse_task_id(name: str) -> tuple[str, int, int] | None:
    """(job id, attempt, rank) of a task id; None if it is not one."""
    match = _TASK_ID.fullmatch(name)
    return (match[1], int(match[2]), int(match[3])) if match else None


class TaskState(StrEnum):
    CREATED = "created"  # exists, never ran: `start` again carries on from here
    RUNNING = "running"
    EXITED = "exited"  # ended; exit_code is known
    LOST = "lost"  # was running, is gone, and nobody saw how it ended (kill -9 of its keeper, reboot)


@dataclass(frozen=True)
class ObservedTask:
    task_id: str
    state: TaskState
    exit_code: int | None = None
    oom_killed: bool = False
    started_at: float | None = None
    finished_at: float | None = None
    error: str = ""
    """The engine's own words, where it has any (e.g. the command was not found)."""
    paused: bool = False
    """It runs, but all its processes are suspended."""
    container: str = ""
    """The engine's own id of it, where it has one: by that, processes of its are known on GPUs."""
    image: str = ""
    """What it runs, where the engine can tell: `repository@sha256:...` of an image from a registry, else its id."""
    stuck: str = ""
    """Why the engine can neither tell of it nor remove it, of one in which nothing runs; empty: all is well."""
