"""A bench for each kind of runtime: what differs between them when the same test is run on each."""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import clusters
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.core.task import ObservedTask, TaskSpec
from schedulearn.scheduler.runtimes.contract import Runtime
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.container import create_arguments
from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime
from schedulearn.scheduler.runtimes.process.runtime import ProcessRuntime

ROOT = Path(__file__).parents[2]
LOG_CAP = 64 << 10
IMAGE = "schedulearn-test/tools:2"
PYTHON_IMAGE = "schedulearn-test/python:2"
"""`IMAGE`, with what test_supervisor.py needs beside it."""
SHELL_LESS_IMAGE = "schedulearn-test/no-shell:1"
TOOLS = ("sh", "env", "sleep", "head", "tr", "seq", "cat", "true", "mkdir", "ln")
DEADLINE_S = 30.0


def wait_for(condition: Callable[[], Any], what: str = "it", within_s: float = DEADLINE_S) -> Any:
    return clusters.wait_for(condition, seconds=within_s, what=what)


@dataclass(frozen=True)
class Program:
    """A command, and what a fake has to do instead of running it."""

    argv: tuple[str, ...]
    play: Callable[[FakeRuntime, str], None] = lambda runtime, task_id: None


def shell(script: str, play: Callable[[FakeRuntime, str], None] = lambda runtime, task_id: None) -> Program:
    return Program(("sh", "-c", script), play)


SLEEPER = Program(("sleep", "100"))
UNKNOWN = ["schedulearn-nobody-1-0", "", "..", "../../etc", "schedulearn-x-1-0/..", "no task"]


def printer(text: str, code: int = 0) -> Program:
    def play(runtime: FakeRuntime, task_id: str) -> None:
        runtime.write(task_id, text.encode())
        runtime.finish(task_id, code)

    return shell(f"printf '{text}'; exit {code}", play)


@dataclass
class Bench:
    """Makes runtimes of one kind over one place. `runtime` is the first; `another` is a service after a restart."""

    kind: str
    make: Callable[[], Runtime]
    image: str
    create: Callable[[Runtime, TaskSpec], None]
    """Brings a task into the state `created`, as a service does that dies too early."""
    made: list[Runtime] = field(default_factory=list)

    def another(self) -> Runtime:
        runtime = self.make()
        if runtime not in self.made:
            self.made.append(runtime)
        return runtime

    @property
    def runtime(self) -> Runtime:
        return self.made[0] if self.made else self.another()

    @property
    def is_fake(self) -> bool:
        return self.kind == "fake"

    def spec(self, program: Program, **changes: Any) -> TaskSpec:
        fields: dict[str, Any] = {
            "job_id": uuid.uuid4().hex[:10],
            "attempt": 1,
            "rank": 0,
            "image": self.image,
            "argv": program.argv,
            "gpu_uuids": (f"GPU-{uuid.uuid4()}",),
            "simulated_gpus": True,
        }
        return TaskSpec(**{**fields, **changes})

    def start(self, program: Program, **changes: Any) -> str:
        """Starts a new task, which does all that `program` does by itself; returns its id."""
        spec = self.spec(program, **changes)
        self.runtime.start(spec)
        if isinstance(self.runtime, FakeRuntime):
            program.play(self.runtime, spec.task_id)
        return spec.task_id

    def see(self, task_id: str, runtime: Runtime | None = None) -> ObservedTask | None:
        return next((t for t in (runtime or self.runtime).observe() if t.task_id == task_id), None)

    def wait_for_end(self, task_id: str, runtime: Runtime | None = None) -> ObservedTask:
        def ended() -> ObservedTask | None:
            task = self.see(task_id, runtime)
            assert task is not None
            return task if task.state in ("exited", "lost") else None

        return wait_for(ended, f"the end of {task_id}")

    def wait_for_output(self, task_id: str, text: bytes) -> None:
        wait_for(lambda: text in self.read(task_id), f"{text!r} in the log of {task_id}")

    def read(self, task_id: str, *, follow: bool = False, runtime: Runtime | None = None) -> bytes:
        return b"".join((runtime or self.runtime).logs(task_id, follow))

    def close(self) -> None:
        last = self.another() if not self.is_fake else self.runtime
        for task in last.observe():
            last.remove(task.task_id)
        for folders in (last.checkpoints, last.outputs):
            for job_id in folders.jobs():
                folders.drop(job_id)
        for key in (*last.data.all_keys(), *last.data.unfinished()):
            last.data.drop(key)
        for runtime in self.made:
            runtime.close()


def fake_bench(tmp_path: Path) -> Bench:
    runtime = FakeRuntime("fake", images={IMAGE})
    return Bench("fake", lambda: runtime, IMAGE, lambda _, spec: runtime.create(spec))


def process_bench(tmp_path: Path) -> Bench:
    environment = tmp_path / "environment"
    (environment / "bin").mkdir(parents=True)
    (environment / "app").mkdir()
    (environment / "app" / "greeting").write_text("hello")

    def create(_: Runtime, spec: TaskSpec) -> None:
        (tmp_path / "data" / "tasks" / spec.task_id).mkdir()

    return Bench(
        "process",
        lambda: ProcessRuntime("here", tmp_path / "data", {IMAGE: environment}, log_cap_bytes=LOG_CAP),
        IMAGE,
        create,
    )


def docker_bench(tmp_path: Path, url: str) -> Bench:
    cluster = f"test-{uuid.uuid4().hex[:8]}"

    def create(_: Runtime, spec: TaskSpec) -> None:
        engine = Engine(url)
        engine.api.create_container(**create_arguments(engine.api, spec, cluster, {}))
        engine.close()

    return Bench(
        "docker",
        lambda: DockerRuntime("here", url, tmp_path / "data", cluster, log_cap_bytes=LOG_CAP),
        IMAGE,
        create,
    )


def tools_image(tools: Sequence[str] = TOOLS, python: bool = False) -> bytes:
    """A file system with this machine's own shell and a few tools, maybe Python: no network, no registry."""
    files: set[str] = set()
    for tool in tools:
        path = shutil.which(tool)
        assert path is not None, f"{tool} is not on this machine"
        files.add(path)
        libraries = subprocess.run(["ldd", os.path.realpath(path)], capture_output=True, text=True, check=True).stdout
        files.update(re.findall(r"(/\S+) \(0x", libraries))
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(folder)
        for path in sorted(files):
            name = f"bin/{os.path.basename(path)}" if os.path.basename(path) in tools else path.lstrip("/")
            archive.add(os.path.realpath(path), name)
        if python:
            add_python(archive)
    return target.getvalue()


def have_image(engine: Engine, name: str, content: bytes) -> None:
    """Import it, unless it is there: containers of other workers may run it, and each import leaves the one before."""
    label = f"content={hashlib.sha256(content).hexdigest()}"
    with (Path(tempfile.gettempdir()) / "schedulearn-test-images").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not engine.api.images(name, filters={"label": label}):
            engine.api.import_image_from_data(content, *name.split(":"), changes=[f"LABEL {label}"])


def add_python(archive: tarfile.TarFile) -> None:
    """This machine's interpreter, with as much of its library as a small script needs."""
    needed = "site, __future__, importlib.machinery, functools, signal, sys, time, typing"
    show = f"import {needed}; print(*{{getattr(m, '__file__', '') for m in sys.modules.values()}})"
    python = os.path.realpath(sys.executable)
    libraries = subprocess.run(["ldd", python], capture_output=True, text=True, check=True).stdout
    modules = subprocess.run([python, "-I", "-S", "-c", show], capture_output=True, text=True, check=True).stdout
    for path in sorted({python, *re.findall(r"(/\S+) \(0x", libraries), *map(os.path.abspath, modules.split())}):
        if path.lstrip("/") not in archive.getnames():
            archive.add(os.path.realpath(path), path.lstrip("/"))
    link = tarfile.TarInfo("bin/python3")
    link.type, link.linkname = tarfile.SYMTYPE, python
    archive.addfile(link)
