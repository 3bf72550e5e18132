"""What holds for every probe; then the one in a container on a real Docker Engine, over a stand-in for the driver's
library."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benches import IMAGE, wait_for
from fakes.runtime import FakeRuntime
from gpu_probes.memory import FakeProbe
from gpu_probes.probe_images import ENVIRONMENT, WITH_GPUS, image_with_gpus

from schedulearn.metrics.probe.readings import Inventory, Reading, Sample
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.hosts.embedded import EmbeddedHost
from schedulearn.scheduler.hosts.fleet import RemoteHost
from schedulearn.scheduler.runtimes.docker import probe as docker_probe
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.container import LABEL, has_real_gpus, says_blind
from schedulearn.scheduler.runtimes.docker.probe import LABEL_PROBE, ContainerProbe, all_gpus, split_lines
from schedulearn.scheduler.runtimes.docker.probe_image import probe_version
from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.store import gpus
from schedulearn.scheduler.telemetry.probes import LocalProbe, Probe


@pytest.fixture(scope="module")
def engine(engine_url: str) -> Iterator[Engine]:
    engine = Engine(engine_url)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    return image_with_gpus(engine, tmp_path_factory.mktemp("nvml"))


class Probes:
    def __init__(self, engine: Engine, image: str) -> None:
        self.engine = engine
        self.image = image
        self.cluster = f"test{uuid.uuid4().hex}"
        self.made: list[ContainerProbe] = []

    def make(self, **options: Any) -> ContainerProbe:
        options = {"image": self.image, "gpu_options": lambda info: {}, **options}
        environment = {**ENVIRONMENT, **options.pop("environment", {})}
        probe = ContainerProbe(self.engine.url, self.cluster, no_fetch, environment=environment, **options)
        self.made.append(probe)
        return probe

    def containers(self) -> list[dict[str, Any]]:
        filters = {"label": f"{LABEL}={self.cluster}"}
        found: list[dict[str, Any]] = self.engine.api.containers(all=True, filters=filters)
        return found


def no_fetch(image: str) -> Iterator[Any]:
    raise ImageUnavailable(f"{image} is not here")


@pytest.fixture
def probes(engine: Engine, image: str) -> Iterator[Probes]:
    made = Probes(engine, image)
    yield made
    for probe in made.made:
        probe.close()
    for container in made.containers():
        engine.api.remove_container(container["Id"], force=True)


def take(readings: Iterator[Reading], kind: type, wanted: Callable[[Any], bool] = lambda reading: True) -> Any:
    end = time.monotonic() + 30
    for reading in readings:
        if isinstance(reading, kind) and wanted(reading):
            return reading
        assert time.monotonic() < end, f"no such {kind.__name__} in 30 s"
    raise AssertionError("the readings ended")


@pytest.fixture(params=["fake", "local", pytest.param("docker", marks=pytest.mark.docker)])
def probe(request: pytest.FixtureRequest) -> Iterator[Probe]:
    match request.param:
        case "fake":
            made: Probe = FakeProbe(8)
        case "local":
            made = LocalProbe()
        case _:
            made = request.getfixturevalue("probes").make()
    yield made
    made.close()


class TestEveryProbe:
    def test_an_inventory_comes_first_then_samples_of_the_same_gpus(self, probe: Probe) -> None:
        readings = probe.readings()
        found = next(readings)
        assert isinstance(found, Inventory)
        for _ in range(2):
            sample = take(readings, Sample)
            assert [gpu.uuid for gpu in sample.gpus] == [gpu.uuid for gpu in found.gpus]

    def test_interrupting_it_ends_the_readings_and_the_next_begin_with_an_inventory(self, probe: Probe) -> None:
        readings = probe.readings()
        take(readings, Sample)
        probe.interrupt(renew=True)
        assert len(list(readings)) <= 3
        assert isinstance(next(probe.readings()), Inventory)

    def test_once_closed_it_reads_nothing(self, probe: Probe) -> None:
        readings = probe.readings()
        take(readings, Sample)
        probe.close()
        assert len(list(readings)) <= 1
        assert [reading for reading in probe.readings() if isinstance(reading, Sample)] == []
        probe.close(remove=True)


@pytest.mark.docker
def test_a_container_tells_of_the_hosts_gpus_and_is_set_up_with_no_more_than_it_needs(probes: Probes) -> None:
    readings = probes.make().readings()
    found = take(readings, Inventory)
    assert [gpu.index for gpu in found.gpus] == list(range(8))
    assert found.version == probe_version()
    sample = take(readings, Sample)
    assert [gpu.utilization for gpu in sample.gpus] == [10.0 * (index + 1) for index in range(8)]
    assert abs(sample.at - time.time()) < 5
    assert sample.machine is not None
    assert sample.machine.cpus == os.cpu_count()
    assert 0 < sample.machine.memory_bytes < sample.machine.memory_total
    assert 0 < sample.machine.disk_bytes <= sample.machine.disk_total
    [container] = probes.containers()
    details = probes.engine.api.inspect_container(container["Id"])
    assert details["Config"]["Labels"][LABEL_PROBE] == probe_version()
    host = details["HostConfig"]
    assert (host["PidMode"], host["NetworkMode"], host["Privileged"]) == ("host", "none", False)
    assert host["CapDrop"] == ["ALL"]
    assert host["LogConfig"]["Config"]["max-size"] == "1m"


@pytest.mark.docker
def test_another_service_finds_the_same_container_and_makes_no_second(probes: Probes) -> None:
    first = probes.make()
    take(first.readings(), Sample)
    [before] = probes.containers()
    first.close()
    second = probes.make().readings()
    assert len(take(second, Inventory).gpus) == 8
    assert take(second, Sample).gpus
    assert [each["Id"] for each in probes.containers()] == [before["Id"]]


@pytest.mark.docker
def test_a_probe_that_was_killed_or_is_of_another_version_is_made_anew(
    probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = probes.make()
    readings = probe.readings()
    take(readings, Sample)
    [before] = probes.containers()
    probes.engine.api.kill(before["Id"])
    assert [reading for reading in readings if isinstance(reading, Inventory)] == []  # it ends
    take(probe.readings(), Sample)
    [after] = probes.containers()
    assert after["Id"] != before["Id"]
    monkeypatch.setattr(docker_probe, "probe_version", lambda: "newer")
    found = take(probe.readings(), Inventory)
    [last] = probes.containers()
    assert last["Id"] != after["Id"]
    assert (last["Labels"][LABEL_PROBE], found.version) == ("newer", "newer")
    probe.interrupt(renew=True)
    take(probe.readings(), Inventory)
    [renewed] = probes.containers()
    assert renewed["Id"] != last["Id"]


@pytest.mark.docker
def test_what_a_probe_says_at_its_end_is_told(probes: Probes) -> None:
    with pytest.raises(RuntimeFault, match=r"ended: .+"):
        for _ in probes.make(environment={"PYTHONHOME": "/nowhere"}).readings():
            pass


@pytest.mark.docker
def test_it_ends_while_it_is_followed_and_is_taken_off_a_host_that_is_removed(probes: Probes) -> None:
    import threading

    probe = probes.make()
    seen: list[Reading] = []
    thread = threading.Thread(target=lambda: seen.extend(probe.readings()))
    thread.start()
    wait_for(lambda: probes.containers() and probes.containers()[0]["State"] == "running", "the container")
    time.sleep(1.5)
    probe.close(remove=True)
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert probes.containers() == []


@pytest.mark.docker
def test_an_engine_that_gives_no_gpus_says_so_and_the_probe_tells_of_the_machine(
    probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "nvidia" in (probes.engine.api.info().get("Runtimes") or {}):
        pytest.skip("this engine does give GPUs")
    probe = probes.make(gpu_options=all_gpus)
    readings = probe.readings()
    found = next(readings)
    assert isinstance(found, Inventory)
    assert "install the NVIDIA container toolkit there" in found.problem
    sample = take(readings, Sample, lambda reading: reading.machine is not None)
    assert (found.gpus, sample.gpus, sample.machine.cpus) == ((), (), os.cpu_count())
    [first] = probes.containers()
    monkeypatch.setattr(docker_probe, "AGAIN_S", 0.0)
    list(readings)  # they end
    assert isinstance(next(probe.readings()), Inventory)
    [second] = probes.containers()
    assert second["Id"] != first["Id"], "it is tried again whether there are GPUs"


@pytest.mark.long
@pytest.mark.docker
def test_a_host_without_gpus_has_a_probe_that_tells_of_the_machine_alone(probes: Probes) -> None:
    for _ in range(2):
        readings = probes.make(sees_gpus=False).readings()
        found = next(readings)
        assert isinstance(found, Inventory)
        assert (found.gpus, found.problem) == ((), ""), "nothing is amiss"
        sample = take(readings, Sample, lambda reading: reading.machine is not None)
        assert (sample.gpus, sample.machine.cpus) == ((), os.cpu_count())
    [blind] = probes.containers()
    take(probes.make().readings(), Inventory, lambda reading: len(reading.gpus) == 8)
    [seeing] = probes.containers()
    assert seeing["Id"] != blind["Id"], "the host may have GPUs now"


def plain(info: object) -> dict[str, Any]:
    """Test machines may run no privileged containers."""
    return {"privileged": False}


@pytest.mark.docker
def test_a_gpu_is_reset_by_a_container_of_its_own_while_the_probe_is_away(probes: Probes) -> None:
    probe = probes.make(gpu_options=plain)
    take(probe.readings(), Sample)
    with pytest.raises(RuntimeFault, match=r"can't run nvidia-smi .* run `nvidia-smi --gpu-reset -i GPU-a` there"):
        probe.reset("GPU-a")
    assert probes.containers() == [], "it opens no GPU while one is reset"
    tag = f"schedulearn-test/smi-{uuid.uuid4().hex[:8]}"
    script = 'echo GPU $3 is in use > /dev/stderr; [ "$3" = GPU-a ]'
    write = f"printf '#!/bin/sh\\n%s\\n' '{script}' > /usr/bin/nvidia-smi; chmod +x /usr/bin/nvidia-smi"
    made = probes.engine.api.create_container(probes.image, entrypoint=["sh", "-c", write])["Id"]
    try:
        probes.engine.api.start(made)
        probes.engine.api.wait(made)
        probes.engine.api.commit(made, tag)
        other = probes.make(image=tag, gpu_options=plain)
        other.reset("GPU-a")
        with pytest.raises(RuntimeFault, match=r"did not reset it \(exit code 1\): GPU GPU-b is in use"):
            other.reset("GPU-b")
        assert probes.containers() == []
    finally:
        probes.engine.api.remove_container(made, force=True)
        probes.engine.api.remove_image(tag, force=True)


def test_hosts_without_simulated_gpus_have_a_probe(tmp_path: Path) -> None:
    probed: list[tuple[str, int | None]] = []

    def make_probe(host: RemoteHost, fetch: object) -> Probe:
        probed.append((host.id, host.simulated_gpus))
        return FakeProbe(0)

    made = Cluster(
        tmp_path,
        ClusterSettings(),
        make_host=lambda *_: EmbeddedHost("local", "fake", "fake", FakeRuntime("local"), []),
        make_probe=make_probe,
        make_runtime=lambda row: FakeRuntime(row.id),
    )
    made.start()
    try:
        for name, simulated in (("real", None), ("none", 0), ("simulated", 2)):
            made.fleet.add(HostSpec(address=f"tcp://{name}:1", name=name, simulate_gpus=simulated))
        assert probed == [("real", None), ("none", 0)]
    finally:
        made.close()


@pytest.mark.docker
def test_an_image_that_can_not_be_had_is_told(probes: Probes) -> None:
    with pytest.raises(ImageUnavailable, match="is not here"):
        next(probes.make(image="schedulearn-test/nowhere:1").readings())


@pytest.mark.docker
def test_a_process_in_a_container_is_known_by_its_container(probes: Probes, tmp_path: Path) -> None:
    """The probe sees the host's processes; the container's id is what the engine tells of a task."""
    task = probes.engine.api.create_container(IMAGE, ["sleep", "100"], labels={LABEL: probes.cluster})["Id"]
    probes.engine.api.start(task)
    pid = probes.engine.api.inspect_container(task)["State"]["Pid"]
    probe = probes.make(environment={"FAKE_NVML_STATE": "/tmp/state"})
    take(probe.readings(), Sample)
    [container] = [each for each in probes.containers() if each["Image"] == WITH_GPUS]
    lines = f"process 0 {pid} 1000\nprocess 0 {os.getpid()} 2000\n"
    job = probes.engine.api.exec_create(container["Id"], ["sh", "-c", f"printf '{lines}' > /tmp/state"])
    probes.engine.api.exec_start(job["Id"])
    sample = take(probe.readings(), Sample, lambda reading: bool(reading.gpus[0].processes))
    theirs, mine = sample.gpus[0].processes
    assert (theirs.name, theirs.container, theirs.memory_bytes) == ("sleep", task, 1000)
    assert mine.container == ""
    assert mine.name


@pytest.mark.docker
def test_a_task_that_says_it_has_no_gpus_is_lost_only_once_it_has_failed(probes: Probes, tmp_path: Path) -> None:
    runtime = DockerRuntime("here", probes.engine.url, tmp_path, probes.cluster)
    api = probes.engine.api
    for name, script in (
        ("schedulearn-runs-1-0", "echo 'Failed to initialize NVML: Unknown Error'; sleep 100"),
        ("schedulearn-ends-1-0", "echo 'Failed to initialize NVML: Unknown Error'; exit 1"),
        ("schedulearn-fine-1-0", "echo all is well; sleep 100"),
    ):
        container = api.create_container(
            IMAGE, ["sh", "-c", script], name=name, labels={LABEL: probes.cluster},
            environment={"CUDA_VISIBLE_DEVICES": "GPU-a"},
        )  # fmt: skip
        api.start(container)
    try:

        def seen() -> dict[str, str]:
            return {task.task_id: task.state.value for task in runtime.observe()}

        wait_for(lambda: seen().get("schedulearn-ends-1-0") == "lost", "the end to be taken for a loss")
        wait_for(lambda: b"NVML" in b"".join(runtime.logs("schedulearn-runs-1-0", follow=False)), "the words")
        assert seen()["schedulearn-runs-1-0"] == seen()["schedulearn-fine-1-0"] == "running", "words alone end nothing"
        assert all(task.container for task in runtime.observe())
    finally:
        runtime.close()


def test_words_count_only_where_there_are_real_gpus() -> None:
    assert has_real_gpus({"Config": {"Env": ["A=b", "CUDA_VISIBLE_DEVICES=GPU-a"]}})
    assert not has_real_gpus({"Config": {"Env": ["CUDA_VISIBLE_DEVICES="]}})
    assert not has_real_gpus({"Config": {"Env": None}})
    assert says_blind(b"x\nFailed to initialize NVML: Unknown Error\n")
    assert not says_blind(b"NVML is fine")


@pytest.mark.parametrize(
    ("info", "options"),
    [
        (
            {"Runtimes": {"nvidia": {}}, "DiscoveredDevices": [{"ID": "nvidia.com/gpu=all"}]},
            {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]},
        ),
        ({"Runtimes": {"nvidia": {}, "runc": {}}}, {"runtime": "nvidia"}),
        (
            {"DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}, {"ID": "nvidia.com/gpu=all"}]},
            {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]},
        ),
        ({}, {"Count": -1, "Capabilities": [["gpu", "utility"]]}),
    ],
)
def test_all_gpus_come_the_way_that_the_engine_has(info: dict[str, Any], options: dict[str, Any]) -> None:
    found = all_gpus(info)
    if "device_requests" in found:
        found = dict(found["device_requests"][0])
    assert found.items() >= options.items()


def test_lines_are_put_together_from_frames() -> None:
    frames = [(1, b"a"), (2, b"x\n"), (1, b"b\nc\n\n"), (1, b"d")]
    assert list(split_lines(iter(frames))) == [(2, b"x"), (1, b"ab"), (1, b"c")]


def test_tasks_are_told_apart_from_the_probe(tmp_path: Path) -> None:
    from schedulearn.scheduler.core.task import parse_task_id

    assert parse_task_id(docker_probe.container_name("0123456789abcdef")) is None


@pytest.mark.slow
@pytest.mark.docker
def test_a_services_host_has_the_gpus_that_its_probe_shows_over_kills_restarts_and_removal(
    probes: Probes, tmp_path: Path
) -> None:
    def cluster() -> Cluster:
        made = Cluster(
            tmp_path,
            ClusterSettings(),
            make_host=lambda *_: EmbeddedHost("local", "fake", "fake", FakeRuntime("local"), []),
            make_probe=lambda row, fetch: probes.make(),
            make_runtime=lambda row: DockerRuntime(row.id, row.address, tmp_path, probes.cluster),
        )
        made.start()
        return made

    def shown(service: Cluster) -> list[str]:
        with service.db.read() as db:
            uuids = [gpu.uuid for gpu in gpus.of_host(db, "far")]
        return [uuid for uuid in uuids if service.monitor.reading(uuid)]

    first = cluster()
    first.fleet.add(HostSpec(address=probes.engine.url, name="far"))
    wait_for(lambda: len(shown(first)) == 8, "8 GPUs with readings")
    [container] = probes.containers()
    probes.engine.api.kill(container["Id"])
    wait_for(lambda: [c["Id"] for c in probes.containers() if c["State"] == "running"] != [container["Id"]], "an end")
    wait_for(lambda: [c["State"] for c in probes.containers()] == ["running"], "a new probe")
    [container] = probes.containers()
    first.close()
    second = cluster()
    try:
        wait_for(lambda: len(shown(second)) == 8, "8 GPUs again")
        assert [c["Id"] for c in probes.containers()] == [container["Id"]]
        second.fleet.remove("far")
        wait_for(lambda: probes.containers() == [], "the probe to be taken off")
        with second.db.read() as db:
            assert gpus.of_host(db, "far") == []
    finally:
        second.close()
