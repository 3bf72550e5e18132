from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)
