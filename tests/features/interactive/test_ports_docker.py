"""The same over containers, whose ports nobody else can reach."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import wait_for
from servers.ports import SERVER, cookie_for, link_to, logged_in, origin_in, socket_to
from services import Service

pytestmark = pytest.mark.docker


@pytest.fixture
def service(tmp_path: Path, docker_url: str) -> Iterator[Service]:
    with Service(tmp_path / "data", runtime="docker", env={"DOCKER_HOST": docker_url}) as running:
        yield running
        running.cancel_all()


@pytest.mark.long
def test_a_container_s_loopback_is_reached(service: Service, worker_image: str) -> None:
    ports = {"notebook": 8888}
    env = {"SERVER": SERVER.read_text()}
    job = service.submit_shell(
        'exec python3 -c "$SERVER" 8888', container_image=worker_image, ports=ports, env=env, gpus=0
    )
    service.wait(job, "running", seconds=120)
    wait_for(lambda: "listens" in service.logs(job), seconds=60, what="the server")
    link = link_to(service, job)
    with socket_to(service, origin_in(link), cookie_for(service, link)) as opened:
        opened.send("ping")
        assert opened.recv(timeout=30) == "ping"
        with logged_in(service, job) as client:
            assert "Notebook" in client.get("/").text
            assert client.post("/data", content=os.urandom(300_000)).text == "got 300000"

    def relays() -> list[str]:
        processes = service.call("GET", f"/api/v1/jobs/{job}/processes")["processes"]
        return [each["command"] for each in processes if "nothing listens" in each["command"]]

    wait_for(lambda: not relays(), seconds=60, what="the end of all relays")
