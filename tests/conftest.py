"""Real parts for the tests: a Docker Engine, Horovod. What is missing is skipped loudly, with its reason."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from databases.postgres import Postgres
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parent.parent
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the service sets it

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs us in the background ignores Ctrl-C for us and for all that we start, whose Ctrl-C we test.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time, so that a run says something of the change and not of its luck; new ones are
# `make test-properties`, and what those find becomes an @example.
settings.register_profile("default", deadline=None, derandomize=True)
settings.register_profile(
    "new-examples", deadline=None, max_examples=int(os.environ.get("SCHEDULEARN_TEST_EXAMPLES", "100"))
)
settings.load_profile("new-examples" if "SCHEDULEARN_TEST_EXAMPLES" in os.environ else "default")


def _running_engine() -> str:
    """One that was there before this session may have other users: it is not this session's to stop."""
    script = ROOT / "scripts/dev-engine.sh"
    found = subprocess.run([script, "status"], capture_output=True, text=True, timeout=60, check=False)
    return found.stdout.strip().removeprefix("DOCKER_HOST=") if found.returncode == 0 else ""


@cache
def _file_shares(path: str) -> str:
    text = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
    if re.search(r"mark\.browser|mark\.docker|docker_url|engine_url|worker_image|\bcontainers\b", text):
        return "network"
    return "training" if re.search(r"horovod_env|environment_of|mark\.horovod", text) else path


def _shares(nodeid: str) -> str:
    """What a test has in common with others, so that they run one after another, in one worker of `pytest -n 2`.

    Each container brings a network interface with it, and Chromium cuts off its requests whenever one comes or goes
    (ERR_NETWORK_CHANGED). So browsers do not run beside containers. Training takes all processors that it can get: two
    at a time would only wait for each other. All others share at most what their file has.
    """
    path, _, name = nodeid.partition("::")
    if path == "tests/faults/test_seeds.py":
        return nodeid  # many, and each by itself: whoever is free takes the next
    return "network" if "[docker" in name else _file_shares(path)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Bytes are often archives, which have the time in them: workers that collect the same tests a second apart would
    call them differently, and pytest-xdist then runs none."""
    return argname if isinstance(val, bytes) else None


_FIRST = {"network": 0, "training": 1}  # the long ones begin at once and beside each other; files fill the rest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("PYTEST_XDIST_WORKER"):
        items.sort(key=lambda item: _FIRST.get(_shares(item.nodeid), 2))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    # By hand: xdist 3.8 finds no group of a test under pytest 9.2.
    from xdist.scheduler import LoadScopeScheduling

    class ByWhatTheyShare(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _shares(nodeid)

    return ByWhatTheyShare(config, log)


@pytest.fixture(scope="session")
def docker_url() -> Iterator[str]:
    """The address of a Docker Engine: one that answers, or one started for this session and stopped after it."""
    given = os.environ.get("SCHEDULEARN_TEST_DOCKER_HOST") or _running_engine()
    if given:
        yield given
        return
    started = subprocess.run(
        [ROOT / "scripts/dev-engine.sh", "start"], capture_output=True, text=True, timeout=600, check=False
    )
    lines = started.stdout.strip().splitlines()
    if started.returncode != 0 or not lines or not lines[-1].startswith("DOCKER_HOST="):
        pytest.skip(f"NO DOCKER ENGINE, so Docker is NOT tested: {started.stderr.strip() or started.stdout.strip()}")
    yield lines[-1].removeprefix("DOCKER_HOST=")
    subprocess.run([ROOT / "scripts/dev-engine.sh", "stop"], capture_output=True, timeout=60, check=False)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server that lives as long as this session."""
    from databases.postgres import Missing, postgres_server

    try:
        with postgres_server() as server:
            yield server
    except Missing as missing:
        pytest.skip(f"NO POSTGRESQL, so it is NOT tested: {missing}")


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A new database of each kind, with its tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'schedulearn.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.create()
    yield url
    server.drop(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A new database of each kind, without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.create(empty=True)
    yield url
    server.drop(url)


def _build(script: str, *arguments: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [ROOT / "worker_images" / script, *arguments],
        capture_output=True, text=True, timeout=3600, check=False, env={**os.environ, **(env or {})},
    )  # fmt: skip
    if done.returncode != 0:
        pytest.fail(f"{script} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout.strip().splitlines()[-1].removeprefix("ready ")


@pytest.fixture(scope="session")
def horovod_env() -> Path:
    """The prefix of the environment with PyTorch and Horovod that local jobs run in."""
    return Path(_build("build-env.sh"))


@pytest.fixture(scope="session")
def environment_of() -> Callable[[str], Path]:
    """The same for each flavour. What is not in the cache takes minutes to compile."""
    return cache(lambda flavour: Path(_build("build-env.sh", flavour)))


@pytest.fixture(scope="session")
def worker_image(docker_url: str) -> str:
    return _build("build-image.sh", "cpu", env={"DOCKER_HOST": docker_url})
