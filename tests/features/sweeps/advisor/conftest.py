from collections.abc import Iterator
from pathlib import Path

import pytest
from apis import Api, serve_api


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """A service over the fake runtime, with 4 GPUs that cost something."""
    with serve_api(tmp_path, report_url="http://127.0.0.1:1", gpu_prices={"simulated": 3600}) as served:
        yield served
