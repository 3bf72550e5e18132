from __future__ import annotations

import pytest
from benches import IMAGE, have_image, tools_image

from schedulearn.scheduler.runtimes.docker.api import Engine


@pytest.fixture(scope="session")
def engine(docker_url: str) -> str:
    """One that has the small image of shell tools."""
    there = Engine(docker_url)
    have_image(there, IMAGE, tools_image())
    there.close()
    return docker_url
