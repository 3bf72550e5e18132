"""Real parts for the tests: a Docker Engine, Horovod. What is missing is skipped loudly, with its reason."""

from __future__ import annotations

import gc
import os
import runpy
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from schedulearn.features import load_tables

if TYPE_CHECKING:
    from databases.postgres import Postgres
    from sqlalchemy.engine import Connection, Engine

pytest_plugins = ["tiers", "served"]
load_tables()
ROOT = Path(__file__).parent.parent
runpy.run_path(str(ROOT / "scripts/unasync.py"), run_name="__main__")  # nothing has imported the client yet
gc.disable()  # until all is imported: see `pytest_collection_finish`
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


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Bytes are often archives, which have the time in them: workers that collect the same tests a second apart would
    call them differently, and pytest-xdist then runs none."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_finish() -> None:
    """Exclude imported objects from garbage collection.

    They live until the end. Each full collection would scan half a million of them, for half a second.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


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


@pytest.fixture(scope="session", autouse=True)
def quick_tables() -> Iterator[None]:
    """The tables of a new SQLite database are written as models say once, and as that text from then on."""
    from schedulearn.scheduler.store import db

    create = db._create
    written: list[str] = []

    def create_quickly(connection: Connection) -> None:
        if connection.dialect.name != "sqlite":
            create(connection)
        elif written:
            for statement in written:
                connection.exec_driver_sql(statement)
            connection.commit()
        else:
            create(connection)
            rows = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%'")
            written.extend([*filter(None, rows.scalars()), f"INSERT INTO alembic_version VALUES ('{db.HEAD}')"])

    db._create = create_quickly
    yield
    db._create = create


@pytest.fixture(scope="session", autouse=True)
def quick_queries() -> Iterator[None]:
    """Share compiled SQL between all SQLite databases.

    Each service would spend 0.04 s on compiling its own.
    """
    from schedulearn.scheduler.store import db

    make = db._engine
    written: list[Any] = []

    def make_quickly(url: str) -> Engine:
        engine = make(url)
        if engine.dialect.name == "sqlite":
            if not written:
                written.extend((engine.dialect, engine._compiled_cache))
            engine.dialect, engine._compiled_cache = written
        return engine

    db._engine = make_quickly
    yield
    db._engine = make


@pytest.fixture(scope="session", autouse=True)
def quick_clients() -> Iterator[None]:
    """Load the default certificate authorities once.

    Each `httpx` client would spend 18 ms on loading its own.
    """
    from httpx._transports import default

    create = default.create_ssl_context
    default.create_ssl_context = cache(create)  # type: ignore[attr-defined]
    yield
    default.create_ssl_context = create  # type: ignore[attr-defined]


@pytest.fixture(scope="session", autouse=True)
def quick_routes() -> Iterator[None]:
    """Build the routes of FastAPI once for all applications.

    Each application would spend 0.1 s on its own, at its first requests.
    """
    from fastapi import routing

    build = routing._IncludedRouter._build_effective_context
    built: dict[object, Any] = {}

    def build_once(router: Any, route: Any) -> Any:
        context = router.include_context
        given = tuple(each.dependency for each in context.dependencies)
        key = (id(route), context.path_for(route), given, context.max_body_size)
        if key not in built:
            built[key] = build(router, route), route  # keeps the route alive, so that its id stays unique
        return built[key][0]

    routing._IncludedRouter._build_effective_context = build_once  # type: ignore[method-assign]
    yield
    routing._IncludedRouter._build_effective_context = build  # type: ignore[method-assign]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A new database of each kind, with its tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'schedulearn.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.create()
    yield url
    server.drop(url)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
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
def frameworks(horovod_env: Path) -> str:
    """The folder with Lightning, Transformers and Accelerate for that environment. It is installed once."""
    from environments import install_frameworks

    return str(install_frameworks(horovod_env))


@pytest.fixture(scope="session")
def worker_image(docker_url: str) -> str:
    return _build("build-image.sh", "cpu", env={"DOCKER_HOST": docker_url})
