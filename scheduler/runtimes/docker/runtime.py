"""Runtime for tasks in containers of one Docker Engine.

The engine holds all state; names and labels identify the owner.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker.errors

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.job_image import layer_tag
from schedulearn.scheduler.core.outcomes.blame import Blame, Explained, of_start
from schedulearn.scheduler.core.task import EngineState, ObservedTask, TaskSpec, parse_task_id
from schedulearn.scheduler.core.topology import UNBOUND
from schedulearn.scheduler.errors import HostRefused, ImageUnavailable, RuntimeFault, StartRefused
from schedulearn.scheduler.runtimes.contract import Disk, UntrackedFile
from schedulearn.scheduler.runtimes.cuda_check import CudaCheck
from schedulearn.scheduler.runtimes.docker import disk as docker_disk
from schedulearn.scheduler.runtimes.docker import volumes as docker_volumes
from schedulearn.scheduler.runtimes.docker.api import Engine, explain, ping, status_of
from schedulearn.scheduler.runtimes.docker.code import put_code
from schedulearn.scheduler.runtimes.docker.container import (
    LABEL,
    SHELL,
    WORKSPACE,
    create_arguments,
    failed_to_start,
)
from schedulearn.scheduler.runtimes.docker.cuda_check import ContainerCheck
from schedulearn.scheduler.runtimes.docker.images import DockerImages
from schedulearn.scheduler.runtimes.docker.inspection import inspect
from schedulearn.scheduler.runtimes.docker.logs import Follower
from schedulearn.scheduler.runtimes.docker.states import ContainerStates
from schedulearn.scheduler.runtimes.docker.storage.job_volumes import JobVolumes
from schedulearn.scheduler.runtimes.docker.storage.shared_data import DataVolumes
from schedulearn.scheduler.runtimes.docker.storage.untracked_files import untracked_files
from schedulearn.scheduler.runtimes.docker.survey import survey
from schedulearn.scheduler.runtimes.docker.writable import WritableFolders
from schedulearn.scheduler.runtimes.log_store import DEFAULT_CAP, LogStore
from schedulearn.scheduler.runtimes.pinning import check_task
from schedulearn.scheduler.runtimes.resources.docker import DockerResources
from schedulearn.scheduler.runtimes.terminals.docker import DockerTerminals
from schedulearn.scheduler.runtimes.workspace import check_code

__all__ = ["DockerRuntime", "ping"]

LOG_S = 30.0  # maximum wait for the rest of a log, once its container has ended
SETTLE_S = 1.0  # time for a start that a crashed service requested to take effect
_BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0)

# The patterns below match error messages of an engine.
# A command that can't be run, if the engine does not leave running it to the container's init.
_BAD_COMMAND = re.compile(r"executable file not found|exec: .*(no such file or directory|permission denied)", re.I)
# Processors or memory nodes that its containers can't have: the engine may have fewer than the machine.
_NOT_ITS_NODE = re.compile(r"cpuset|requested (cpus|memory nodes) are not available", re.I)
# Missing device files, and a toolkit that only the nvidia runtime knows.
_NO_FILE = re.compile(r"error gathering device information", re.I)
_NO_REQUESTS = re.compile(r"could not select device driver", re.I)
# An engine that may not raise limits, for example because it runs in a container.
_NO_LIMITS = re.compile(r"error setting rlimit", re.I)


class DockerRuntime:
    """`Runtime` of one Docker Engine.

    `url` and `tls` are those of docker_api.Engine. Containers of another `cluster_id` are left alone. Output is copied
    to `data_dir`/logs, with at most `log_cap_bytes` per task. The engine itself keeps about as much until `remove`. The
    constructor opens no connection.
    """

    def __init__(
        self,
        host_id: str,
        url: str | None,
        data_dir: Path,
        cluster_id: str,
        *,
        tls: Path | None = None,
        log_cap_bytes: int = DEFAULT_CAP,
    ) -> None:
        self.host_id = host_id
        self._cluster_id = cluster_id
        self._log_store = LogStore(data_dir.absolute() / "logs", log_cap_bytes)
        self._log_store.root.mkdir(parents=True, exist_ok=True)
        self._engine = Engine(url, tls)
        self._sdk = docker_volumes.SdkVolume()
        self._writable = WritableFolders(self._engine)
        self._closed = threading.Event()
        self.images = DockerImages(self._engine, self._closed, cluster_id)
        self.checkpoints = JobVolumes(self._engine, docker_volumes.CHECKPOINTS, LABEL, cluster_id)
        self.outputs = JobVolumes(self._engine, docker_volumes.OUTPUTS, LABEL, cluster_id)
        self.terminals = DockerTerminals(self._engine, self._find, f"{LABEL}={cluster_id}")
        self.data = DataVolumes(self._engine, LABEL, cluster_id)
        self.resources = DockerResources(self._engine, data_dir)
        self._lock = threading.Lock()
        self._starting: dict[str, threading.Lock] = {}
        self._followers: dict[str, Follower] = {}
        self._states = ContainerStates(lambda task_id, container: inspect(self._engine, task_id, container))
        self._killed: set[str] = set()
        """Containers that got a signal from the engine, but not from us: docker kill, docker stop, engine shutdown."""
        self._stopping: set[str] = set()
        self._info: Mapping[str, Any] | None = None
        self._shells: dict[str, bool] = {}
        """Image id -> whether the image has a shell."""

    def cuda_check(self, image: Callable[[], str]) -> CudaCheck:
        return ContainerCheck(self.host_id, self._engine, self._cluster_id, image)

    def survey(self) -> HostFacts:
        return survey(self._engine)

    def observe(self) -> Sequence[ObservedTask]:
        self._states.begin()
        with self._engine.errors("list its containers"):
            rows = self._engine.api.containers(all=True, filters={"label": f"{LABEL}={self._cluster_id}"})
        tasks = []
        for row in rows:
            task_id = row["Names"][0].removeprefix("/") if row["Names"] else ""
            if parse_task_id(task_id) is None:
                continue  # belongs to this service, but is no task, for example a probe
            task = self._states.look(task_id, str(row["Id"]), str(row["State"]))
            if task is None:
                continue
            if task.state is not EngineState.CREATED:
                self._follow(task_id, row["Id"])
            if (
                task.state is EngineState.EXITED
                and task.exit_code
                and not task.oom_killed
                and row["Id"] in self._killed
            ):
                task = replace(task, state=EngineState.LOST, error="its container was killed from outside")
            tasks.append(task)
        listed = {str(row["Id"]) for row in rows}
        self._states.keep(listed)
        with self._lock:
            self._killed &= listed
        return sorted(tasks, key=lambda task: task.task_id)

    def disk(self) -> Disk:
        return docker_disk.disk(self._engine, LABEL, self._cluster_id)

    def start(self, task: TaskSpec) -> None:
        check_task(task)
        check_code(task)
        task = replace(task, image=layer_tag(task.image))
        # One thread per task: a second `start` request that reaches the engine after a short command has ended would
        # run the command again.
        with self._only_one(task.task_id), self._engine.errors(f"start {task.task_id}"), self._refusals(task):
            task = self._writable.as_its_attempt(task, self._cluster_id)
            while True:
                try:
                    container = self._begin(task)
                    break
                except docker.errors.APIError as error:
                    if (less := with_less(task, explain(error))) is None:
                        raise
                    if (made := self._find(task.task_id)) is not None:
                        self._engine.api.remove_container(made["Id"], v=True, force=True)
                    task = less
            if container is not None:
                self._follow(task.task_id, container)

    def stop(self, task_id: str, grace_s: float) -> None:
        """Ask the container to end. Docker kills it after `grace_s`."""
        with self._engine.errors(f"stop {task_id}"):
            container = self._find(task_id)
            if container is None:
                return
            self._stopping.add(str(container["Id"]))
            self._set_paused(container, False)
            try:
                self._engine.api.stop(container["Id"], timeout=math.ceil(max(0.0, grace_s)))
            except docker.errors.NotFound:
                return

    def pause(self, task_id: str) -> None:
        with self._engine.errors(f"pause {task_id}"):
            self._set_paused(self._find(task_id), True)

    def resume(self, task_id: str) -> None:
        with self._engine.errors(f"resume {task_id}"):
            container = self._find(task_id)
            self._set_paused(container, False)
            if container is not None:
                self.terminals.resumed(str(container["Id"]))

    def remove(self, task_id: str) -> None:
        with self._engine.errors(f"remove {task_id}"):
            container = self._find(task_id)
            if container is None:
                return
            self._stopping.add(str(container["Id"]))
            self._set_paused(container, False)
            try:
                with suppress(docker.errors.APIError):  # a container that can't be stopped may still be removable
                    self._engine.api.stop(container["Id"], timeout=0)
                if container["State"]["Status"] not in ("created", "dead"):
                    self._complete_log(task_id, container["Id"])
                self._engine.api.remove_container(container["Id"], v=True, force=True)
            except docker.errors.NotFound:
                pass
            except docker.errors.APIError as error:
                if status_of(error) != 409:  # its removal is already in progress
                    raise
            self._stopping.discard(str(container["Id"]))
        with self._lock:
            self._starting.pop(task_id, None)
            self._followers.pop(task_id, None)

    def untracked_files(self, task_id: str) -> Sequence[UntrackedFile]:
        with self._engine.errors(f"inspect {task_id}"):
            container = self._find(task_id)
        return untracked_files(self._engine, container) if container is not None else ()

    def logs(self, task_id: str, follow: bool) -> Iterator[bytes]:
        if parse_task_id(task_id) is None:
            return
        if not self._log_store.ended(task_id):
            try:
                with self._engine.errors("find a container"):
                    container = self._find(task_id)
            except RuntimeFault:
                container = None  # the part of the log that was copied before can still be read
            if container is not None:
                self._log_store.path(task_id).mkdir(exist_ok=True)
                follower = self._follow(task_id, container["Id"])
                if follower is not None and not follow and container["State"]["Status"] == "exited":
                    follower.join(LOG_S)

        def stopped() -> bool:
            with self._lock:
                follower = self._followers.get(task_id)
            return not follow or self._closed.is_set() or follower is None or not follower.is_alive()

        yield from self._log_store.follow(task_id, stopped=stopped)

    def watch(self) -> Iterator[bool]:
        """Implement `Runtime.watch`.

        It also yields after each connect or reconnect, since earlier events were missed, and when the connection
        breaks."""
        filters = {
            "type": ["container"],
            "label": [f"{LABEL}={self._cluster_id}"],
            "event": ["create", "start", "kill", "die", "destroy", "oom", "pause", "unpause"],
        }
        failures = 0
        while not self._closed.is_set():
            try:
                with (
                    self._engine.errors("watch its containers"),
                    self._engine.stream("GET", "/events", params={"filters": json.dumps(filters)}) as stream,
                ):
                    failures = 0
                    self._info = None  # the engine may have been replaced
                    self._states.missed_events()
                    yield False
                    for event in stream.objects():
                        if self._closed.is_set():
                            return
                        self._note(str(event["Actor"]["ID"]), str(event["Action"]))
                        yield False
            except (RuntimeFault, OSError):
                pass
            if self._closed.is_set():
                return
            yield True
            if self._closed.wait(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)]):
                return
            failures += 1

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            followers = list(self._followers.values())
        for follower in followers:
            follower.stop()
        self._engine.close()
        for follower in followers:
            follower.join(5)

    def _note(self, container: str, event: str) -> None:
        self._states.changed(container, event)
        with self._lock:
            if event == "kill" and container not in self._stopping:
                self._killed.add(container)

    def _begin(self, task: TaskSpec) -> str | None:
        """Create and start the task's container. Returns its id, or None if it was started before."""
        container = self._create(task)
        if container is not None:
            self._open_folders(task, container)
            if task.code:
                put_code(self._engine.api, container, Path(task.code), apart=task.run_as is not None)
            self._run(task, container)
        return container

    def _create(self, task: TaskSpec) -> str | None:
        """Create the task's container; return its id, or None if it was started before."""
        api = self._engine.api
        if self._info is None and task.gpu_uuids:
            self._info = api.info()
        try:
            image = docker_volumes.image_settings(api.inspect_image(task.image))
            self._sdk.ensure(api, task.image)
            volumes = self._data_of(task)
            if task.writable:
                self._writable.check(task, image)
            arguments = (api, task, self._cluster_id, self._info or {}, image.python_path, volumes)
            container = str(api.create_container(**create_arguments(*arguments))["Id"])
            if not self._has_shell(container, image.id):
                api.remove_container(container, v=True, force=True)
                container = str(api.create_container(**create_arguments(*arguments, shell=False))["Id"])
            self._check_data(task, container)
            if task.writable or task.image_id:
                self._check_image(task, api.inspect_container(container), task.image_id or image.id)
            return container
        except docker.errors.APIError as error:
            match status_of(error):
                case 404:
                    raise ImageUnavailable(f"image {task.image!r} is not on {self.host_id}: fetch it first") from error
                case 409:
                    return self._adopt(task)
                case 400 if self._cause(task, words := explain(error)) is None and not _NOT_ITS_NODE.search(words):
                    raise StartRefused(f"{self.host_id} refuses {task.task_id}: {explain(error)}") from error
            raise

    def _check_image(self, task: TaskSpec, container: Mapping[str, Any], image_id: str) -> None:
        """Raise RuntimeFault, and remove the container, if it was made from another image than the one checked."""
        if container["Image"] != image_id:
            self._engine.api.remove_container(container["Id"], v=True, force=True)
            raise RuntimeFault(f"image {task.image!r} on {self.host_id} changed during the start: try again")

    def _has_shell(self, container: str, image: str) -> bool:
        """Whether an image has a shell, checked in one of its containers."""
        if image not in self._shells:
            try:
                content, _ = self._engine.api.get_archive(container, SHELL)
                content.close()
                self._shells[image] = True
            except docker.errors.NotFound:
                self._shells[image] = False
        return self._shells[image]

    def _open_folders(self, task: TaskSpec, container: str) -> None:
        """Make the job's folders writable for the container's user, unless that user is root."""
        user = str(self._engine.api.inspect_container(container)["Config"].get("User") or "")
        if user.partition(":")[0] not in ("", "0", "root"):
            own = [docker_volumes.CHECKPOINTS_PATH, docker_volumes.OUTPUTS_PATH, *([WORKSPACE] if task.code else [])]
            docker_volumes.open_to(self._engine.api, container, task.run_as, own)

    def _data_of(self, task: TaskSpec) -> dict[str, str]:
        """Return path in the container -> volume. Raises ImageUnavailable for missing data."""
        found = {target: self.data.volume_of(key) for target, key in task.data.items()}
        for target, volume in found.items():
            if volume is None:
                raise ImageUnavailable(f"the data for {target} is not on {self.host_id}: fetch it first")
        return {target: volume for target, volume in found.items() if volume is not None}

    def _check_data(self, task: TaskSpec, container: str) -> None:
        """Check the task's data again after its container was created.

        Data that was removed meanwhile would appear as an empty volume. Volumes that a container has are not removed.
        """
        try:
            self._data_of(task)
        except ImageUnavailable:
            self._engine.api.remove_container(container, v=True, force=True)
            raise

    def _adopt(self, task: TaskSpec) -> str | None:
        """Return the id of an existing container that must still be started, or None.

        A container of the task's name exists. If it is ours and was never started, a service died before or during its
        start. Raises StartRefused for a container that is not ours."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            try:
                found = self._engine.api.inspect_container(task.task_id)
            except docker.errors.NotFound as error:
                raise RuntimeFault(f"{task.task_id} is being removed from {self.host_id}: try again") from error
            owner = (found["Config"].get("Labels") or {}).get(LABEL)
            if owner != self._cluster_id:
                whose = f"belongs to another Schedulearn, {owner}" if owner else "does not belong to Schedulearn"
                raise StartRefused(
                    f"{self.host_id} already has a container {task.task_id} (id {found['Id'][:12]}), which {whose}: "
                    "rename or remove it"
                )
            if found["State"]["Status"] != "created" or failed_to_start(found):
                return None
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if found["Config"]["Entrypoint"] != list(task.argv) and not self._has_shell(found["Id"], found["Image"]):
            self._engine.api.remove_container(found["Id"], v=True, force=True)
            raise RuntimeFault(f"{task.task_id} was created for an image with a shell; it is created again")
        if task.image_id:
            self._check_image(task, found, task.image_id)
        return str(found["Id"])

    def _run(self, task: TaskSpec, container: str) -> None:
        try:
            self._engine.api.start(container)
        except docker.errors.APIError as error:
            words = explain(error)
            # A container whose command can't run stays, and is observed as exited with 126 or 127.
            if self._cause(task, words) is not None or not _BAD_COMMAND.search(words):
                raise

    @contextmanager
    def _refusals(self, task: TaskSpec) -> Iterator[None]:
        """Convert errors that a retry can't fix into StartRefused, and remove the container."""
        try:
            yield
        except docker.errors.APIError as error:
            found = self._cause(task, explain(error))
            if found is None:
                raise
            if (made := self._find(task.task_id)) is not None:
                self._engine.api.remove_container(made["Id"], v=True, force=True)
            if found.cause.blame is Blame.USER:
                raise StartRefused(f"{task.task_id} can't start: {found.sentence}") from error
            raise HostRefused(found.sentence, found.cause.blame) from error

    def _cause(self, task: TaskSpec, words: str) -> Explained | None:
        """Return the known cause of a failed start from its message, or None.

        For a task without GPUs only faults of the user count, since it needs nothing from NVIDIA."""
        found = of_start(words, self.host_id)
        return found if found is None or task.gpu_uuids or found.cause.blame is Blame.USER else None

    def _find(self, task_id: str) -> Mapping[str, Any] | None:
        """Return the inspected container of this service with this name."""
        if parse_task_id(task_id) is None:
            return None
        try:
            found: Mapping[str, Any] = self._engine.api.inspect_container(task_id)
        except docker.errors.NotFound:
            return None
        except docker.errors.APIError:
            return self._listed(task_id)
        return found if (found["Config"].get("Labels") or {}).get(LABEL) == self._cluster_id else None

    def _listed(self, task_id: str) -> Mapping[str, Any] | None:
        """Do the same as `_find` for a container that can't be inspected, from the engine's list. Raises APIError."""
        filters = {"label": f"{LABEL}={self._cluster_id}", "name": f"^/{task_id}$"}
        for row in self._engine.api.containers(all=True, filters=filters):
            return {"Id": row["Id"], "State": {"Status": row["State"]}, "Config": {"Labels": row["Labels"]}}
        return None

    def _set_paused(self, container: Mapping[str, Any] | None, paused: bool) -> None:
        if container is None or container["State"]["Status"] != ("running" if paused else "paused"):
            return
        try:
            (self._engine.api.pause if paused else self._engine.api.unpause)(container["Id"])
        except docker.errors.NotFound:
            pass
        except docker.errors.APIError as error:
            if status_of(error) != 409:  # it has just ended, or its state was changed by another client
                raise

    def _follow(self, task_id: str, container: str) -> Follower | None:
        """Make sure that the container's output is being copied. None if the copy is complete."""
        with self._lock:
            follower = self._followers.get(task_id)
            if (follower is not None and follower.is_alive()) or self._closed.is_set():
                return follower
            if self._log_store.ended(task_id):
                self._followers.pop(task_id, None)
                return None
            follower = Follower(self._engine, self._log_store, task_id, container)
            self._followers[task_id] = follower
            follower.start()
            return follower

    def _complete_log(self, task_id: str, container: str) -> None:
        follower = self._follow(task_id, container)
        if follower is not None:
            follower.join(LOG_S)

    @contextmanager
    def _only_one(self, task_id: str) -> Iterator[None]:
        with self._lock:
            lock = self._starting.setdefault(task_id, threading.Lock())
        with lock:
            yield


def with_less(task: TaskSpec, words: str) -> TaskSpec | None:
    """Return the task without the optional feature that caused this error. None if there is none."""
    if task.binding != UNBOUND and _NOT_ITS_NODE.search(words):
        return replace(task, binding=UNBOUND)
    if task.device_files and _NO_FILE.search(words):
        return replace(task, device_files=())
    if task.gpu_request and _NO_REQUESTS.search(words):
        return replace(task, gpu_request=False)
    if task.raise_limits and _NO_LIMITS.search(words):
        return replace(task, raise_limits=False)
    return None
