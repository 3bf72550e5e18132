from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from servers.authorities import Authority
from services import Service

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """On an open address, with a certificate of its own."""
    with Service(tmp_path_factory.mktemp("tls") / "data", "--host", "0.0.0.0", token=TOKEN) as running:
        yield running
        running.cancel_all()


@pytest.fixture
def start_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Services of the test's own."""
    with ExitStack() as stack:

        def start(*flags: str, port: int = 0, **options: Any) -> Service:
            running = Service(tmp_path / "data", *flags, **options)
            running.port = port
            running.start()
            stack.callback(running.close)
            return running

        yield start


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)
