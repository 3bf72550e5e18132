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
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from fakes.resources import FakeResources
from fakes.stores import FakeData, FakeFolders, FakeImages
from fakes.terminals import FakeTerminals
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.job_image import layer_tag
from schedulearn.scheduler.core.task import GIB, EngineState, ObservedTask, TaskSpec
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.runtimes.contract import Disk, FetchProgress, Runtime, StoredImage, UntrackedFile
from schedulearn.scheduler.runtimes.cuda_check import CudaCheck
from schedulearn.scheduler.runtimes.pinning import check_task, complete_env
from schedulearn.scheduler.runtimes.untracked import largest_first, may_matter
from schedulearn.scheduler.runtimes.workspace import check_code

_UNNOTED = ("survey", "observe", "images.has", "data.has", "resources")
"""What is asked again and again, and changes nothing."""


@dataclass
class _Task:
    spec: TaskSpec
    seen: ObservedTask
    log: bytearray = field(default_factory=bytearray)
    untracked: list[UntrackedFile] = field(default_factory=list)


class FakeRuntime(Runtime):
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
        fetchable: Mapping[str, Iterable[FetchProgress] | RuntimeFault] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.host_id = host_id
        self._images = FakeImages(self, images, fetchable or {})
        self._checkpoints = FakeFolders(self, "checkpoints", clock)
        self._outputs = FakeFolders(self, "outputs", clock)
        self._terminals = FakeTerminals(self._takes_commands)
        self._data = FakeData(self, self._outputs)
        self._resources = FakeResources(self._memory_limit, lambda: self._enter("resources"))
        self.facts = HostFacts(f"fake {host_id}")
        self.check_of_cuda: CudaCheck | None = None
        self.stop_code = 143
        self.stubborn = False
        self.silent = False
        self.calls: list[tuple[str, str]] = []
        self._clock = clock
        self._tasks: dict[str, _Task] = {}
        self._logs: dict[str, bytearray] = {}  # of removed tasks
        self._failures: dict[str, deque[RuntimeFault]] = {}
        self._starts: dict[str, int] = {}
        self._changed = threading.Condition(threading.RLock())
        self._version = 0
        self._closed = False

    # The contract.

    @property
    def images(self) -> FakeImages:
        return self._images

    @property
    def checkpoints(self) -> FakeFolders:
        return self._checkpoints

    @property
    def outputs(self) -> FakeFolders:
        return self._outputs

    @property
    def terminals(self) -> FakeTerminals:
        return self._terminals

    @property
    def data(self) -> FakeData:
        return self._data

    @property
    def resources(self) -> FakeResources:
        return self._resources

    def cuda_check(self, image: Callable[[], str]) -> CudaCheck | None:
        return self.check_of_cuda

    def survey(self) -> HostFacts:
        with self._changed:
            self._enter("survey")
            return self.facts

    def observe(self) -> Sequence[ObservedTask]:
        with self._changed:
            self._enter("observe")
            return [task.seen for _, task in sorted(self._tasks.items())]

    def disk(self) -> Disk:
        with self._changed:
            self._enter("disk")
            present = sorted(self.images.present or ())
            images = tuple(StoredImage(layer_tag(image), GIB, GIB, own=layer_tag(image) != image) for image in present)
            return Disk(images, len(images) * GIB, self.checkpoints.sizes(), self.outputs.sizes(), self.data.sizes())

    def start(self, task: TaskSpec) -> None:
        with self._changed:
            self._enter("start", task.task_id)
            check_task(task)
            check_code(task)
            existing = self._tasks.get(task.task_id)
            if existing is not None and existing.seen.state is not EngineState.CREATED:
                return
            if not self.images.holds(task.image):
                raise ImageUnavailable(f"image {task.image!r} is missing: fetch it first")
            if not all(map(self.data.holds, task.data.values())):
                raise ImageUnavailable("data that it needs is missing: fetch it first")
            self._starts[task.task_id] = self._starts.get(task.task_id, 0) + 1
            for folders in (self.checkpoints, self.outputs):
                folders.make(task.job_id)
            running = ObservedTask(task.task_id, EngineState.RUNNING, started_at=self._clock())
            self._tasks[task.task_id] = _Task(existing.spec if existing else task, running)
            self._notify()

    def stop(self, task_id: str, grace_s: float) -> None:
        with self._changed:
            self._enter("stop", task_id)
            if self._state(task_id) is not EngineState.RUNNING:
                return
            self._set_paused("resume", task_id, False)
            if not self.stubborn:
                self.finish(task_id, self.stop_code)
                return
            self._changed.wait_for(lambda: self._closed or self._state(task_id) is not EngineState.RUNNING)

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

    def untracked_files(self, task_id: str) -> Sequence[UntrackedFile]:
        with self._changed:
            self._enter("untracked_files", task_id)
            task = self._tasks.get(task_id)
            return largest_first(task.untracked) if task and task.seen.state is EngineState.EXITED else ()

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
            self.checkpoints.write(job_id, "checkpoint", content)

    def read_checkpoint(self, job_id: str) -> bytes | None:
        with self._changed:
            return self.checkpoints.content(job_id, "checkpoint")

    def write_output(self, job_id: str, name: str, content: bytes) -> None:
        """The job's task writes a file into the outputs."""
        with self._changed:
            self.outputs.write(job_id, name, content)

    def write_elsewhere(self, task_id: str, path: str, size: int) -> None:
        """The command writes a file to a place that goes with it."""
        with self._changed:
            self._tasks[task_id].untracked += [UntrackedFile(path, size)] if may_matter(path) else []

    def finish(self, task_id: str, code: int = 0, *, oom_killed: bool = False, error: str = "") -> None:
        """The command ends. Only a running task can."""
        how = ObservedTask(task_id, EngineState.EXITED, exit_code=code, oom_killed=oom_killed, error=error)
        self._end(how)

    def lose(self, task_id: str) -> None:
        """The task is gone, and nobody saw how it ended."""
        self._end(ObservedTask(task_id, EngineState.LOST))

    def vanish(self, task_id: str) -> None:
        """Somebody removed the task behind our back, with its log."""
        with self._changed:
            del self._tasks[task_id]
            self._notify()

    def create(self, task: TaskSpec) -> None:
        """The task exists but never ran: a service died between creating and starting it."""
        with self._changed:
            self._tasks[task.task_id] = _Task(task, ObservedTask(task.task_id, EngineState.CREATED))
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

    def tasks(self, state: EngineState | None = None) -> list[TaskSpec]:
        """The tasks that exist, optionally of one state only."""
        with self._changed:
            return [t.spec for _, t in sorted(self._tasks.items()) if state in (None, t.seen.state)]

    def env(self, task_id: str) -> dict[str, str]:
        """What the command finds in its environment."""
        with self._changed:
            return complete_env(self._tasks[task_id].spec, {}, "/fake/sdk", "/fake/checkpoints", "/fake/outputs")

    def check(self) -> None:
        """Raises AssertionError where a driver broke what must always hold: no task was started twice, no GPU is in
        two running tasks of which none is paused."""
        with self._changed:
            twice = [task_id for task_id, count in self._starts.items() if count > 1]
            if twice:
                raise AssertionError(f"started more than once: {twice}")
            holders: dict[str, str] = {}
            for spec in self.tasks(EngineState.RUNNING):
                if self._tasks[spec.task_id].seen.paused:
                    continue
                for uuid in spec.gpu_uuids:
                    if uuid in holders:
                        raise AssertionError(f"{uuid} is in {holders[uuid]} and in {spec.task_id}")
                    holders[uuid] = spec.task_id

    @contextmanager
    def called(self, method: str, argument: str = "") -> Iterator[None]:
        """Around what a call does: notes it, and fails if it should."""
        with self._changed:
            self._enter(method, argument)
            yield

    def forget_created(self, job_id: str) -> None:
        """Tasks of a job that never ran."""
        for spec in self.tasks(EngineState.CREATED):
            if spec.job_id == job_id:
                del self._tasks[spec.task_id]

    def forget_start(self, task_id: str) -> None:
        """It may start once more: nobody could know that it did."""
        self._starts.pop(task_id, None)

    def _enter(self, method: str, argument: str = "") -> None:
        if self.silent:
            raise RuntimeFault(f"{self.host_id} does not answer")
        if method not in _UNNOTED:
            self.calls.append((method, argument))
        if self._failures.get(method):
            raise self._failures[method].popleft()

    def _set_paused(self, method: str, task_id: str, paused: bool) -> None:
        with self._changed:
            task = self._tasks.get(task_id)
            if task is None or task.seen.state is not EngineState.RUNNING or task.seen.paused == paused:
                return
            self._enter(method, task_id)
            task.seen = replace(task.seen, paused=paused)
            self._notify()

    def _end(self, how: ObservedTask) -> None:
        with self._changed:
            task = self._tasks[how.task_id]
            if task.seen.state is not EngineState.RUNNING or task.seen.paused:
                raise AssertionError(f"{how.task_id} is {task.seen}, so it can't end")
            task.seen = replace(
                task.seen, state=how.state, exit_code=how.exit_code, oom_killed=how.oom_killed, error=how.error,
                finished_at=self._clock(),
            )  # fmt: skip
            self.terminals.task_ended(how.task_id)
            self._notify()

    def _takes_commands(self, task_id: str) -> bool:
        with self._changed:
            task = self._tasks.get(task_id)
            return task is not None and task.seen.state is EngineState.RUNNING and not task.seen.paused

    def _memory_limit(self, task_id: str) -> int | None:
        with self._changed:
            if self._state(task_id) is not EngineState.RUNNING:
                raise KeyError(task_id)
            return self._tasks[task_id].spec.memory_bytes

    def _notify(self) -> None:
        self._version += 1
        self._changed.notify_all()

    def _state(self, task_id: str) -> EngineState | None:
        task = self._tasks.get(task_id)
        return task.seen.state if task else None

    def _over(self, task_id: str) -> bool:
        return self._state(task_id) not in (EngineState.CREATED, EngineState.RUNNING)

    def _log(self, task_id: str) -> bytearray:
        task = self._tasks.get(task_id)
        return task.log if task else self._logs.get(task_id, bytearray())
