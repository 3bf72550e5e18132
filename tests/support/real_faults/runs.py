"""One run: a service, jobs, and faults that a seed chooses. What happens is noted, so that a failure can be read."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from services import IMAGE, Service

from real_faults import faults
from real_faults.disks import SmallDisk, can_mount, small_disk
from real_faults.engine_proxy import EngineProxy
from real_faults.invariants import Broken, Invariants
from real_faults.switches import Switches
from real_faults.witness import ContainerWitness, ProcessWitness, Witness

GPUS = 4
POLICIES = ("fifo", "elastic-fifo", "round-robin", "goodput")
HEALING_S = 240.0
"""Within which all must end, on a machine that is slow and busy."""
ADDRESS = "SCHEDULEARN_REAL_FAULT_SEEDS"
AGAIN = f"Again: {ADDRESS}=%s pytest -n 0 tests/faults/real/test_real_seeds.py"


class RealRun:
    """`engine`: the socket of a Docker Engine that has `image`; None: local processes."""

    def __init__(
        self, seed: int, folder: Path, engine: str | None = None, image: str = IMAGE, gpus: int = GPUS
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.folder = folder
        self.engine = engine
        self.image = image
        self.gpus = gpus
        self.log: list[str] = []
        self.kills = 0
        self.faulty = True
        self._began = time.monotonic()
        self._sent = 0
        self._pending: list[tuple[str, dict[str, Any]]] = []
        """Keys and bodies of submissions that nobody has acknowledged yet."""
        self._long: set[str] = set()
        """Jobs that end only when they are cancelled, and were not yet."""
        self._stack = ExitStack()
        folder.mkdir(parents=True, exist_ok=True)
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.disk: SmallDisk | None = None
        self.proxy: EngineProxy | None = None
        self.switches = Switches(folder / "switches")

    def __enter__(self) -> RealRun:
        try:
            self._begin()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _begin(self) -> None:
        data = self.folder / "data"
        if can_mount(data):
            self.disk = self._stack.enter_context(small_disk(data))
        env = {}
        if self.engine is not None:
            proxy = EngineProxy(
                self._short() / "engine.sock", Path(self.engine.removeprefix("unix://")), random.Random(self.seed),
                kill=self.kill_process, note=self.note,
            )  # fmt: skip
            self.proxy = self._stack.enter_context(proxy)
            env["DOCKER_HOST"] = self.proxy.url
        served = Path(__file__).with_name("served.py")
        self.service = Service(
            data, runtime="docker" if self.engine else "process", gpus=self.gpus, env=env,
            under=(sys.executable, str(served), str(self.folder / "switches")),
        )  # fmt: skip
        self._stack.callback(self.service.http.close)
        self._stack.callback(self.service.kill)
        self.service.start()
        self.witness = self._make_witness(data)
        self._stack.callback(self.witness.close)
        self._stack.callback(self.service.kill)  # before what it has left is cleared away
        self.invariants = Invariants(data / "schedulearn.db", self.witness)

    def _short(self) -> Path:
        """A folder for a socket, whose path may have 107 characters."""
        return Path(self._stack.enter_context(TemporaryDirectory(prefix="faults-")))

    def _make_witness(self, data: Path) -> Witness:
        if self.engine is None:
            return ProcessWitness(data, self.marks)
        [[cluster_id]] = self.service.rows("SELECT value FROM meta WHERE key = 'cluster_id'")
        return ContainerWitness(self.engine, cluster_id)

    # What a run does.

    def run(self, jobs: int = 6, troubles: int = 3) -> None:
        """Raises Broken with what happened before."""
        self.guard(lambda: self._day(jobs, troubles))

    def guard(self, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:
            raise Broken(self.report(f"{type(error).__name__}: {error}")) from error

    def _day(self, jobs: int, troubles: int) -> None:
        chosen = self.rng.sample(faults.possible(self), troubles)
        for number in range(jobs):
            self.submit()
            if number % 2 == 1 and chosen:
                self.suffer(chosen.pop())
            self.pass_time(0.2)
        for fault in chosen:
            self.suffer(fault)
        self.cancel()
        self.settle()

    def suffer(self, fault: faults.Fault) -> None:
        self.note(f"fault: {fault.__name__}")
        fault(self)
        self.pass_time(0.3)

    def pass_time(self, seconds: float) -> None:
        """Looks at everything meanwhile."""
        end = time.monotonic() + seconds
        while True:
            self.stay_up()
            self.invariants.check()
            if time.monotonic() >= end:
                return
            time.sleep(0.05)

    def settle(self) -> None:
        """Everything heals; then all must end well."""
        self.note("everything heals")
        self.faulty = False
        self.switches.kill_at = 0
        self.heal()
        self.finish()

    def finish(self) -> None:
        """Until nothing is left to do."""
        end = time.monotonic() + HEALING_S
        while self._pending or (left := self.invariants.unsettled()):
            self.pass_time(0.1)
            self._send()
            self.cancel()
            if time.monotonic() > end:
                what = left or "submissions"
                there = f"{self.witness.running()} run; long and not yet cancelled: {sorted(self._long)}"
                raise Broken(
                    f"{what} still there after {HEALING_S:.0f} s; {there}\n{self.invariants.stories()}\n{time.time()}"
                )
        self.pass_time(0.1)
        self.invariants.check_settled(self._sent)

    def heal(self) -> None:
        self.switches.clock_offset = 0.0
        if self.proxy:
            self.proxy.heal()
        if self.disk:
            self.disk.empty()

    # What people do.

    def submit(self, kind: str = "", seconds: float = 0.0) -> None:
        number = self._sent
        self._sent += 1
        kind = kind or self.rng.choices(["works", "fails once", "fails", "long"], [6, 2, 1, 1])[0]
        seconds = seconds or self.rng.uniform(0.1, 1.5)
        body = {
            "name": f"job {number}", "type": "t", "container_image": self.image, "launcher": "none",
            "command": f"sh -c '{self._script(600 if kind == 'long' else seconds, kind)}'",
            "required_gpus": self.rng.randint(1, 2), "max_restarts": 1 if kind == "fails once" else 0,
            "labels": {"kind": kind.replace(" ", "-")}, "grace_period": 1,
        }  # fmt: skip
        self._pending.append((f"{self.seed}-{number}", body))
        self._send()

    def _script(self, seconds: float, kind: str) -> str:
        code = {"fails": "code=3", "fails once": "case $SCHEDULEARN_TASK in *-1-0) code=3;; esac"}.get(kind, "true")
        note = f" >> {self.marks}/$SCHEDULEARN_TASK" if self.engine is None else " > /dev/null"
        return f"echo began{note}; sleep {seconds:.2f}; code=0; {code}; echo $code{note}; exit $code"

    def _send(self) -> None:
        """What was not acknowledged is sent again with its key, as a client does."""
        for key, body in list(self._pending):
            with suppress(httpx.TransportError):
                answer = self.service.http.post("/jobs", json=body, headers={"Idempotency-Key": key}, timeout=5)
                if answer.status_code == 201:
                    self.invariants.acknowledged.add(answer.json()["id"])
                    if body["labels"] == {"kind": "long"}:
                        self._long.add(answer.json()["id"])
                    self._pending.remove((key, body))
                else:
                    assert answer.status_code in (503, 507), answer.text  # 507: the disk is almost full
            self.stay_up()

    def switch_policy(self) -> None:
        with suppress(httpx.TransportError):
            name = self.rng.choice(POLICIES)
            self.note(f"policy {name}")
            self.service.http.put("/api/v1/policy", json={"algorithm": name}, timeout=5)

    def cancel(self) -> None:
        """The long ones; again where no answer came."""
        with suppress(httpx.TransportError):
            for job_id in sorted(self._long):
                answer = self.service.http.post(f"/api/v1/jobs/{job_id}/cancel", timeout=5)
                if answer.is_success or answer.status_code == 409:
                    self._long.remove(job_id)

    # What becomes of the service.

    def kill_process(self) -> None:
        if self.service.process is not None:
            self.service.process.kill()

    def kill_and_start(self, kill_at: int = 0) -> None:
        """Another life, which ends at this side effect."""
        self.service.kill()
        self.switches.kill_at = kill_at
        self.service.start(wait=False)

    def stay_up(self) -> None:
        """Starts it again where it died. One that can't start because of a fault says so and ends; the fault goes."""
        for _ in range(10):
            process = self.service.process
            if process is not None and process.poll() is None and self._is_ready():
                return
            self._note_end()
            self.service.kill()
            self.service.start(wait=False)
        raise Broken(f"it does not start any more:\n{self.service.log()[-3000:]}")

    def _is_ready(self) -> bool:
        try:
            self.service.wait_ready()
        except AssertionError:
            return False
        return True

    def _note_end(self) -> None:
        if self.service.process is None:
            return
        code = self.service.process.wait(30)
        self.kills += 1
        self.note(f"the service ended with {code}, at side effect {self.switches.count}")
        self.switches.kill_at = self.rng.randint(1, 30) if self.faulty and self.rng.random() < 0.2 else 0
        if code != -9:
            words = self.service.log()[-2000:]
            if not self.faulty or "Traceback" in words or not words:
                raise Broken(f"it ended with {code}: {words}")
            self.note(words.strip())
            self.heal()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def note(self, what: str) -> None:
        self.log.append(f"{self.elapsed:8.2f} s  {what}")

    def report(self, problem: str) -> str:
        with suppress(Exception):
            problem += f"\n{self.service.log()[-3000:]}"
        return "\n".join([f"seed {self.seed}: {problem}", AGAIN % self.seed, *self.log])
