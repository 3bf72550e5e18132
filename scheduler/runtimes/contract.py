"""What the service needs of an execution engine, and the values that cross that seam.

Docker Engine, local processes and the fake of the tests implement `Runtime` with its `Images`, `JobFolders` and
`SharedData`. One
conformance suite (tests/runtimes/) holds them to the contract below. A runtime speaks for one host. It keeps no state
that can't be found again: after a crash of the service, `observe` says what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.task import ObservedTask, TaskSpec
from schedulearn.scheduler.runtimes.cuda_check import CudaCheck
from schedulearn.scheduler.runtimes.resources.contract import Resources
from schedulearn.scheduler.runtimes.terminals.contract import Terminals

OWN_ENVIRONMENT = "(the service's own environment)"
"""Where local processes run that need none of our environments; no image can have this name."""


@dataclass(frozen=True)
class ImageProgress:
    percent: float  # 0..100, never falling within one call
    message: str


@dataclass(frozen=True)
class Stored:
    name: str
    bytes: int


@dataclass(frozen=True)
class StoredImage(Stored):
    own_bytes: int = 0
    """Of layers that no other image has: what its removal frees."""
    own: bool = False
    """This service made it, of requirements over another image."""


@dataclass(frozen=True)
class Disk:
    """What takes room on a host."""

    images: tuple[StoredImage, ...] = ()
    """With their tags, whosever they are. Layers that several have count for each of them."""
    images_bytes: int = 0
    """Of all layers."""
    checkpoints: tuple[Stored, ...] = ()
    """By job, of this service."""
    outputs: tuple[Stored, ...] = ()
    """By job, of this service."""
    data: tuple[Stored, ...] = ()
    """By key, of this service; 0 bytes for what is linked."""


class FileKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"  # a socket, a device, a pipe: nothing that can be read


@dataclass(frozen=True)
class FileEntry:
    """One file of a job's folder, as it is there."""

    name: str
    kind: FileKind
    bytes: int = 0
    """Of a file; 0 for everything else."""
    modified_at: float = 0.0
    target: str = ""
    """Where a link leads, as the job sees it: relative to the link, or an absolute path."""


class Images(Protocol):
    """The images of one host, or its local environments."""

    def name_for(self, image: str, launcher: str) -> str:
        """The image that a job which names this one gets here, for all calls below: the same in an engine, while local
        processes have an environment for it, which may depend on the launcher."""
        ...

    def has(self, image: str) -> bool:
        """Whether `start` with this image, and its layer, could go ahead at once. Cheap: no network, no build."""
        ...

    def fetch(self, image: str) -> Iterator[ImageProgress]:
        """Pulls or builds the image, yielding progress at least every few seconds; returns when it is there.
        Raises ImageUnavailable with the reason if it can't be had."""
        ...

    def add_layer(self, image: str, requirements: Sequence[str]) -> Iterator[ImageProgress]:
        """Installs requirements over an image that is there; `image` is the name of both (core.job_image). Progress as
        of `fetch`; done already: at once. Raises ImageUnavailable with the installer's words."""
        ...

    def save(self, image: str) -> Iterator[bytes]:
        """The image as an archive that `load` of another host takes. Raises ImageUnavailable without it."""
        ...

    def load(self, archive: Iterable[bytes]) -> None:
        """Makes the image of such an archive present. An archive that breaks off leaves no image."""
        ...

    def remove(self, image: str) -> None:
        """Removes an image by its name; one that a container has, running or not, stays."""
        ...


@dataclass(frozen=True)
class StrayFile:
    """A file that goes with its task."""

    path: str
    """As the task saw it."""
    bytes: int


class FolderView(Protocol):
    """A look into one job's folder. A `path` is relative to it, has no `..`, and every part of it but the last is a
    folder: `scheduler/runtimes/paths.py` finds such a path by `stat`, where links are."""

    @property
    def seen_at(self) -> str:
        """The folder's path as the job sees it."""
        ...

    def stat(self, path: str) -> FileEntry | None:
        """What is at a path; a link is not followed. The empty path is the folder. None: nothing is there."""
        ...

    def entries(self, path: str, after: str, limit: int) -> Sequence[FileEntry]:
        """What is directly in a folder, by name: the first `limit` whose names come after `after`."""
        ...

    def read(self, path: str, size: int, offset: int, length: int) -> Iterator[bytes]:
        """`length` bytes of a file from `offset` on. Raises RuntimeFault if its size is not `size`, or it changes
        meanwhile so that they can't be had."""
        ...

    def pack(self, path: str) -> Iterator[bytes]:
        """A folder as a tar archive with names relative to it."""
        ...


class JobFolders(Protocol):
    """The folders of one kind, checkpoints or outputs, on one host, of jobs of this service. `Runtime.start` makes a
    job's folder, all attempts of the job share it, and its path is in their variable SCHEDULEARN_CHECKPOINT_DIR or
    SCHEDULEARN_OUTPUT_DIR."""

    def jobs(self) -> Sequence[str]:
        """Ids of the jobs that have a folder."""
        ...

    def drop(self, job_id: str) -> None:
        """Forgets a folder. Unknown job, or one whose task is still there: nothing happens."""
        ...

    def changed_at(self, job_id: str) -> float | None:
        """When a file came into the folder or left it, in seconds by the clock of the host; None without a folder."""
        ...

    def save(self, job_id: str) -> Iterator[bytes]:
        """The folder as a tar archive that `load` of another host takes; nothing without a folder. What is written to
        it meanwhile may be torn."""
        ...

    def load(self, job_id: str, archive: Iterable[bytes], *, keep: bool = False) -> None:
        """Makes the folder what such an archive holds, and nothing else. One that breaks off leaves no folder.
        With `keep`, what the folder has already stays, unless the archive has a file of the same name.
        Raises RuntimeFault while a task of the job that ran has it; one that never ran is removed."""
        ...

    def view(self, job_id: str) -> AbstractContextManager[FolderView | None]:
        """To look into a folder, while tasks of the job run and after. None without a folder."""
        ...


class SharedData(Protocol):
    """Data on one host that jobs of this service share, read-only, by key (`core.planning.shared_data`). It is there
    whole or not at all, also after a service was killed at any moment."""

    def all_keys(self) -> Sequence[str]:
        """What is there."""
        ...

    def has(self, key: str) -> bool:
        """Whether a task with it could start at once. Cheap."""
        ...

    def load(self, key: str, archives: Iterable[Iterable[bytes]], parts: Sequence[str] | None = None) -> None:
        """Makes it what these tar archives hold, later ones over earlier ones; without one it is empty. Is it there
        already, nothing happens. If one breaks off, it is not there.

        `parts`: a name for each archive, which tells its content. What came whole then stays when a later one breaks
        off, also when the service is killed, and the next call adds to what is `begun`."""
        ...

    def begun(self, key: str) -> Set[str]:
        """The parts that came whole before a `load` broke off. Without one, or if all of it is there: none."""
        ...

    def unfinished(self) -> Sequence[str]:
        """What was begun and is not there, whether or not it can be added to."""
        ...

    def link(self, key: str, job_id: str) -> None:
        """Makes it the outputs that a job has on this host, as they are there."""
        ...

    def drop(self, key: str) -> None:
        """Forgets it, whole or begun, if no task has it; what is linked stays. Unknown key: nothing happens."""
        ...

    def seen_at(self, key: str, target: str) -> str:
        """Where a task sees it that wants it at `target`."""
        ...


class Runtime(Protocol):
    """Every call is idempotent: start twice = once; stop or remove unknown = fine. Failures are `RuntimeFault`:
    `StartRefused` (and its child `ImageUnavailable`) where trying again can't help."""

    @property
    def images(self) -> Images: ...

    @property
    def checkpoints(self) -> JobFolders: ...

    @property
    def outputs(self) -> JobFolders: ...

    @property
    def terminals(self) -> Terminals: ...

    @property
    def data(self) -> SharedData: ...

    @property
    def resources(self) -> Resources: ...

    def cuda_check(self, image: Callable[[], str]) -> CudaCheck | None:
        """How it is found out whether CUDA works there, by the worker image that fits its GPUs; None: it can't be."""
        return None

    def survey(self) -> HostFacts:
        """Asks what the host is and what it lacks. Raises RuntimeFault if it does not answer, or can't be used."""
        ...

    def observe(self) -> Sequence[ObservedTask]:
        """All tasks of this service on this host, running or not, until `remove`d."""
        ...

    def disk(self) -> Disk:
        """What takes room there. May take long."""
        ...

    def start(self, task: TaskSpec) -> None:
        """Creates and starts the task, with all of its code in its directory, unless a task of this id exists (running
        or ended): then nothing happens, except that one that was created and never ran is started. Returns once the
        command runs.

        A command that can't be run is a task that has EXITED, as a shell would have it: with 127 when it was not
        found, 126 when it is not executable, and `error` says which. `start` raises nothing then; it raises
        StartRefused for a task that no try can start (bad words, a name that is taken, GPUs the host can't give, code
        that is gone),
        ImageUnavailable without its image or its data, and leaves nothing behind in both cases."""
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

    def stray_files(self, task_id: str) -> Sequence[StrayFile]:
        """What an ended task wrote to places that `remove` takes away, the largest first: not to its job's folders, and
        not what programs leave behind by themselves (`scheduler/runtimes/stray.py`). Bounded in number and time."""
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
