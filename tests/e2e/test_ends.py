"""On a real Docker Engine the end of a command is noticed by its event, and not by the next look around."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from services import Service

pytestmark = pytest.mark.docker
RUNS = 5
LOOK_AROUND_S = 10.0  # what would notice it without the event


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.long
def test_an_end_is_noticed_when_it_happens(tmp_path: Path, docker_url: str, worker_image: str) -> None:
    late = []
    with Service(tmp_path / "data", runtime="docker", env={"DOCKER_HOST": docker_url}) as served:
        for index in range(RUNS):
            end = "sh -c 'sleep 1; exit 3'" if index % 2 else "sleep 1"
            job = served.wait(served.submit(end, container_image=worker_image), "succeeded", "failed")
            late.append(instant(job["finished_at"]) - instant(job["tasks"][0]["finished_at"]))
        assert served.rows("SELECT count(*) FROM lease") == [(0,)]
    assert max(late) < LOOK_AROUND_S / 3, late
