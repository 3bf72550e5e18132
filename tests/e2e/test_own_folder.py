"""A folder that was never an image trains by one command, is resized while it trains, and its model comes back bit for
bit: without Docker, and in containers. tests/hosts has the same over two engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from daily.own_folder import POLICY, train_resize_and_fetch
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.horovod]


def test_as_local_processes_where_there_is_no_docker(
    tmp_path: Path, horovod_env: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {
        "SCHEDULEARN_ENVIRONMENTS": json.dumps({"horovod": str(horovod_env)}),
        "SCHEDULEARN_DEFAULT_IMAGE": "horovod",
    }
    with Service(tmp_path / "data", env={**POLICY, **env}) as served:
        train_resize_and_fetch(served, tmp_path, monkeypatch)


@pytest.mark.docker
def test_in_containers(tmp_path: Path, docker_url: str, worker_image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"DOCKER_HOST": docker_url, "SCHEDULEARN_DEFAULT_IMAGE": worker_image}
    with Service(tmp_path / "data", runtime="docker", env={**POLICY, **env}) as served:
        job = train_resize_and_fetch(served, tmp_path, monkeypatch)
        assert "in /workspace" in served.logs(job)
