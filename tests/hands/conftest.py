from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from services import Service


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
