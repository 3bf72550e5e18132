from collections.abc import Iterator
from pathlib import Path

import pytest
from apis import Api, serve_api


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path) as served:
        yield served
