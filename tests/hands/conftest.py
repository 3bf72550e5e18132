from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from services import Service

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="session")
def open_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("hands") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def service(open_service: Service) -> Iterator[Service]:
    """One that asks its own account for no token; its GPUs are free when a module begins."""
    yield open_service
    open_service.cancel_all()


@pytest.fixture(scope="session")
def guarded_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("guarded") / "data", token=TOKEN) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(guarded_service: Service) -> Iterator[Service]:
    """One that asks for a token."""
    yield guarded_service
    guarded_service.cancel_all()


@pytest.fixture
def start_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Services of the test's own."""
    with ExitStack() as stack:

        def start(*flags: str, **options: Any) -> Service:
            running = Service(tmp_path / "data", *flags, **options)
            running.start()
            stack.callback(running.close)
            return running

        yield start
