from __future__ import annotations

from collections.abc import Iterator

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
