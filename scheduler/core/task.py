"""Tasks, the containers of jobs: specification (`TaskSpec`) and observed state (`ObservedTask`). Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from schedulearn.scheduler.core.topology import UNBOUND, Binding

GIB = 1 << 30


HIGHEST_ID = (1 << 31) - 1
"""Maximum uid or gid of a host account: engines refuse higher ones."""


@dataclass(frozen=True)
class RunAs:
    """Host account that a task runs as. It is never root."""

    user: str
    uid: int
    gid: int
    gids: tuple[int, ...] = ()
    """Supplementary groups of the account."""

    def __post_init__(self) -> None:
        if not all(0 < number <= HIGHEST_ID for number in (self.uid, self.gid, *self.gids)):
            raise ValueError(f"{self}: a uid or gid is between 1 and {HIGHEST_ID}")


@dataclass(frozen=True)
class TaskSpec:
    """Specification of one container: one host's share of one attempt of a job."""

    job_id: str
    attempt: int
    rank: int
    image: str
    argv: tuple[str, ...]
    """Full command, including the launcher; never passed through a shell."""
    gpu_uuids: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the user and the service. The runtime sets the GPU pinning last, so that no variable here can
    override it."""
    shm_bytes: int = GIB
    cpu_shares: int = 0
    """Weight relative to other containers; 0 means the engine's default."""
    cpus: float | None = None
    memory_bytes: int | None = None
    """Memory limit; None means no limit. Local processes have no such limits or weights."""
    device_files: tuple[str, ...] = ()
    """Device files of the task's GPUs, if known. A container keeps access to them after systemd is reloaded."""
    gpu_request: bool = True
    """Whether GPUs without CDI devices are requested from the engine itself, not from its nvidia runtime."""
    binding: Binding = UNBOUND
    """Processors and memory nodes close to the task's GPUs. Local processes are not bound."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Path in the container -> folder of the host, read-only. Local processes see the host's folders directly."""
    writable: Collection[str] = ()
    """Paths in `mounts` that the task may write to."""
    run_as: RunAs | None = None
    """Account that replaces the image's user. It is set for every task that may write to folders of the hosts."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Path in the container -> key of shared data on the host, read-only."""
    code: str = ""
    """Path of an archive on the service's machine, or empty. It is unpacked as the command's working directory before
    the start."""
    host_network: bool = False
    """Whether the container shares the host's network, so that containers of a multi-host job find each other."""
    raise_limits: bool = True
    """Whether a task with GPUs may lock any amount of memory and gets a stack of 64 MiB."""
    sys_nice: bool = False
    """Whether a task with GPUs may bind its own processes to NUMA nodes."""
    login: int = 0
    """Id of the registry login with which its image is pulled; 0: none of its user or their group."""
    image_id: str = ""
    """Id of the only image that may run, if its name may mean another one by now; empty: any."""
    simulated_gpus: bool = False
    """Whether the GPUs exist only in the database. The task is then pinned by environment variables, and the engine is
    asked for no device."""

    @property
    def task_id(self) -> str:
        return task_id(self.job_id, self.attempt, self.rank)


def task_id(job_id: str, attempt: int, rank: int) -> str:
    """Return a task's id, which is also its container's name.

    An engine refuses a name that exists, so a task can't start twice.
    """
    return f"schedulearn-{job_id}-{attempt}-{rank}"


_TASK_ID = re.compile(r"schedulearn-([0-9a-z]+)-(\d+)-(\d+)")


def parse_task_id(name: str) -> tuple[str, int, int] | None:
    """Return (job id, attempt, rank) of a task id, or None if it is not one."""
    match = _TASK_ID.fullmatch(name)
    return (match[1], int(match[2]), int(match[3])) if match else None


class EngineState(StrEnum):
    CREATED = "created"  # exists, never ran: another `start` continues from here
    RUNNING = "running"
    EXITED = "exited"  # ended; exit_code is known
    LOST = "lost"  # was running and is gone; how it ended is unknown (its supervisor was killed, or a reboot)


@dataclass(frozen=True)
class ObservedTask:
    task_id: str
    state: EngineState
    exit_code: int | None = None
    oom_killed: bool = False
    started_at: float | None = None
    finished_at: float | None = None
    error: str = ""
    """Error message of the engine, if any (e.g. the command was not found)."""
    paused: bool = False
    """Whether the task runs with all its processes suspended."""
    container: str = ""
    """Engine's id of the container, if any. It identifies the task's processes on GPUs."""
    image: str = ""
    """Image of the container, if the engine reports it: `repository@sha256:...` if it came from a registry, else its
    id."""
    stuck: str = ""
    """Why the engine can neither inspect nor remove this container, in which nothing runs; empty if it can."""
