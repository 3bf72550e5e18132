from __future__ import annotations

import pytest
from benches import IMAGE, tools_image

from schedulearn.scheduler.runtimes.docker.api import Engine


@pytest.fixture(scope="session")
def engine(docker_url: str) -> str:
    """One that has the small image of shell tools."""
    there = Engine(docker_url)
    if not there.api.images(IMAGE):
        there.api.import_image_from_data(tools_image(), *IMAGE.split(":"))
    there.close()
    return docker_url
