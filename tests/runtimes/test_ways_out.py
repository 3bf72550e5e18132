"""Ways out of a job's container, each tried by its root in a real one: all are closed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benches import Bench, Program

from schedulearn.scheduler.runtimes.docker.container import CAPABILITIES, PIDS

ATTACKS = (Path(__file__).parents[1] / "support" / "attacks" / "ways_out.py").read_text()
PYTHON = "/opt/venv/bin/python"


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory, docker_url: str, worker_image: str) -> dict[str, Any]:
    """What became of each attack. It runs as root, with one GPU."""
    from benches import docker_bench

    bench = docker_bench(tmp_path_factory.mktemp("ways_out"), docker_url)
    try:
        task_id = bench.start(Program((PYTHON, "-c", ATTACKS)), image=worker_image)
        output = bench.read(task_id, follow=True).decode()
        assert bench.wait_for_end(task_id).exit_code == 0, output
    finally:
        bench.close()
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    assert found["uid"] == 0
    return found


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize(
    "attack",
    [
        "raw packets", "forged packets", "a device of the host", "its memory", "another file system",
        "another root", "a name space of its own", "the name spaces of the host", "settings of the kernel",
        "the reset of the machine", "a module of the kernel", "the clock", "its name", "the engine",
        "a port below 1024 of the host", "capabilities of a file",
    ],
)  # fmt: skip
def test_it_is_closed(tried: dict[str, Any], attack: str) -> None:
    assert tried["attacks"][attack] != "open", tried
    assert tried["attacks"].keys() >= {attack}


@pytest.mark.docker
def test_every_attack_was_tried(tried: dict[str, Any]) -> None:
    [marked] = [mark for mark in test_it_is_closed.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]
    assert set(tried["attacks"]) == set(marked.args[1])


@pytest.mark.docker
def test_no_setuid_program_gives_back_what_was_taken(tried: dict[str, Any]) -> None:
    assert tried["no_new_privileges"] is True
    assert tried["seccomp"] is True


@pytest.mark.docker
def test_it_has_the_capabilities_that_the_docs_name_and_no_other(tried: dict[str, Any]) -> None:
    assert sorted(tried["capabilities"]) == sorted(CAPABILITIES)
    docs = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    assert all(name in docs for name in CAPABILITIES)


@pytest.mark.docker
def test_a_fork_bomb_ends_in_its_own_container(tried: dict[str, Any]) -> None:
    assert PIDS < tried["threads"] <= 2 * PIDS


@pytest.mark.docker
def test_what_training_does_with_files_still_works(tried: dict[str, Any]) -> None:
    assert tried["files"] == "written, given away, and read where another owns them"


@pytest.mark.docker
def test_a_container_on_the_hosts_network_is_as_closed_but_for_the_network(
    containers: Bench, docker_url: str, worker_image: str
) -> None:
    """As those of a job over several hosts are."""
    task_id = containers.start(Program((PYTHON, "-c", ATTACKS)), image=worker_image, host_network=True)
    found = json.loads(containers.read(task_id, follow=True).decode().splitlines()[-1])
    open_ways = {attack for attack, outcome in found["attacks"].items() if outcome == "open"}
    assert open_ways == set()
