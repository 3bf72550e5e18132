"""Checks for host folders that a job may write to.

An engine runs as root, and must create nothing in these folders. It creates the folders that an image or a container
names before the job's own user applies. The image's links may redirect such a path. Each path is therefore resolved in
the image first, without any folder of the host.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath

from schedulearn.scheduler.core.task import RunAs, TaskSpec
from schedulearn.scheduler.errors import StartRefused
from schedulearn.scheduler.runtimes.contract import FileEntry, FileKind
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.container import LABEL, WORKSPACE
from schedulearn.scheduler.runtimes.docker.storage.volume_view import VolumeView
from schedulearn.scheduler.runtimes.docker.volumes import CHECKPOINTS_PATH, OUTPUTS_PATH, SDK_PATH, ImageSettings

_OF_ENGINES = (
    "/bin", "/dev", "/dev/mqueue", "/dev/pts", "/dev/shm", "/etc", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf",  # noqa: S108
    "/lib", "/proc", "/run", "/sbin", "/sbin/docker-init", "/sys", "/usr/bin", "/usr/lib", "/usr/lib64",
    "/usr/lib/aarch64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/sbin",
)  # fmt: skip
"""Paths at which engines and their runtimes create files in every container."""
_GROUPS = "etc/group"
_MAX_GROUPS = 1 << 20
_MAX_KNOWN = 1000


class WritableFolders:
    """Checks of writable host folders on one engine. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._known: dict[tuple[str, ...], str] = {}
        """Image, paths and groups -> problem; empty if there is none."""

    def as_its_attempt(self, task: TaskSpec, cluster_id: str) -> TaskSpec:
        """Return the task with the account of its attempt's tasks that run here.

        They share folders, even if the account of the user has changed meanwhile."""
        if task.run_as is None:
            return task
        labels = {LABEL: cluster_id, "schedulearn.job": task.job_id, "schedulearn.attempt": str(task.attempt)}
        filters = {"label": [f"{name}={value}" for name, value in labels.items()], "status": ["running", "paused"]}
        for row in self._engine.api.containers(filters=filters):
            made = self._engine.api.inspect_container(row["Id"])
            uid, _, gid = str(made["Config"].get("User") or "").partition(":")
            if uid.isdigit() and gid.isdigit():
                gids = tuple(map(int, made["HostConfig"].get("GroupAdd") or ()))
                return replace(task, run_as=RunAs(task.run_as.user, int(uid), int(gid), gids))
        return task

    def check(self, task: TaskSpec, image: ImageSettings) -> None:
        """Raise StartRefused if the engine would create a path inside a writable folder of the task."""
        writable = sorted(task.writable)
        places = {*_OF_ENGINES, SDK_PATH, CHECKPOINTS_PATH, OUTPUTS_PATH, WORKSPACE, *image.places}
        places |= task.data.keys() | task.mounts.keys()
        groups = {str(number) for number in (task.run_as.gid, *task.run_as.gids)} if task.run_as is not None else set()
        key = (image.id, *writable, "", *sorted(places), "", *sorted(groups))
        with self._lock:
            problem = self._known.get(key)
        if problem is None:
            problem = self._problem(task.image, writable, places, groups)
            with self._lock:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known[key] = problem
        if problem:
            raise StartRefused(f"image {task.image} {problem}", field="mounts")

    def _problem(self, image: str, writable: list[str], places: set[str], groups: set[str]) -> str:
        """Return the problem of an image with these folders; empty if there is none."""
        api = self._engine.api
        helper = api.create_container(image, ["true"], entrypoint=[])["Id"]  # never started
        try:
            view = VolumeView(self._engine, helper, "")
            real = {place: resolved(place, view.stat) for place in sorted({*places, *writable})}
            if problem := _problem_of_groups(view, groups):
                return problem
        finally:
            api.remove_container(helper, v=True, force=True)
        for folder in writable:
            for place in sorted(places):
                if place != folder and real[place].is_relative_to(real[folder]):
                    return (
                        f"has {place} in {folder}, which the job may write, and the engine would write there as root: "
                        "mount the folder elsewhere"
                    )
        return ""


def resolved(place: str, stat: Callable[[str], FileEntry | None]) -> PurePosixPath:
    """Resolve the links of a path in an image, as far as it exists."""
    done = PurePosixPath("/")
    for name in PurePosixPath(place).parts[1:]:
        done /= name
        found = stat(str(done).removeprefix("/"))
        if found is not None and found.kind is FileKind.LINK:
            done = PurePosixPath(found.target)  # an engine follows links to their end
    return done


def _problem_of_groups(view: VolumeView, numbers: set[str]) -> str:
    """Return a problem if the image has a group with one of these numbers as its name, else empty.

    An engine looks up a group's number as a name first, in the image's group file."""
    found = view.stat(_GROUPS)
    if found is None and resolved(f"/{_GROUPS}", view.stat) == PurePosixPath(f"/{_GROUPS}"):
        return ""
    if found is None or found.kind is not FileKind.FILE or found.bytes > _MAX_GROUPS:
        return f"needs a plain file /{_GROUPS} of at most {_MAX_GROUPS >> 20} MiB, in which the engine looks up groups"
    text = b"".join(view.read(_GROUPS, found.bytes, 0, found.bytes)).decode("latin-1") if found.bytes else ""
    names = {line.partition(":")[0].strip() for line in text.split("\n")}
    if taken := sorted(names & numbers):
        return (
            f"has a group with the number {taken[0]!r} as its name in /{_GROUPS}, which the engine would confuse "
            "with the job's group: remove it"
        )
    return ""
