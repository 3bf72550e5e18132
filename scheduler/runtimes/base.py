"""What the service needs of an execution engine, and the values that cross that seam.

Docker Engine, local processes and the fake of the tests implement `Runtime`, and one conformance suite
(tests/runtimes/) holds them to the contract below. A runtime speaks for one host. It keeps no state that
can't be found again: after a crash of the service, `observe` says what is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

GIB = 1 << 30
OWN_ENVIRONMENT = "(the service's own environment)"
"""Where local processes run that need none of our environments; no image can have this name."""


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
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Path in the container -> folder of the host, read-only. Local processes see the folders as they are."""
    host_network: bool = False
    """Share the host's network: the containers of a job over several hosts find each other there."""
    simulated_gpus: bool = False
    """The GPUs exist only in the books: pin by the environment, ask the engine for no device."""

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
    blind: bool = False
    """It runs, and says that it can't reach its GPUs any more."""


@dataclass(frozen=True)
class ImageProgress:
    percent: float  # 0..100, never falling within one call
    message: str


@dataclass(frozen=True)
class HostProblem:
    """Something that an operator should know of a host, and can act on. `code` is stable."""

    code: str
    message: str


@dataclass(frozen=True)
class HostFacts:
    """What a host says of itself when it is contacted."""

    engine_id: str
    """The engine's own identity: two addresses with the same one are one host."""
    version: str = ""
    cpus: int = 0
    memory_bytes: int = 0
    nvidia: bool = False
    """Whether containers can be given NVIDIA GPUs there."""
    shares_images: bool = True
    """Whether its images can be copied to other hosts."""
    isolates: bool = True
    """Whether tasks have files of their own, so that mounts appear where they should."""
    problems: tuple[HostProblem, ...] = ()


@dataclass(frozen=True)
class Stored:
    name: str
    bytes: int


@dataclass(frozen=True)
class StoredImage(Stored):
    own_bytes: int = 0
    """Of layers that no other image has: what its removal frees."""


@dataclass(frozen=True)
class Disk:
    """What takes room on a host."""

    images: tuple[StoredImage, ...] = ()
    """With their tags, whosever they are. Layers that several have count for each of them."""
    images_bytes: int = 0
    """Of all layers."""
    checkpoints: tuple[Stored, ...] = ()
    """By job, of this service."""


class Runtime(Protocol):
    """Every call is idempotent: start twice = once; stop or remove unknown = fine. Failures are `RuntimeFault`:
    `StartRefused` (and its child `ImageUnavailable`) where trying again can't help."""

    def survey(self) -> HostFacts:
        """Asks what the host is and what it lacks. Raises RuntimeFault if it does not answer, or can't be used."""
        ...

    def observe(self) -> Sequence[ObservedTask]:
        """All tasks of this service on this host, running or not, until `remove`d."""
        ...

    def image_for(self, image: str, launcher: str) -> str:
        """The image that a job which names this one gets here, for all calls below: the same in an engine, while local
        processes have an environment for it, which may depend on the launcher."""
        ...

    def has_image(self, image: str) -> bool:
        """Whether `start` with this image could go ahead at once. Cheap: no network, no build."""
        ...

    def fetch_image(self, image: str) -> Iterator[ImageProgress]:
        """Pulls or builds the image, yielding progress at least every few seconds; returns when it is there.
        Raises ImageUnavailable with the reason if it can't be had."""
        ...

    def save_image(self, image: str) -> Iterator[bytes]:
        """The image as an archive that `load_image` of another host takes. Raises ImageUnavailable without it."""
        ...

    def load_image(self, archive: Iterable[bytes]) -> None:
        """Makes the image of such an archive present. An archive that breaks off leaves no image."""
        ...

    def disk(self) -> Disk:
        """What takes room there. May take long."""
        ...

    def remove_image(self, image: str) -> None:
        """Removes an image by its name; one that a container has, running or not, stays."""
        ...

    def start(self, task: TaskSpec) -> None:
        """Creates and starts the task, unless a task of this id exists (running or ended): then nothing happens,
        except that one that was created and never ran is started. Returns once the command runs.

        A command that can't be run is a task that has EXITED, as a shell would have it: with 127 when it was not
        found, 126 when it is not executable, and `error` says which. `start` raises nothing then; it raises
        StartRefused for a task that no try can start (bad words, a name that is taken, GPUs the host can't give),
        ImageUnavailable without its image, and leaves nothing behind in both cases."""
        ...

    def stop(self, task_id: str, grace_s: float) -> None:
        """SIGTERM to the command's process group, then SIGKILL of everything in the task after `grace_s`. Returns when
        the task has ended; it ends as soon as its command does. A paused task is resumed first, or it could not see
        the signal. A task that never ran stays CREATED."""
        ...

    def pause(self, task_id: str) -> None:
        """Suspends all processes of a running task, which keep their memory, also on the GPU; returns when they are.
        What does not run stays as it is."""
        ...

    def resume(self, task_id: str) -> None:
        """Lets the processes of a paused task go on."""
        ...

    def remove(self, task_id: str) -> None:
        """Forgets an ended task (a running one is killed first, without a SIGTERM's grace). Its logs stay readable."""
        ...

    def checkpoints(self) -> Sequence[str]:
        """Ids of the jobs of this service that have a folder of checkpoints on this host. `start` makes it, all
        attempts of a job share it, and its path is in their variable SCHEDULEARN_CHECKPOINT_DIR."""
        ...

    def drop_checkpoints(self, job_id: str) -> None:
        """Forgets them. Unknown job, or one whose task is still there: nothing happens."""
        ...

    def checkpoints_changed_at(self, job_id: str) -> float | None:
        """When a file came into that folder or left it, in seconds by the clock of the host; None without a folder."""
        ...

    def save_checkpoints(self, job_id: str) -> Iterator[bytes]:
        """The folder as a tar archive that `load_checkpoints` of another host takes; nothing without a folder. What is
        written to it meanwhile may be torn."""
        ...

    def load_checkpoints(self, job_id: str, archive: Iterable[bytes]) -> None:
        """Makes the folder what such an archive holds, and nothing else. One that breaks off leaves no folder.
        Raises RuntimeFault while a task of the job that ran has it; one that never ran is removed."""
        ...

    def logs(self, task_id: str, follow: bool) -> Iterator[bytes]:
        """stdout and stderr as they came, in order, from the earliest kept byte; with `follow` until the task ends.
        Unknown task: ends at once. Logs are rotated and capped, so the earliest bytes may be gone."""
        ...

    def watch(self) -> Iterator[bool]:
        """Yields at first, soon after any task of this host changes its state, and maybe now and then for nothing;
        blocks in between; ends when `close`d. One consumer a call, any number of calls. True: the connection to the
        engine broke, so that it may have ended, and its tasks with it."""
        ...

    def close(self) -> None:
        """Lets go of connections and threads; the tasks go on."""
        ...
