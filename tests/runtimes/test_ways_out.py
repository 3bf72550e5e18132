"""Ways out of a job's container, each tried by its root in a real one: all are closed."""

from __future__ import annotations

import io
import json
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from benches import Bench, Program, tools_image

from schedulearn.scheduler.core.job_image import layer_of, layered
from schedulearn.scheduler.errors import ImageUnavailable
from schedulearn.scheduler.runtimes.docker import volumes
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.container import CAPABILITIES, PIDS
from schedulearn.scheduler.runtimes.docker.images import DockerImages
from schedulearn.scheduler.runtimes.docker.storage.volume_view import VolumeView
from schedulearn.scheduler.runtimes.docker.volumes import VolumeKind

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


SHARED = ("schedulearn/sdk", "schedulearn/checkpoints", "outputs", "data", "parts")


@pytest.fixture
def poisoned(engine: Engine) -> Iterator[str]:
    """An image with files where containers get volumes."""
    content = io.BytesIO(tools_image())
    with tarfile.open(fileobj=content, mode="a") as archive:
        for path in SHARED:
            for name in ("complete", "poison"):
                archive.addfile(tarfile.TarInfo(f"{path}/{name}"))
    name = f"schedulearn-test/poisoned-{uuid.uuid4().hex[:8]}"
    engine.api.import_image_from_data(content.getvalue(), name, "1")
    yield f"{name}:1"
    engine.api.remove_image(f"{name}:1", force=True)


@pytest.fixture
def engine(docker_url: str) -> Iterator[Engine]:
    with closing(Engine(docker_url)) as engine:
        yield engine


@pytest.mark.docker
def test_an_image_brings_nothing_into_the_sdk_of_all_jobs(
    engine: Engine, poisoned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine fills a new volume with what the image of its first container has there."""
    name = f"schedulearn-sdk-{uuid.uuid4().hex[:8]}"
    monkeypatch.setattr(volumes, "sdk_volume", lambda: name)
    volumes.SdkVolume().ensure(engine.api, poisoned)
    mounts = [volumes.mounts("j", "label", "c")[0]]
    container = engine.api.create_container(
        poisoned, ["true"], host_config=engine.api.create_host_config(mounts=mounts)
    )["Id"]
    found = {entry.name for entry in VolumeView(engine, container, volumes.SDK_PATH).entries("", "", 10)}
    assert found >= {"complete", "schedulearn"}
    assert "poison" not in found
    engine.api.remove_container(container)
    engine.api.remove_volume(name)


@pytest.mark.docker
@pytest.mark.parametrize("kind", [volumes.CHECKPOINTS, volumes.OUTPUTS, volumes.DATA, volumes.PARTS])
def test_an_image_brings_nothing_into_volumes_of_others(engine: Engine, poisoned: str, kind: VolumeKind) -> None:
    """The service looks into volumes, and fills them, by containers of whatever image the engine has."""
    job = uuid.uuid4().hex[:8]
    mounts = [kind.mount(job, {})]
    container = engine.api.create_container(
        poisoned, ["true"], host_config=engine.api.create_host_config(mounts=mounts)
    )["Id"]
    assert VolumeView(engine, container, kind.path).entries("", "", 10) == []
    engine.api.remove_container(container)
    engine.api.remove_volume(kind.volume(job))


@pytest.mark.docker
def test_requirements_are_installed_with_no_more_rights_than_a_job_has(engine: Engine) -> None:
    """They run programs of others, as root."""
    script = (
        "#!/bin/sh\nwhile read -r key value; do case $key in CapBnd:|NoNewPrivs:) echo $key $value;; esac; done "
        "< /proc/self/status\nexit 1\n"
    )
    content = io.BytesIO(tools_image())
    with tarfile.open(fileobj=content, mode="a") as archive:
        entry = tarfile.TarInfo("usr/bin/python3")
        entry.size, entry.mode = len(script), 0o755
        archive.addfile(entry, io.BytesIO(script.encode()))
    base = f"schedulearn-test/installer-{uuid.uuid4().hex[:8]}:1"
    engine.api.import_image_from_data(content.getvalue(), *base.split(":"))
    with pytest.raises(ImageUnavailable) as caught:
        list(DockerImages(engine).add_layer(layered(base, layer_of(["einops"])), ["einops"]))
    engine.api.remove_image(base, force=True)
    bits = sum(1 << bit for bit in (0, 1, 3, 5, 6, 7))
    assert f"CapBnd: {bits:016x}" in str(caught.value)
    assert "NoNewPrivs: 1" in str(caught.value)


@pytest.mark.docker
def test_a_container_on_the_hosts_network_is_as_closed_but_for_the_network(
    containers: Bench, docker_url: str, worker_image: str
) -> None:
    """As those of a job over several hosts are."""
    task_id = containers.start(Program((PYTHON, "-c", ATTACKS)), image=worker_image, host_network=True)
    found = json.loads(containers.read(task_id, follow=True).decode().splitlines()[-1])
    open_ways = {attack for attack, outcome in found["attacks"].items() if outcome == "open"}
    assert open_ways == set()
