"""A container with the network of the service's own machine, as one of a job over several hosts is, has the uid of the
service: that does not make it the service's account."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benches import Program, docker_bench
from services import Service

ATTACK = Path(__file__).parents[1] / "support" / "attacks" / "host_network.py"
PYTHON = "/opt/venv/bin/python"
WAYS = {
    "directly", "by_a_child", "by_an_orphan", "by_who_was_handed_it", "while_nobody_holds_it",
    "by_a_process_without_its_first_thread", "by_one_that_may_not_be_looked_into", "by_one_that_has_ended",
}  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Jobs may span two hosts, so that containers may have the network of this one."""
    other = json.dumps([{"address": "unix:///none.sock", "name": "other"}])
    with Service(tmp_path_factory.mktemp("loopback") / "data", env={"SCHEDULEARN_HOSTS": other}) as made:
        yield made


@pytest.mark.docker
@pytest.mark.skipif(os.geteuid() != 0, reason="the service must have the uid of the container's root")
def test_a_container_is_nobody_however_it_connects(
    service: Service, tmp_path: Path, docker_url: str, worker_image: str
) -> None:
    bench = docker_bench(tmp_path, docker_url)
    try:
        attack = Program((PYTHON, "-c", ATTACK.read_text()))
        task_id = bench.start(attack, image=worker_image, host_network=True, env={"PORT": str(service.port)})
        output = bench.read(task_id, follow=True).decode()
        assert bench.wait_for_end(task_id).exit_code == 0, output
    finally:
        bench.close()
    answered = json.loads(output.splitlines()[-1])
    assert answered.keys() == WAYS
    assert answered == {way: 0 if way == "by_one_that_has_ended" else 401 for way in WAYS}
    assert "intruder" not in service.http.get("/api/v1/users").text


def test_the_services_own_account_is_known_however_it_connects(service: Service) -> None:
    env = {**os.environ, "PORT": str(service.port)}
    ran = subprocess.run([sys.executable, ATTACK], env=env, capture_output=True, text=True, timeout=120, check=True)
    answered: dict[str, Any] = json.loads(ran.stdout)
    assert answered.keys() == WAYS
    for way in ("directly", "by_a_child", "by_an_orphan", "by_who_was_handed_it"):
        assert answered[way] == 200, way
