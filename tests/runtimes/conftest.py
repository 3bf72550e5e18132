"""Fixtures: a bench of each kind, cleaned up, and a Docker Engine."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from benches import IMAGE, ROOT, Bench, docker_bench, fake_bench, have_image, process_bench, tools_image, wait_for

from schedulearn.scheduler.runtimes.docker.api import Engine


@pytest.fixture(params=["fake", "process", pytest.param("docker", marks=pytest.mark.docker)])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    match request.param:
        case "fake":
            made = fake_bench(tmp_path)
        case "process":
            made = process_bench(tmp_path)
        case _:
            made = docker_bench(tmp_path, request.getfixturevalue("engine_url"))
    yield made
    made.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Bench]:
    made = process_bench(tmp_path)
    yield made
    made.close()


@pytest.fixture
def containers(tmp_path: Path, engine_url: str) -> Iterator[Bench]:
    made = docker_bench(tmp_path, engine_url)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    wait_for(lambda: not [t for t in threading.enumerate() if t not in before], "the end of all threads", 10)


@pytest.fixture(scope="session")
def engine_url() -> str:
    """A Docker Engine which has the image IMAGE. Skips where none can be had, and says why."""
    done = subprocess.run([str(ROOT / "scripts/dev-engine.sh"), "start"], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip(f"NO DOCKER ENGINE, nothing of the docker runtime is tested here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    url = done.stdout.strip().splitlines()[-1].removeprefix("DOCKER_HOST=")
    engine = Engine(url)
    have_image(engine, IMAGE, tools_image())
    engine.close()
    return url
