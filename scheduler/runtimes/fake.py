"""A runtime in memory, for tests of whatever drives a `Runtime`: nothing runs, and nothing happens by itself.

runtime = FakeRuntime("host-1", images={"torch"})
runtime.start(task)
runtime.finish(task.task_id, 0)
runtime.check()
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.task import GIB, ObservedTask, TaskSpec, TaskState
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.runtimes.contract import Disk, ImageProgress, Stored, StoredImage
from schedulearn.scheduler.runtimes.pinning import check_task, complete_env


@dataclass
class _Task:
    spec: TaskSpec
    seen: ObservedTask
    log: bytearray = field(default_factory=bytearray)


class FakeRuntime:
    """Keeps to the contract of `Runtime`, thread-safe. `clock` gives the times of tasks.

    `images` are present; None: all are. `fetchable` maps further images to the progress that fetching them yields, or
    to the error that it raises. A stopped task ends at once with `stop_code`; a test that sets `stubborn` ends it
    itself, by `finish`. While it is `silent` every call fails, and what runs runs on. `calls` lists what was asked,
    as (method, argument).
    """

    def __init__(
        self,
        host_id: str = "fake",
        *,
        images: set[str] | None = None,
        fetchable: Mapping[str, Iterable[ImageProgress] | RuntimeFault] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.host_id = host_id
        self.images = images
        self.fetchable = dict(fetchable or {})
        self.facts = HostFacts(f"fake {host_id}")
        self.stop_code = 143
        self.stubborn = False
        self.silent = False
        self.calls: list[tuple[str, str]] = []
        self._clock = clock
        self._tasks: dict[str, _Task] = {}
        self._logs: dict[str, bytearray] = {}  # of removed tasks
        self._checkpoints: dict[str, tuple[float, bytes]] = {}  # job id -> when it changed, what is in it
        self._failures: dict[str, deque[RuntimeFault]] = {}
        self._starts: dict[str, int] = {}
        self._changed = threading.Condition(threading.RLock())
        self._version = 0
        self._closed = False

    # The contract.

    def survey(self) -> HostFacts:
        with self._changed:
            self._enter("survey")
            return self.facts

    def observe(self) -> Sequence[ObservedTask]:
        with self._changed:
            self._enter("observe")
            return [task.seen for _, task in sorted(self._tasks.items())]

    def image_for(self, image: str, launcher: str) -> str:
        return image

    def has_image(self, image: str) -> bool:
        with self._changed:
            self._enter("has_image", image)
            return self._has(image)

    def fetch_image(self, image: str) -> Iterator[ImageProgress]:
        with self._changed:
            self._enter("fetch_image", image)
            outcome = () if self._has(image) else self.fetchable.get(image)
        if outcome is None:
            raise ImageUnavailable(f"image {image!r} was not found")
        if isinstance(outcome, RuntimeFault):
            raise outcome
        yield from outcome
        with self._changed:
            if self.images is not None:
                self.images.add(image)

    def save_image(self, image: str) -> Iterator[bytes]:
        with self._changed:
            self._enter("save_image", image)
            if not self._has(image):
                raise ImageUnavailable(f"image {image!r} is not there")
        yield image.encode()

    def load_image(self, archive: Iterable[bytes]) -> None:
        image = b"".join(archive).decode()
        with self._changed:
            self._enter("load_image", image)
            if self.images is not None:
                self.images.add(image)

    def disk(self) -> Disk:
        with self._changed:
            self._enter("disk")
            images = tuple(StoredImage(image, GIB, GIB) for image in sorted(self.images or ()))
            checkpoints = tuple(Stored(job, len(content)) for job, (_, content) in sorted(self._checkpoints.items()))
            return Disk(images, len(images) * GIB, checkpoints)

    def remove_image(self, image: str) -> None:
        with self._changed:
            self._enter("remove_image", image)
            if self.images is not None and not any(task.spec.image == image for task in self._tasks.values()):
                self.images.discard(image)

    def start(self, task: TaskSpec) -> None:
        with self._changed:
            self._enter("start", task.task_id)
            check_task(task)
            existing = self._tasks.get(task.task_id)
            if existing is not None and existing.seen.state is not TaskState.CREATED:
                return
            if not self._has(task.image):
                raise ImageUnavailable(f"image {task.image!r} is not there: fetch it first")
            self._starts[task.task_id] = self._starts.get(task.task_id, 0) + 1
            self._checkpoints.setdefault(task.job_id, (self._clock(), b""))
            running = ObservedTask(task.task_id, TaskState.RUNNING, started_at=self._clock())
            self._tasks[task.task_id] = _Task(existing.spec if existing else task, running)
            self._notify()

    def stop(self, task_id: str, grace_s: float) -> None:
        with self._changed:
            self._enter("stop", task_id)
            if self._state(task_id) is not TaskState.RUNNING:
                return
            self._set_paused("resume", task_id, False)
            if not self.stubborn:
                self.finish(task_id, self.stop_code)
                return
            self._changed.wait_for(lambda: self._closed or self._state(task_id) is not TaskState.RUNNING)

    def pause(self, task_id: str) -> None:
        self._set_paused("pause", task_id, True)

    def resume(self, task_id: str) -> None:
        self._set_paused("resume", task_id, False)

    def remove(self, task_id: str) -> None:
        with self._changed:
            self._enter("remove", task_id)
            task = self._tasks.pop(task_id, None)
            if task is not None:
                self._logs[task_id] = task.log
                self._notify()

    def checkpoints(self) -> Sequence[str]:
        with self._changed:
            self._enter("checkpoints")
            return sorted(self._checkpoints)

    def drop_checkpoints(self, job_id: str) -> None:
        with self._changed:
            self._enter("drop_checkpoints", job_id)
            if not any(task.spec.job_id == job_id for task in self._tasks.values()):
                self._checkpoints.pop(job_id, None)

    def checkpoints_changed_at(self, job_id: str) -> float | None:
        with self._changed:
            self._enter("checkpoints_changed_at", job_id)
            return self._checkpoints.get(job_id, (None, b""))[0]

    def save_checkpoints(self, job_id: str) -> Iterator[bytes]:
        with self._changed:
            self._enter("save_checkpoints", job_id)
            found = self._checkpoints.get(job_id)
        if found is not None:
            yield b"tar:" + found[1]

    def load_checkpoints(self, job_id: str, archive: Iterable[bytes]) -> None:
        with self._changed:
            self._enter("load_checkpoints", job_id)
            mine = {name: task for name, task in self._tasks.items() if task.spec.job_id == job_id}
            if any(task.seen.state is not TaskState.CREATED for task in mine.values()):
                raise RuntimeFault(f"a task of {job_id} still has its checkpoints")
            for name in mine:
                del self._tasks[name]
            self._checkpoints.pop(job_id, None)
        content = b"".join(archive).removeprefix(b"tar:")
        with self._changed:
            self._checkpoints[job_id] = (self._clock(), content)

    def logs(self, task_id: str, follow: bool) -> Iterator[bytes]:
        sent, last = 0, False
        while not last:
            with self._changed:
                while (
                    not (over := not follow or self._closed or self._over(task_id)) and len(self._log(task_id)) == sent
                ):
                    self._changed.wait()
                data, last = bytes(self._log(task_id)[sent:]), over
            sent += len(data)
            if data:
                yield data

    def watch(self) -> Iterator[bool]:
        seen = -1  # the first time yields at once
        while True:
            with self._changed:
                while not self._closed and self._version == seen:
                    self._changed.wait()
                if self._closed:
                    return
                seen = self._version
            yield False

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # What a test does to it.

    def write_checkpoint(self, job_id: str, content: bytes) -> None:
        """The job's task writes into the folder."""
        with self._changed:
            self._checkpoints[job_id] = (self._clock(), content)

    def read_checkpoint(self, job_id: str) -> bytes | None:
        with self._changed:
            return self._checkpoints[job_id][1] if job_id in self._checkpoints else None

    def finish(self, task_id: str, code: int = 0, *, oom_killed: bool = False, error: str = "") -> None:
        """The command ends. Only a running task can."""
        self._end(task_id, state=TaskState.EXITED, exit_code=code, oom_killed=oom_killed, error=error)

    def lose(self, task_id: str) -> None:
        """The task is gone, and nobody saw how it ended."""
        self._end(task_id, state=TaskState.LOST)

    def blind(self, task_id: str) -> None:
        """The task runs on, but says that it can't reach its GPUs."""
        with self._changed:
            self._tasks[task_id].seen = replace(self._tasks[task_id].seen, blind=True)
            self._notify()

    def vanish(self, task_id: str) -> None:
        """Somebody removed the task behind our back, with its log."""
        with self._changed:
            del self._tasks[task_id]
            self._notify()

    def create(self, task: TaskSpec) -> None:
        """The task exists but never ran: a service died between creating and starting it."""
        with self._changed:
            self._tasks[task.task_id] = _Task(task, ObservedTask(task.task_id, TaskState.CREATED))
            self._notify()

    def write(self, task_id: str, data: bytes) -> None:
        """The command prints something."""
        with self._changed:
            self._tasks[task_id].log += data
            self._notify()

    def fail_next(self, method: str, error: RuntimeFault | None = None, *, times: int = 1) -> None:
        """The next `times` calls of `method` raise, and do nothing else."""
        with self._changed:
            queue = self._failures.setdefault(method, deque())
            queue.extend([error or RuntimeFault(f"{self.host_id} does not answer")] * times)

    def tasks(self, state: TaskState | None = None) -> list[TaskSpec]:
        """The tasks that exist, optionally of one state only."""
        with self._changed:
            return [t.spec for _, t in sorted(self._tasks.items()) if state in (None, t.seen.state)]

    def env(self, task_id: str) -> dict[str, str]:
        """What the command finds in its environment."""
        with self._changed:
            return complete_env(self._tasks[task_id].spec, {}, "/fake/sdk", "/fake/checkpoints")

    def check(self) -> None:
        """Raises AssertionError where a driver broke what must always hold: no task was started twice, no GPU is in
        two running tasks of which none is paused."""
        with self._changed:
            twice = [task_id for task_id, count in self._starts.items() if count > 1]
            if twice:
                raise AssertionError(f"started more than once: {twice}")
            holders: dict[str, str] = {}
            for spec in self.tasks(TaskState.RUNNING):
                if self._tasks[spec.task_id].seen.paused:
                    continue
                for uuid in spec.gpu_uuids:
                    if uuid in holders:
                        raise AssertionError(f"{uuid} is in {holders[uuid]} and in {spec.task_id}")
                    holders[uuid] = spec.task_id

    def _enter(self, method: str, argument: str = "") -> None:
        if self.silent:
            raise RuntimeFault(f"{self.host_id} does not answer")
        if method not in ("survey", "observe", "has_image"):
            self.calls.append((method, argument))
        if self._failures.get(method):
            raise self._failures[method].popleft()

    def _set_paused(self, method: str, task_id: str, paused: bool) -> None:
        with self._changed:
            task = self._tasks.get(task_id)
            if task is None or task.seen.state is not TaskState.RUNNING or task.seen.paused == paused:
                return
            self._enter(method, task_id)
            task.seen = replace(task.seen, paused=paused)
            self._notify()

    def _end(self, task_id: str, **changes: object) -> None:
        with self._changed:
            task = self._tasks[task_id]
            if task.seen.state is not TaskState.RUNNING or task.seen.paused:
                raise AssertionError(f"{task_id} is {task.seen}, so it can't end")
            task.seen = replace(task.seen, finished_at=self._clock(), **changes)  # type: ignore[arg-type]
            self._notify()

    def _notify(self) -> None:
        self._version += 1
        self._changed.notify_all()

    def _has(self, image: str) -> bool:
        return self.images is None or image in self.images

    def _state(self, task_id: str) -> TaskState | None:
        task = self._tasks.get(task_id)
        return task.seen.state if task else None

    def _over(self, task_id: str) -> bool:
        return self._state(task_id) not in (TaskState.CREATED, TaskState.RUNNING)

    def _log(self, task_id: str) -> bytearray:
        task = self._tasks.get(task_id)
        return task.log if task else self._logs.get(task_id, bytearray())
