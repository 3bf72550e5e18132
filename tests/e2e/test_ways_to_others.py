"""What a job's root finds of other jobs, of the service and of the host in a real container: nothing."""

from __future__ import annotations

import json
import secrets
import socket
from pathlib import Path
from typing import Any

import pytest
from clusters import wait_for
from services import Service

from schedulearn.api.reach import bridge_address

pytestmark = pytest.mark.docker
ATTACK = (Path(__file__).parents[1] / "support" / "attacks" / "ways_to_others.py").read_text()
PYTHON = "/opt/venv/bin/python"
VICTIM = """
echo "$MARK" | tee "$SCHEDULEARN_CHECKPOINT_DIR/checkpoint" "$SCHEDULEARN_OUTPUT_DIR/output" /tmp/file
while :; do sleep 0.2; done
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, docker_url: str, worker_image: str) -> Any:
    """What the attacker printed, while the victim ran on the same engine, and its data set was declared."""
    folder, mark, gateway = tmp_path_factory.mktemp("others"), secrets.token_hex(16), bridge_address()
    assert gateway is not None
    (folder / "declared").mkdir()
    (folder / "declared" / "picture").write_text("of a cat")
    env = {
        "DOCKER_HOST": docker_url,
        "SCHEDULEARN_DATA_SETS": json.dumps({"cats": str(folder / "declared"), "other": str(folder)}),
    }
    with (
        Service(folder / "data", runtime="docker", env=env) as service,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        victim = service.submit_shell(VICTIM, container_image=worker_image, env={"MARK": mark}, name=mark, gpus=0)
        service.wait(victim, "running", seconds=120)
        wait_for(lambda: mark in service.logs(victim), seconds=60, what="the victim's files")
        told = {
            "ATTACK": ATTACK,
            "MARK_A": mark[:7],
            "MARK_B": mark[7:],
            "GATEWAY": gateway,
            "PORT": str(service.port),
            "LOOPBACK_PORT": str(listener.getsockname()[1]),
            "DATA": "/cats",
            "VICTIM": victim,
        }
        attacker = service.submit_shell(
            f'exec {PYTHON} -c "$ATTACK"', container_image=worker_image, env=told, mounts={"cats": "/cats"}, gpus=0
        )
        service.wait(attacker, "succeeded", "failed", seconds=200)
        printed = service.logs(attacker)
        assert service.job(victim)["state"] == "running"
        service.cancel_all()
    assert any(mark in path.read_text(errors="replace") for path in (folder / "data" / "logs").rglob("*.log*"))
    return json.loads(printed.splitlines()[-1])


def test_of_other_jobs_nothing_is_seen(found: dict[str, Any]) -> None:
    """Their checkpoints, outputs, logs, variables and names; the database of the service holds them too. It does see
    what it made itself, to show that it looks."""
    assert found["files"] == ["/control/file"]
    assert found["processes"] == ["control"]


def test_the_hosts_loopback_is_not_reached(found: dict[str, Any]) -> None:
    assert found["host's loopback"] == []


def test_the_service_takes_a_jobs_own_reports_and_nothing_else(found: dict[str, Any]) -> None:
    assert found["API"] == ["foreign_host"]
    assert found["API by a job's token"] == ["foreign_host"]
    assert found["a job of its own making"] == "foreign_host"
    assert found["reports of another job"] == "unauthorized"
    assert found["its own report"] == "invalid", "it is let in, and told what a report holds"


def test_what_is_shared_can_be_read_only(found: dict[str, Any]) -> None:
    assert found["data"] == ["picture"]
    assert found["written"] == []
