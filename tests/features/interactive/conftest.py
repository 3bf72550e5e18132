from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from services import Service

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Service that its own account uses without a token."""
    with Service(tmp_path_factory.mktemp("hands") / "data") as running:
        yield running
        running.cancel_all()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Service that requires a token."""
    with Service(tmp_path_factory.mktemp("guarded") / "data", token=TOKEN) as running:
        yield running
        running.cancel_all()


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
