from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from services import Service


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for all tests that leave it as they found it."""
    running = Service(tmp_path_factory.mktemp("shared") / "data")
    yield running
    running.close()


@pytest.fixture
def start_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Services of the test's own, over `tmp_path / "data"` unless told."""
    with ExitStack() as stack:

        def start(*flags: str, data: Path | None = None, **options: Any) -> Service:
            running = Service(data or tmp_path / "data", *flags, **options)
            stack.callback(running.close)
            return running

        yield start
