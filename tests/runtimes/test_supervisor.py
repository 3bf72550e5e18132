"""What holds of everything that a task started: its grace period, and whether its workers joined each other."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benches import (
    IMAGE,
    PYTHON_IMAGE,
    SHELL_LESS_IMAGE,
    TOOLS,
    Bench,
    Program,
    docker_bench,
    have_image,
    process_bench,
    tools_image,
    wait_for,
)

from schedulearn.scheduler.core.task import EngineState, ObservedTask
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.docker.api import Engine

GRACE_S = 30.0
TERM = """
import os, signal, sys, time
def save(*_):
    os.write(1, b"got SIGTERM\\n")
    time.sleep(0.7)
    os.write(1, b"saved checkpoint\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
os.write(1, b"ready\\n")
while True:
    time.sleep(0.05)
"""


@pytest.fixture(scope="session")
def images(engine_url: str) -> str:
    engine = Engine(engine_url)
    with_python = tools_image((*TOOLS, "bash", "setsid", "tee"), python=True)
    have_image(engine, PYTHON_IMAGE, with_python)
    have_image(engine, SHELL_LESS_IMAGE, tools_image(("sleep", "env")))
    engine.close()
    return engine_url


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """With Python."""
    if request.param == "process":
        made = process_bench(tmp_path)
    else:
        made = docker_bench(tmp_path, request.getfixturevalue("images"))
        made.image = PYTHON_IMAGE
    yield made
    made.close()


def run(bench: Bench, script: str, shell: str = "sh") -> str:
    """Starts a script for a shell, with `$PY` and `$TERM_PY` to train with."""
    python = sys.executable if bench.kind == "process" else "python3"
    return bench.start(Program((shell, "-c", script)), env={"PY": python, "TERM_PY": TERM})


def stopped(bench: Bench, task_id: str, grace_s: float = GRACE_S) -> tuple[ObservedTask, str, float]:
    """Its end, its log, and how long it took, once the training is ready."""
    bench.wait_for_output(task_id, b"ready")
    began = time.monotonic()
    bench.runtime.stop(task_id, grace_s)
    took = time.monotonic() - began
    task = bench.see(task_id)
    assert task is not None
    assert task.state is EngineState.EXITED
    return task, bench.read(task_id, follow=True).decode(), took


@pytest.mark.parametrize(
    ("shell", "script"),
    [
        ("sh", '"$PY" -c "$TERM_PY"; echo next'),
        ("bash", 'set -e; "$PY" -c "$TERM_PY"; echo next'),
        ("bash", '"$PY" -c "$TERM_PY" 2>&1 | tee log; echo next'),
        ("bash", 'exec > >(tee log) 2>&1; "$PY" -c "$TERM_PY"; echo next'),
        ("bash", '"$PY" -c "$TERM_PY" | sh -c "while read -r line; do echo \\$line; done" | tee log; echo next'),
    ],
    ids=["sh", "set -e", "tee", "process substitution", "two readers"],
)
def test_a_training_below_a_shell_saves(bench: Bench, shell: str, script: str) -> None:
    task_id = run(bench, script, shell)
    task, log, took = stopped(bench, task_id)
    assert log.split("\n") == ["ready", "got SIGTERM", "saved checkpoint", ""]
    assert task.exit_code == 143
    assert took < GRACE_S / 2


def test_what_left_the_group_is_told_as_well(bench: Bench) -> None:
    _, log, took = stopped(bench, run(bench, 'setsid "$PY" -c "$TERM_PY" & sleep 100; echo next'))
    assert log.split("\n") == ["ready", "got SIGTERM", "saved checkpoint", ""]
    assert took < GRACE_S / 2


def test_what_does_not_end_is_killed_after_the_grace(bench: Bench) -> None:
    _, log, took = stopped(bench, run(bench, "(trap '' TERM; echo ready; while :; do sleep 0.05; done)"), 1.0)
    assert log == "ready\n"
    assert 0.9 < took < 10


def test_a_reader_that_waits_for_nobody_is_told_in_the_end(bench: Bench) -> None:
    script = '"$PY" -c "$TERM_PY" | (cat; sleep 1000)'
    _, log, took = stopped(bench, run(bench, script))
    assert "saved checkpoint" in log
    assert took < GRACE_S / 2


def test_what_a_finished_command_left_does_not_keep_its_task(bench: Bench) -> None:
    task_id = run(bench, "sleep 1000 & echo done; exit 3")
    began = time.monotonic()
    task = bench.wait_for_end(task_id)
    assert task.exit_code == 3
    assert time.monotonic() - began < 5


@pytest.mark.docker
def test_a_shell_alone_waits_too(containers: Bench) -> None:
    """An image without Python."""
    training = "trap 'sleep 0.7; echo saved; exit' TERM; echo ready; while :; do sleep 0.05; done"
    script = f"exec 2>/dev/null; ({training}); echo next"
    task_id = containers.start(Program(("sh", "-c", script)))
    task, log, took = stopped(containers, task_id)
    assert (task.exit_code, log) == (143, "ready\nsaved\n")
    assert took < GRACE_S / 2


@pytest.mark.docker
@pytest.mark.parametrize("image", [IMAGE, PYTHON_IMAGE])
class TestContainers:
    @pytest.fixture
    def made(self, images: str, tmp_path: Path, image: str) -> Iterator[Bench]:
        bench = docker_bench(tmp_path, images)
        bench.image = image
        yield bench
        bench.close()

    def test_other_signals_reach_the_command(self, made: Bench) -> None:
        script = "trap 'echo used; exit 4' USR1; echo ready; while :; do sleep 0.05; done"
        task_id = made.start(Program(("sh", "-c", script)))
        made.wait_for_output(task_id, b"ready")
        made.runtime._engine.api.kill(task_id, "USR1")
        wait_for(lambda: b"used" in made.read(task_id))
        wait_for(lambda: made.see(task_id).state is not EngineState.RUNNING)

    def test_a_command_that_is_not_there_is_named(self, made: Bench) -> None:
        task = made.wait_for_end(made.start(Program(("nonesuch", "a b"))))
        assert (task.exit_code, task.error) == (127, "nonesuch: command not found")
        task = made.wait_for_end(made.start(Program(("/tmp", "a"))))
        assert (task.exit_code, task.error.lower()) == (126, "/tmp: permission denied")

    def test_variables_keep_their_names(self, made: Bench) -> None:
        task_id = made.start(Program(("env",)), env={"a.b-c": "1 2", "PLAIN": "3"})
        assert {"a.b-c=1 2", "PLAIN=3"} <= set(made.read(task_id, follow=True).decode().splitlines())


@pytest.mark.docker
def test_an_image_without_a_shell_runs_its_command_alone(images: str, tmp_path: Path) -> None:
    bench = docker_bench(tmp_path, images)
    bench.image = SHELL_LESS_IMAGE
    task_id = bench.start(Program(("env", "sleep", "0.1")))
    assert bench.wait_for_end(task_id).exit_code == 0
    spec = bench.spec(Program(("env", "sleep", "0.1")))
    bench.create(bench.runtime, spec)  # by a service that did not live to look for the shell
    with pytest.raises(RuntimeFault, match="created again"):
        bench.runtime.start(spec)
    bench.runtime.start(spec)
    assert bench.wait_for_end(spec.task_id).exit_code == 0
    bench.close()


@pytest.mark.docker
def test_a_persons_terminal_does_not_hold_up_a_stop(images: str, tmp_path: Path) -> None:
    bench = docker_bench(tmp_path, images)
    bench.image = PYTHON_IMAGE
    task_id = bench.start(Program(("sh", "-c", "echo ready; sleep 1000")))
    terminal = bench.runtime.terminals.open(task_id, ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"], None)
    _, _, took = stopped(bench, task_id)
    assert took < GRACE_S / 2
    terminal.close()
    bench.close()


@pytest.mark.parametrize(("script", "warns"), [("pass", True), ("import sys; sys.exit(2)", False)])
def test_workers_that_never_joined_are_warned_of(bench: Bench, script: str, warns: bool) -> None:
    python = sys.executable if bench.kind == "process" else "python3"
    task = bench.wait_for_end(bench.start(Program((python, "-c", script)), env={"WORLD_SIZE": "2", "RANK": "0"}))
    assert ("never joined a process group" in task.error) == warns
    assert (b"none joined a process group" in bench.read(task.task_id, follow=True)) == warns
