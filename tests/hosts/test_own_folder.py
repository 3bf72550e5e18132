"""A folder that was never an image trains on one of two engines, is resized over both, and its model comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from daily.own_folder import POLICY, train_resize_and_fetch
from engines import Lab, serving

pytestmark = [pytest.mark.long, pytest.mark.docker, pytest.mark.horovod]


def test_it_is_resized_over_both_engines(
    hosts: Lab, tmp_path: Path, docker_url: str, worker_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.load(worker_image, docker_url, "h1", "h2")
    settings = {**POLICY, "SCHEDULEARN_DEFAULT_IMAGE": worker_image}
    with serving(hosts, tmp_path / "data", "h1", "h2", gpus=1, **settings) as served:
        job = train_resize_and_fetch(served, tmp_path, monkeypatch)
        assert {task["host"] for task in served.job(job)["tasks"] if task["attempt"] == 2} == {"h1", "h2"}
