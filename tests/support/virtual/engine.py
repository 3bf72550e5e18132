"""An engine in memory between which and the service everything can go wrong."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from fakes.runtime import FakeRuntime
from fakes.stores import FakeFolders, FakeImages
from fakes.terminals import FakeTerminals

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.outcomes.blame import Blame
from schedulearn.scheduler.core.task import EngineState, ObservedTask, TaskSpec
from schedulearn.scheduler.errors import HostRefused, RuntimeFault
from schedulearn.scheduler.runtimes.contract import Disk, Runtime, UntrackedFile
from virtual.effects import SideEffects
from virtual.gpus import VirtualGpus
from virtual.time import VirtualTime

if TYPE_CHECKING:
    from virtual.jobs import Workload

LATE_S = 2.0
"""So long after its request a call may still take effect: less than the service waits before it counts on one that did
not (`SETTLE_S`)."""


class VirtualEngine(Runtime):
    """What runs here outlives the service. `trouble` is the chance that a call goes wrong; `meanwhile` is what other
    threads of the service do while a call is under way."""

    def __init__(
        self,
        host_id: str,
        time: VirtualTime,
        effects: SideEffects,
        rng: random.Random,
        workload: Workload,
        gpus: VirtualGpus | None = None,
    ) -> None:
        """`gpus`: real ones, which a probe tells of; None: they are simulated."""
        self.host_id = host_id
        self.gpus = gpus
        self.fake = FakeRuntime(host_id, clock=time.clock)
        self.trouble = 0.0
        self.cut = False
        """Nothing gets through; what runs runs on."""
        self.broken = False
        """It starts nothing with GPUs, and says why."""
        self.was_cut = False
        """At any time since all that it showed was in order: its tasks may have been given up."""
        self.meanwhile: Callable[[], None] = lambda: None
        self._time = time
        self._effects = effects
        self._rng = rng
        self._workload = workload
        self._left: dict[str, float] = {}
        """Task -> seconds that its command still takes."""

    # What the service asks.

    @property
    def images(self) -> FakeImages:
        return self.fake.images

    @property
    def checkpoints(self) -> FakeFolders:
        return self.fake.checkpoints

    @property
    def outputs(self) -> FakeFolders:
        return self.fake.outputs

    @property
    def terminals(self) -> FakeTerminals:
        return self.fake.terminals

    def survey(self) -> HostFacts:
        self._reach()
        return self.fake.survey()

    def observe(self) -> Sequence[ObservedTask]:
        self._reach()
        seen = self.fake.observe()
        self._sometimes_meanwhile()  # the answer is on its way, and old when it comes
        return seen

    def disk(self) -> Disk:
        self._reach()
        return self.fake.disk()

    def start(self, task: TaskSpec) -> None:
        if self.broken and task.gpu_uuids:
            self._reach()
            seen = self._seen(task.task_id)
            if seen is not None and seen.state is not EngineState.CREATED:
                return  # it was started before
            self.fake.remove(task.task_id)
            raise HostRefused(f"on {self.host_id} the driver is broken: reboot the host", Blame.HOST)
        self._change(f"start {task.task_id}", lambda: self.fake.start(task), lambda: self._start_created(task))

    def stop(self, task_id: str, grace_s: float) -> None:
        self._change(f"stop {task_id}", lambda: self._stop(task_id))

    def pause(self, task_id: str) -> None:
        self._change(f"pause {task_id}", lambda: self.fake.pause(task_id))

    def resume(self, task_id: str) -> None:
        self._change(f"resume {task_id}", lambda: self.fake.resume(task_id))

    def remove(self, task_id: str) -> None:
        self._change(f"remove {task_id}", lambda: self.fake.remove(task_id))

    def untracked_files(self, task_id: str) -> Sequence[UntrackedFile]:
        self._reach()
        return self.fake.untracked_files(task_id)

    def logs(self, task_id: str, follow: bool) -> Iterator[bytes]:
        return self.fake.logs(task_id, follow=False)

    def watch(self) -> Iterator[bool]:
        return iter(())

    def close(self) -> None:
        """The connection, not the engine."""

    # What happens to it.

    def pass_time(self, seconds: float) -> None:
        """Commands go on, and end when their time has come."""
        for spec in self.fake.tasks(EngineState.RUNNING):
            seen = self._seen(spec.task_id)
            if seen is None or seen.paused:
                continue
            left = self._left.setdefault(spec.task_id, self._workload.seconds(spec.job_id, spec.attempt)) - seconds
            self._left[spec.task_id] = left
            if left <= 0:
                code = self._workload.exit_code(spec.job_id, spec.attempt)
                self._workload.note_exit(spec.job_id, spec.attempt, code)
                self.fake.finish(spec.task_id, code)

    def next_end(self) -> float:
        """Seconds until the next command ends, if nothing keeps it from going on."""
        return max(0.05, min((self._left.get(spec.task_id, 0.0) for spec in self.running()), default=math.inf))

    def fail_on(self, uuid: str) -> None:
        """What computes on a GPU fails with it."""
        for spec in self.fake.tasks(EngineState.RUNNING):
            seen = self._seen(spec.task_id)
            if uuid in spec.gpu_uuids and seen is not None and not seen.paused:
                self._workload.note_gpu_failure(spec.job_id)
                self.fake.finish(spec.task_id, 1)

    def restart_engine(self) -> None:
        """All that runs ends, and nobody saw how."""
        for spec in self.fake.tasks(EngineState.RUNNING):
            self.fake.resume(spec.task_id)
            self.fake.lose(spec.task_id)

    def vanish(self, task_id: str, *, known: bool) -> None:
        """Somebody removes a container. One of which the service does not know yet that it ran may start again."""
        self.fake.vanish(task_id)
        if not known:
            self.fake.forget_start(task_id)

    def running(self) -> list[TaskSpec]:
        return self.fake.tasks(EngineState.RUNNING)

    def _seen(self, task_id: str) -> ObservedTask | None:
        return next((seen for seen in self.fake.observe() if seen.task_id == task_id), None)

    def _start_created(self, task: TaskSpec) -> Callable[[], None]:
        """A start is two requests: one makes the container, and only that one can be started by the other, however
        late that is."""
        if self._seen(task.task_id) is None:
            self.fake.create(task)

        def start() -> None:
            seen = self._seen(task.task_id)
            if seen is not None and seen.state is EngineState.CREATED:
                self.fake.start(task)

        return start

    def _stop(self, task_id: str) -> None:
        """A command that was paused is resumed by `stop` itself."""
        self.fake.stop(task_id, 0)

    def _reach(self) -> None:
        if self._effects.dead or self.cut or self._rng.random() < self.trouble / 4:
            raise RuntimeFault(f"{self.host_id} does not answer")

    def _change(
        self, name: str, change: Callable[[], None], begin: Callable[[], Callable[[], None]] | None = None
    ) -> None:
        """A call that changes something: it may fail before or after its effect, have it twice or late, and others act
        while it is under way. `begin`: what it does at once even where it is late, and what it does then."""
        self._reach()
        self._sometimes_meanwhile()
        how = self._rng.choices(
            ["well", "refused", "unheard", "twice", "late"],
            [1 - self.trouble, *[self.trouble / 4] * 4],
        )[0]
        if how == "refused":
            raise RuntimeFault(f"{self.host_id} is busy")
        if how == "late":
            self._later(name, begin() if begin else change)
            raise RuntimeFault(f"{self.host_id} has not answered in time")

        def effect() -> None:
            change()
            if how == "twice":
                change()

        self._effects.do(
            f"{self.host_id} {name}", effect, on_kill=lambda: self._perhaps_later(name, begin() if begin else change)
        )
        self._sometimes_meanwhile()
        if how == "unheard":
            raise RuntimeFault(f"the connection to {self.host_id} broke")

    def _perhaps_later(self, name: str, change: Callable[[], None]) -> None:
        """The request of a service that dies may be under way."""
        if self.trouble and self._rng.random() < 0.5:
            self._later(name, change)

    def _later(self, name: str, change: Callable[[], None]) -> None:
        def effect() -> None:
            self._effects.note(f"    {self.host_id} {name}, late")
            try:
                change()
            except RuntimeFault:
                pass  # nobody hears of it any more

        self._time.after(self._rng.uniform(0, LATE_S), effect)

    def _sometimes_meanwhile(self) -> None:
        if self.trouble and self._rng.random() < 0.2:
            self.meanwhile()
