"""Interface of an execution engine, and its data types.

Docker Engine, local processes and the tests' fake implement `Runtime` with its `Images`, `JobFolders` and `SharedData`.
One conformance suite (tests/runtimes/) checks all of them against this interface. A runtime serves one host. It keeps
no state that it can't recover: after a crash of the service, `observe` returns the existing tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.task import ObservedTask, TaskSpec
from schedulearn.scheduler.runtimes.cuda_check import CudaCheck
from schedulearn.scheduler.runtimes.resources.contract import Resources
from schedulearn.scheduler.runtimes.terminals.contract import Terminals

OWN_ENVIRONMENT = "(the service's own environment)"
"""Name for local processes that need none of our environments. No image can have this name."""


@dataclass(frozen=True)
class FetchProgress:
    percent: float  # 0..100, never falling within one call
    message: str


@dataclass(frozen=True)
class RegistryLogin:
    registry: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class ListedImage:
    names: tuple[str, ...]
    """Names by tag and by digest."""
    base: str = ""
    """Id of the image below its layer with requirements, if it has one."""


@dataclass(frozen=True)
class Stored:
    name: str
    bytes: int


@dataclass(frozen=True)
class StoredImage(Stored):
    own_bytes: int = 0
    """Size of the layers that no other image has: the space its removal frees."""
    own: bool = False
    """True if this service built it, by installing requirements on top of another image."""


@dataclass(frozen=True)
class Disk:
    """Disk usage on a host."""

    images: tuple[StoredImage, ...] = ()
    """All tagged images, also those of other owners. Shared layers count for each image that has them."""
    images_bytes: int = 0
    """Size of all layers."""
    checkpoints: tuple[Stored, ...] = ()
    """This service's checkpoints, by job."""
    outputs: tuple[Stored, ...] = ()
    """This service's outputs, by job."""
    data: tuple[Stored, ...] = ()
    """This service's shared data, by key; linked data counts 0 bytes."""


class FileKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"  # a socket, a device or a pipe, which can't be read


@dataclass(frozen=True)
class FileEntry:
    """One directory entry of a job's folder."""

    name: str
    kind: FileKind
    bytes: int = 0
    """Size of a file; 0 for every other kind."""
    modified_at: float = 0.0
    target: str = ""
    """Target of a link, as the job sees it: relative to the link, or an absolute path."""


class Images(Protocol):
    """The images of one host, or its local environments."""

    def name_for(self, image: str, launcher: str) -> str:
        """Return the name to pass to the calls below for a job that names `image`.

        An engine returns the same name. Local processes return the name of an environment, which may depend on the
        launcher."""
        ...

    def has(self, image: str) -> bool:
        """Whether `start` could use this image and its layer at once. Cheap: no network, no build."""
        ...

    def identify(self, image: str) -> tuple[str, ...]:
        """Return the id of an image, then the ids of the images that its layers with requirements rest on.

        Empty: it is not there. Local environments are their own ids."""
        ...

    def listed(self) -> Mapping[str, ListedImage]:
        """Return all images of an engine by id."""
        ...

    def fetch(self, image: str, login: RegistryLogin | None = None) -> Iterator[FetchProgress]:
        """Pull or build the image; yield progress at least every few seconds, return when it is there.

        Without `login`, the logins of the service's own user apply. Raises ImageUnavailable with the reason if the
        image can't be pulled or built."""
        ...

    def confirm(self, image: str, login: RegistryLogin | None = None) -> None:
        """Ask the registry of an image whether it may be read, also if it is here; `login` as for `fetch`.

        Raises ImageUnavailable if the registry refuses, RuntimeFault if it can't be asked."""
        ...

    def check_login(self, login: RegistryLogin) -> str:
        """Ask the registry whether it accepts a login, and return its refusal; empty: it accepts.

        Raises RuntimeFault if the registry can't be asked."""
        ...

    def add_layer(self, image: str, requirements: Sequence[str]) -> Iterator[FetchProgress]:
        """Install requirements on top of an image that is there; `image` names both (core.job_image).

        Yields progress as `fetch` does. Returns at once if the layer exists. Raises ImageUnavailable with the
        installer's message."""
        ...

    def save(self, image: str) -> Iterator[bytes]:
        """Return the image as an archive for `load` on another host.

        Raises ImageUnavailable if the image is not there."""
        ...

    def load(self, archive: Iterable[bytes]) -> None:
        """Load the image from an archive made by `save`. A truncated archive leaves no image."""
        ...

    def remove(self, image: str) -> None:
        """Remove an image by its name. An image stays while any container, running or not, uses it."""
        ...


@dataclass(frozen=True)
class UntrackedFile:
    """Untracked file, which is deleted together with its task."""

    path: str
    """Path as the task saw it."""
    bytes: int


class FolderView(Protocol):
    """Read-only view of one job's folder.

    A `path` is relative to the folder and has no `..`. Every part of it except the last is a folder, not a link:
    `scheduler/runtimes/paths.py` resolves links by `stat` first."""

    @property
    def seen_at(self) -> str:
        """Path of the folder as the job sees it."""
        ...

    def stat(self, path: str) -> FileEntry | None:
        """Return the entry at a path, or None if there is none. Links are not followed.

        The empty path is the folder itself."""
        ...

    def entries(self, path: str, after: str, limit: int) -> Sequence[FileEntry]:
        """List a folder's direct entries by name: the first `limit` whose names sort after `after`."""
        ...

    def read(self, path: str, size: int, offset: int, length: int) -> Iterator[bytes]:
        """Yield `length` bytes of a file, starting at `offset`.

        Raises RuntimeFault if the file's size is not `size`, or if it becomes too short while it is read."""
        ...

    def pack(self, path: str) -> Iterator[bytes]:
        """Return a folder as a tar archive with names relative to it."""
        ...


class JobFolders(Protocol):
    """Folders of one kind (checkpoints or outputs) of this service's jobs on one host.

    `Runtime.start` makes a job's folder, and all attempts of the job share it. Its path is in their variable
    SCHEDULEARN_CHECKPOINT_DIR or SCHEDULEARN_OUTPUT_DIR."""

    def jobs(self) -> Sequence[str]:
        """Ids of the jobs that have a folder."""
        ...

    def drop(self, job_id: str) -> None:
        """Delete a job's folder. Does nothing for an unknown job, or while a task of the job exists."""
        ...

    def changed_at(self, job_id: str) -> float | None:
        """Return when a file was last added to or removed from the folder.

        The time is in seconds since the epoch, by the clock of the host. None without a folder."""
        ...

    def save(self, job_id: str) -> Iterator[bytes]:
        """Return the folder as a tar archive for `load` on another host.

        It is empty without a folder. Files that are written meanwhile may be inconsistent in the archive."""
        ...

    def load(self, job_id: str, archive: Iterable[bytes], *, keep: bool = False) -> None:
        """Replace the folder with the content of an archive made by `save`.

        A truncated archive leaves no folder. With `keep`, existing files stay unless the archive has a file of the
        same name. Raises RuntimeFault if a task of the job that ran still exists. Removes tasks that never ran."""
        ...

    def view(self, job_id: str) -> AbstractContextManager[FolderView | None]:
        """Open a view of a folder, while tasks of the job run or afterwards. None without a folder."""
        ...


class SharedData(Protocol):
    """Read-only data on one host that this service's jobs share, by key (`core.needs`).

    An entry is complete or absent, even if a service is killed at any moment."""

    def all_keys(self) -> Sequence[str]:
        """Keys of the complete entries."""
        ...

    def has(self, key: str) -> bool:
        """Whether a task that uses the entry could start at once. Cheap."""
        ...

    def load(self, key: str, archives: Iterable[Iterable[bytes]], parts: Sequence[str] | None = None) -> None:
        """Create the entry from tar archives; later archives overwrite files of earlier ones.

        Without archives the entry is empty. Does nothing if the entry exists. If an archive is truncated, the entry is
        absent.

        `parts` gives each archive a name, which identifies its content. Complete archives are then kept if a later one
        is truncated or the service is killed. The next call adds to the parts that `begun` returns."""
        ...

    def begun(self, key: str) -> Set[str]:
        """Return the complete parts of an interrupted `load`.

        Empty if no `load` was interrupted, or if the entry is complete."""
        ...

    def unfinished(self) -> Sequence[str]:
        """Keys of interrupted loads, whether or not they can be resumed."""
        ...

    def link(self, key: str, job_id: str) -> None:
        """Make the entry a link to a job's outputs on this host."""
        ...

    def drop(self, key: str) -> None:
        """Delete an entry, complete or partial, if no task uses it.

        The target of a link stays. Does nothing for an unknown key."""
        ...

    def seen_at(self, key: str, target: str) -> str:
        """Return the path at which a task sees the entry when it asks for `target`."""
        ...


class Runtime(Protocol):
    """Execution engine of one host.

    Every call is idempotent: a second `start` does nothing, and `stop` or `remove` of an unknown task succeeds.
    Failures raise `RuntimeFault`. Its subclass `StartRefused` (and `ImageUnavailable` below it) means that a retry
    can't help."""

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
        """Return the CUDA check of the host, or None.

        `image` returns the worker image that fits its GPUs."""
        return None

    def survey(self) -> HostFacts:
        """Return the host's properties and what it lacks.

        Raises RuntimeFault if the host does not answer, or can't be used."""
        ...

    def observe(self) -> Sequence[ObservedTask]:
        """Return this service's tasks on this host, running or not, until they are removed."""
        ...

    def disk(self) -> Disk:
        """Measure the disk usage. May take long."""
        ...

    def start(self, task: TaskSpec) -> None:
        """Create and start the task; return once the command runs.

        All of its code is in its directory then. If a task of this id exists (running or ended), nothing happens. An
        existing task that never ran is started.

        If the command can't be run, the task is EXITED with a shell's exit code. The code is 127 if the command was not
        found, and 126 if it is not executable. `error` says which, and `start` raises nothing.

        Raises StartRefused if no retry can start the task. Reasons are invalid arguments, a name that is taken, GPUs
        that the host can't provide, or missing code. Raises ImageUnavailable if the image or the data is missing. Both
        leave nothing behind."""
        ...

    def stop(self, task_id: str, grace_s: float) -> None:
        """Stop the task: SIGTERM to the command's process group, SIGKILL to everything after `grace_s`.

        Returns when the task has ended; it ends as soon as its command does. A paused task is resumed first, because it
        could not handle the signal. A task that never ran stays CREATED."""
        ...

    def pause(self, task_id: str) -> None:
        """Suspend all processes of a running task, and return when they are suspended.

        They keep their memory, also on the GPU. Does nothing if the task does not run."""
        ...

    def resume(self, task_id: str) -> None:
        """Resume the processes of a paused task."""
        ...

    def remove(self, task_id: str) -> None:
        """Remove an ended task. Its logs stay readable.

        A running task is killed first, without a grace period."""
        ...

    def untracked_files(self, task_id: str) -> Sequence[UntrackedFile]:
        """Return the untracked files of an ended task, which `remove` deletes, largest first.

        Files in the job's folders are not included, nor files that programs leave behind by themselves
        (`scheduler/runtimes/untracked.py`). Number and time are limited."""
        ...

    def logs(self, task_id: str, follow: bool) -> Iterator[bytes]:
        """Yield stdout and stderr in order, from the earliest byte kept.

        With `follow` it ends when the task ends; for an unknown task it ends at once. Logs are rotated and capped, so
        the earliest bytes may be gone."""
        ...

    def watch(self) -> Iterator[bool]:
        """Yield once at first, then soon after any task of this host changes its state.

        It may also yield without a change. It blocks in between, and ends after `close`. Each call has one consumer;
        any number of calls may run. True means that the connection to the engine broke. The engine may have ended
        then, and its tasks with it."""
        ...

    def close(self) -> None:
        """Release connections and threads; the tasks keep running."""
        ...
