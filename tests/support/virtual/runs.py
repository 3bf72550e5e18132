"""A run: a seed decides what is asked of the service, what goes wrong, and in which order everything happens.

To see one again: `pytest tests/faults/test_seeds.py --seeds 17-17`.
"""

from __future__ import annotations

import atexit
import logging
import random
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path

from schedulearn.features import load_tables
from schedulearn.scheduler.errors import ConflictError, StoreError
from schedulearn.scheduler.specs.job import JobSpec
from virtual.effects import Killed, SideEffects
from virtual.engine import VirtualEngine
from virtual.gpus import VirtualGpus
from virtual.invariants import Broken, Invariants
from virtual.jobs import Workload
from virtual.service import HOST_GRACE_S, VirtualService
from virtual.time import VirtualTime

load_tables()

POLICIES = ("fifo", "edf", "las", "priority", "round-robin", "srtf", "tiresias", "gandiva", "elastic-fifo", "afs-l")
STEPS = 40
SETTLING_S = 1800.0
"""By then everything has ended, in virtual time."""


@cache
def _memory() -> str | None:
    """A folder that needs no disk, where there is one: what a disk keeps is not what these runs are about."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@cache
def _folder() -> Path:
    """The data folder of all runs of this process, one after another: see `_one_engine`."""
    folder = Path(tempfile.mkdtemp(dir=_memory(), prefix="schedulearn-faults-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "data"


@cache
def _template() -> bytes:
    """A new database, made once."""
    from schedulearn.scheduler.store.db import Database, sqlite_url

    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        Database(sqlite_url(Path(folder))).close()
        return (Path(folder) / "schedulearn.db").read_bytes()


class FaultRun:
    """`trouble`: how much goes wrong; 0 is a service that has a good day."""

    def __init__(self, seed: int, *, trouble: float = 1.0, hosts: int | None = None, real: bool | None = None) -> None:
        self.seed = seed
        self.trouble = trouble
        self.rng = random.Random(seed)
        self.dice = random.Random(f"drivers {seed}")
        """Of their own: what the others decide is as it was before drivers broke."""
        self.holds = random.Random(f"holds {seed}")
        """Likewise of what people hold, pause and release."""
        self.lots = random.Random(f"gpus {seed}")
        self.time = VirtualTime()
        self.log: list[str] = []
        """What happened, in words."""
        self.effects = SideEffects(self.note)
        self.workload = Workload(random.Random(seed + 1))
        self.directory = _folder()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        (self.directory / "schedulearn.db").write_bytes(_template())
        names = ["local", "h1", "h2"][: hosts or self.rng.choice([1, 1, 2, 3])]
        self.gpus = 4
        drawn = self.lots.random() < 0.5
        self.real = drawn if real is None else real
        """Whether the GPUs are real ones, which may break."""
        self.engines = {
            name: VirtualEngine(
                name, self.time, self.effects, self.rng, self.workload,
                VirtualGpus(name, self.gpus, self.time) if self.real else None,
            ) for name in names
        }  # fmt: skip
        for engine in self.engines.values():
            engine.meanwhile = self._meanwhile
        self.kills = 0
        self._job_ids = count(1)
        self._depth = 0
        self.service = self._begin()
        self.invariants = Invariants(self.directory / "schedulearn.db", self.engines, self.workload)

    def close(self) -> None:
        self.service.die()
        self.invariants.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # Steps.

    def run(self) -> None:
        """Raises Broken with what happened before."""
        logging.disable(logging.CRITICAL)
        try:
            for _ in range(self.rng.choice([1, 2])):
                self.step(self.submit)
            for number in range(STEPS):
                self.step(self.rng.choices(self._steps, self._weights(number))[0])
            self.settle()
        except Broken as error:
            raise Broken(self.report(str(error))) from error
        finally:
            logging.disable(logging.NOTSET)
            self.close()

    def step(self, what: Callable[[], None]) -> None:
        """Does it, and checks everything. A service that dies of it starts again."""
        self.note(what.__name__)
        try:
            what()
            if self.real and self.lots.random() < 0.25 * self.trouble:
                self.break_or_mend_gpus()
        except Killed:
            self._restart()
        if self.dice.random() < 0.1 * self.trouble:
            self.break_or_mend_driver()
        if self.holds.random() < 0.15 * self.trouble:
            self.hold_or_release()
        self.invariants.check(self.time.clock())

    def settle(self) -> None:
        """Everything heals; then all must end well."""
        self.note("everything heals")
        self.trouble = 0.0
        self.effects.spare()
        self.service.failing_commits = 0
        for engine in self.engines.values():
            engine.trouble, engine.cut, engine.broken = 0.0, False, False
            self.service.open_host(engine.host_id)
            if engine.gpus is not None:
                engine.gpus.mend_all()
        self.invariants.check(self.time.clock())
        end, pause = self.time.elapsed + SETTLING_S, 1.0
        while self.time.elapsed < end and not self.invariants.settled():
            before = self.effects.count
            self.return_gpus()
            self.release_all()
            self.look_everywhere()
            self.service.turn()
            self.service.act(1000)
            if self.effects.count == before:
                pause = min(60.0, 2 * pause)
                self.pass_time(min([pause, *(engine.next_end() for engine in self.engines.values())]))
            else:
                pause = 1.0
                self.pass_time(0.01)
            self.invariants.check(self.time.clock())
        self.look_everywhere()
        self.service.turn()
        self.invariants.check_settled()

    def note(self, what: str) -> None:
        self.log.append(f"{self.time.elapsed:9.2f} s  {what}")

    def report(self, problem: str) -> str:
        return "\n".join([
            f"seed {self.seed}: {problem}",
            f"Again: pytest -n 0 tests/faults/test_seeds.py --seeds {self.seed}-{self.seed}",
            *self.log,
        ])  # fmt: skip

    @property
    def _steps(self) -> list[Callable[[], None]]:
        return [
            self.turn, self.look_somewhere, self.act, self.wait, self.submit, self.cancel, self.switch_policy,
            self.kill_now, self.kill_soon, self.cut_host, self.join_host, self.restart_engine, self.remove_container,
            self.fail_commits, self.step_clock, self.be_quick,
        ]  # fmt: skip

    def _weights(self, number: int) -> list[float]:
        sent = 5 if number < STEPS / 2 else 0.5
        bad = self.trouble
        return [
            9, 12, 14, 10, sent, 1, 0.5,
            0.5 * bad, 4 * bad, 1.0 * bad, 2.0 * bad, 0.5 * bad, 0.5 * bad,
            0.7 * bad, 0.7 * bad, 10,
        ]  # fmt: skip

    # What the service does.

    def turn(self) -> None:
        self.service.turn()

    def look_somewhere(self) -> None:
        self.service.observe(self.rng.choice([*self.engines]))

    def look_everywhere(self) -> None:
        for host_id in self.engines:
            self.service.observe(host_id)
            self._all_in_order(host_id)

    def act(self) -> None:
        self.service.act(self.rng.choice([1, 1, 3]))

    def be_quick(self) -> None:
        """As a service that nothing holds up."""
        self.look_everywhere()
        self.service.turn()
        self.service.act(20)

    def wait(self) -> None:
        self.pass_time(self.rng.choice([0.01, 0.3, 1.0, 3.0, 10.0]))

    def pass_time(self, seconds: float) -> None:
        self.time.advance(seconds)
        for engine in self.engines.values():
            engine.pass_time(seconds)
        if not self.effects.dead:
            self.hear_everywhere()

    def hear_everywhere(self) -> None:
        """A sample a second of each host."""
        for host_id, engine in self.engines.items():
            if engine.gpus is not None and self.service.hear(host_id) and not engine.gpus.mute:
                self.invariants.check_heard(host_id)

    # What people do.

    def submit(self) -> None:
        specs, plans = zip(*(self.workload.make(len(self.workload.plans) + i, self.gpus)
                             for i in range(self.rng.choice([1, 1, 2]))), strict=True)  # fmt: skip
        if self.holds.random() < 0.2 * self.trouble:
            later = {"start_after": self.holds.choice(["0.5s", "5s", "60s"]), "hold": self.holds.random() < 0.2}
            specs = [JobSpec.model_validate({**specs[0].model_dump(exclude_unset=True), **later}), *specs[1:]]
        for job_id, plan in zip(self.service.submit(specs), plans, strict=False):
            self.workload.plans[job_id] = plan
            self.invariants.acknowledged.add(job_id)

    def cancel(self) -> None:
        if jobs := sorted(self.invariants.acknowledged):
            try:
                self.service.cluster.service.cancel(self.rng.choice(jobs))
            except (ConflictError, StoreError):
                pass  # it has ended, or the database has trouble: the caller is told

    def hold_or_release(self) -> None:
        jobs, service = sorted(self.invariants.acknowledged), self.service.cluster.service
        if not jobs:
            return
        job, how = (
            self.holds.choice(jobs),
            self.holds.choice([service.hold, service.pause, service.pause, service.release]),
        )
        self.note(f"{how.__name__} {job}")
        try:
            how(job)
        except Killed:
            self._restart()
        except (ConflictError, StoreError):
            pass  # it has ended, or it is rigid and runs

    def release_all(self) -> None:
        for job in sorted(self.invariants.held()):
            self.service.cluster.service.release(job)

    def switch_policy(self) -> None:
        try:
            self.service.cluster.service.set_policy(self.rng.choice(POLICIES))
        except StoreError:
            pass

    # What goes wrong.

    def kill_now(self) -> None:
        raise Killed

    def kill_soon(self) -> None:
        self.effects.kill_soon(self.rng.randint(1, 12), after=self.rng.random() < 0.5)

    def cut_host(self) -> None:
        engine = self.rng.choice([*self.engines.values()])
        engine.cut = engine.was_cut = True

    def join_host(self) -> None:
        for engine in self.engines.values():
            engine.cut = False

    def restart_engine(self) -> None:
        self.rng.choice([*self.engines.values()]).restart_engine()

    def break_or_mend_driver(self) -> None:
        engine = self.dice.choice([*self.engines.values()])
        engine.broken = not engine.broken
        self.note(f"the driver of {engine.host_id} is {'broken' if engine.broken else 'well'}")

    def break_or_mend_gpus(self) -> None:
        """Of one host: a GPU breaks under its job or without it, hangs, goes or is whole again, or its driver does."""
        engine = self.lots.choice([*self.engines.values()])
        gpus = engine.gpus
        assert gpus is not None
        used = sorted({uuid for spec in engine.running() for uuid in spec.gpu_uuids})
        uuid = self.lots.choice(used if used and self.lots.random() < 0.7 else gpus.uuids)
        how = self.lots.choice([*["falls"] * 3, "resets", "program", "hangs", "goes", "driver", "mute", *["mend"] * 4])
        self.note(f"{uuid}: {how}")
        if how == "driver":
            gpus.hung = not gpus.hung
        elif how == "mute":
            gpus.mute = not gpus.mute
        elif how == "mend":
            gpus.mend(uuid)
            self.return_gpus()
        elif uuid in gpus.well:
            self._break(engine, gpus, uuid, how)

    def _break(self, engine: VirtualEngine, gpus: VirtualGpus, uuid: str, how: str) -> None:
        if how == "hangs":
            gpus.stuck.add(uuid)
            return
        if how == "goes":
            gpus.missing.add(uuid)
            return
        codes = {"falls": (self.lots.choice([48, 74, 79]), 45), "resets": (119, 45), "program": (31, 43)}[how]
        gpus.raise_xids(uuid, *codes)
        if how == "program" or gpus.hung or gpus.mute:  # nobody could know whose fault it was
            return
        if self.lots.random() < 0.7:
            engine.fail_on(uuid)
            if self.lots.random() < 0.5:  # its end is seen before its probe tells
                self.service.observe(engine.host_id)
                self.service.turn()

    def return_gpus(self) -> None:
        """As an operator who sees what is: those that are whole again and that no container has."""
        self.hear_everywhere()
        for host_id, engine in self.engines.items():
            if engine.gpus is None or engine.gpus.hung or engine.gpus.mute:
                continue
            held = {uuid for spec in engine.fake.tasks() for uuid in spec.gpu_uuids}
            well = set(engine.gpus.well)
            for uuid in self.invariants.faulty_gpus(host_id):
                if uuid in well - held:
                    self.service.return_gpu(host_id, uuid)

    def remove_container(self) -> None:
        engine = self.rng.choice([*self.engines.values()])
        if specs := engine.fake.tasks():
            task_id = self.rng.choice(specs).task_id
            engine.vanish(task_id, known=self.invariants.knows_that_it_ran(task_id))

    def fail_commits(self) -> None:
        self.service.failing_commits = self.rng.choice([1, 1, 2, 5])

    def step_clock(self) -> None:
        self.time.offset += self.rng.choice([-3600.0, -60.0, -5.0, 5.0, 3600.0])

    # How.

    def _begin(self) -> VirtualService:
        for engine in self.engines.values():
            if engine.gpus is not None:
                engine.gpus.listen()
        service = VirtualService(
            self.directory, self.engines, self.gpus, self.time, self.effects, self.rng, self._job_ids
        )
        for engine in self.engines.values():
            engine.trouble = 0.15 * self.trouble
        return service

    def _restart(self) -> None:
        self.kills += 1
        self.note(f"killed, the {self.kills}. time, at side effect {self.effects.count}")
        self.service.die()
        self.pass_time(self.rng.choice([0.0, 0.0, 1.0, 20.0, 2 * HOST_GRACE_S]))
        self.service = self._begin()

    def _meanwhile(self) -> None:
        """Other threads of the service act while one waits for an engine."""
        if self._depth:
            return
        self._depth += 1
        try:
            self.rng.choice([self.service.turn, self.look_somewhere, self.act])()
        finally:
            self._depth -= 1

    def _all_in_order(self, host_id: str) -> None:
        """Whether a host that was cut off shows nothing any more that was given up."""
        engine = self.engines[host_id]
        if engine.was_cut and not engine.cut and self.trouble == 0.0 and not engine.fake.tasks():
            engine.was_cut = False
