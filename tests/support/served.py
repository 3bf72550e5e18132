"""Fixtures that serve the API in this process, and services for the command line."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from apis import Api, serve_api
from services import Service


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(
        tmp_path_factory.mktemp("shared") / "data", env={"SCHEDULEARN_WEBHOOK_NETWORKS": '["127.0.0.0/8"]'}
    )
    running.start()
    yield running
    running.close()


@pytest.fixture
def service(shared_service: Service) -> Iterator[Service]:
    """One for all tests that leave it as they found it. Jobs are ended here, also those of a test that failed."""
    yield shared_service
    shared_service.cancel_all()


@pytest.fixture
def start_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Services of the test's own, over `tmp_path / "data"` unless told."""
    with ExitStack() as stack:

        def start(*flags: str, data: Path | None = None, port: int = 0, **options: Any) -> Service:
            running = Service(data or tmp_path / "data", *flags, **options)
            running.port = port
            running.start()
            stack.callback(running.close)
            return running

        yield start


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """API of a service over the fake runtime."""
    with serve_api(tmp_path) as served:
        yield served
