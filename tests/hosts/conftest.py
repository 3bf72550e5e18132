"""Three engines for the whole session, cleared between tests; and a service that knows them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from benches import IMAGE, tools_image
from engines import Impossible, Lab, serving
from services import Service


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if not os.environ.get("SCHEDULEARN_TEST_HOSTS"):
        pytest.skip("NOT tested here: three real engines take 9 minutes. Run `make test-hosts`")
    # Below /tmp itself: the path of a socket may have 107 characters.
    folder = Path(f"/tmp/sched-lab-{tmp_path_factory.getbasetemp().name}")
    made = Lab(folder)
    try:
        made.__enter__()
    except Impossible as error:
        pytest.skip(f"NO HOSTS, so several Docker Engines are NOT tested: {error}")
    try:
        archive = folder / "tools.tar"
        archive.write_bytes(tools_image())
        for host in made.hosts.values():
            host.docker("import", str(archive), IMAGE)
        yield made
    finally:
        made.__exit__()


@pytest.fixture
def hosts(lab: Lab) -> Iterator[Lab]:
    yield lab
    for host in lab.hosts.values():
        host.wipe()


@pytest.fixture
def served(hosts: Lab, tmp_path: Path) -> Iterator[Service]:
    with serving(hosts, tmp_path / "data", *hosts.hosts) as service:
        yield service


@pytest.fixture
def training(hosts: Lab, tmp_path: Path, docker_url: str, worker_image: str) -> Iterator[Service]:
    """The same with h1 and h2 only, which have the worker image."""
    hosts.load(worker_image, docker_url, "h1", "h2")
    with serving(hosts, tmp_path / "data", "h1", "h2") as service:
        yield service
