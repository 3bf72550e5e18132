"""What only containers can get wrong: names that are taken, hosts that do not answer, logs cut off half-way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benches import IMAGE, Bench, Program, shell, wait_for
from docker.types import DeviceRequest

from schedulearn.scheduler.core.task import EngineState, RunAs, TaskSpec
from schedulearn.scheduler.core.topology import Binding
from schedulearn.scheduler.errors import HostRefused, ImageUnavailable, RuntimeFault, StartRefused
from schedulearn.scheduler.runtimes.docker import container
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.container import gpu_options, read_task, why_not_run
from schedulearn.scheduler.runtimes.docker.images import _Layers
from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime, ping, with_less
from schedulearn.scheduler.runtimes.docker.survey import problems
from schedulearn.scheduler.runtimes.docker.volumes import sdk_volume
from schedulearn.scheduler.runtimes.pinning import complete_env
from schedulearn.scheduler.runtimes.recipes import FLAVOURS

SLEEPER = Program(("sleep", "100"))
REAL = TaskSpec("j", 1, 0, "i", ("a",), ("GPU-a", "GPU-b"))


@pytest.fixture
def engine(engine_url: str):
    engine = Engine(engine_url)
    yield engine
    engine.close()


@pytest.mark.docker
class TestContainers:
    def test_it_is_set_up_as_promised(self, containers: Bench, engine: Engine) -> None:
        task_id = containers.start(SLEEPER, shm_bytes=128 << 20, rank=3)
        found = engine.api.inspect_container(task_id)
        host = found["HostConfig"]
        assert host["Init"] is True
        assert host["ShmSize"] == 128 << 20
        assert host["Privileged"] is False
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert not host["Binds"]
        job = found["Config"]["Labels"]["schedulearn.job"]
        volumes = {mount["Destination"]: (mount["Type"], mount["Name"], mount["RW"]) for mount in found["Mounts"]}
        assert volumes == {  # of the engine's own, and nothing of the host
            "/schedulearn/sdk": ("volume", sdk_volume(), False),
            "/schedulearn/checkpoints": ("volume", f"schedulearn-checkpoints-{job}", True),
            "/outputs": ("volume", f"schedulearn-outputs-{job}", True),
        }
        assert host["NetworkMode"] in ("bridge", "default")
        assert host["RestartPolicy"]["Name"] in ("no", "")
        assert host["LogConfig"] == {
            "Type": "local",
            "Config": {"max-size": "16m", "max-file": "4", "compress": "false"},
        }
        labels = found["Config"]["Labels"]
        assert (labels["schedulearn.attempt"], labels["schedulearn.rank"]) == ("1", "3")
        assert task_id == f"schedulearn-{labels['schedulearn.job']}-1-3"

    def test_limits_and_data_sets_hold_in_the_container(
        self, containers: Bench, engine: Engine, tmp_path: Path
    ) -> None:
        (tmp_path / "words").write_text("of the operator")
        task_id = containers.start(
            shell("cat /data/set/words; echo spoilt > /data/set/words"),
            mounts={"/data/set": str(tmp_path)}, cpus=0.5, cpu_shares=2048, memory_bytes=64 << 20,
        )  # fmt: skip
        found = engine.api.inspect_container(task_id)["HostConfig"]
        assert (found["NanoCpus"], found["CpuShares"]) == (500_000_000, 2048)
        assert found["Memory"] == found["MemorySwap"] == 64 << 20
        assert containers.wait_for_end(task_id).exit_code != 0
        assert b"of the operator" in containers.read(task_id, follow=True)
        assert (tmp_path / "words").read_text() == "of the operator"
        greedy = containers.start(shell("x=$(head -c 200000000 /dev/zero | tr '\\0' a)"), memory_bytes=64 << 20)
        ended = containers.wait_for_end(greedy)
        assert ended.exit_code == 137 or ended.oom_killed, ended

    def test_a_task_is_bound_to_a_node_and_not_where_its_engine_has_less(
        self, containers: Bench, engine: Engine
    ) -> None:
        bound = containers.start(SLEEPER, binding=Binding("0", "0"))
        found = engine.api.inspect_container(bound)["HostConfig"]
        assert (found["CpusetCpus"], found["CpusetMems"]) == ("0", "0")
        for odd in (Binding("1000-1001"), Binding("0", "77")):
            unbound = containers.start(shell("echo it runs"), binding=odd)
            assert containers.wait_for_end(unbound).exit_code == 0
            found = engine.api.inspect_container(unbound)["HostConfig"]
            assert (found["CpusetCpus"], found["CpusetMems"]) == ("", "")

    def test_what_takes_room_is_told_and_an_image_that_is_used_stays(self, containers: Bench, engine: Engine) -> None:
        name = f"schedulearn-test/room-{uuid.uuid4().hex[:8]}:1"
        engine.api.tag(IMAGE, *name.split(":"))
        write = shell('head -c 1000000 /dev/zero > "$SCHEDULEARN_CHECKPOINT_DIR/big"')
        task_id = containers.start(write, image=name)
        containers.wait_for_end(task_id)
        disk = containers.runtime.disk()
        [image] = [image for image in disk.images if image.name == name]
        size = engine.api.inspect_image(name)["Size"]
        assert image.bytes == size
        assert 0 <= image.own_bytes <= size
        assert disk.images_bytes > 0
        [mine] = [each for each in disk.checkpoints if each.name in task_id]
        assert mine.bytes >= 1_000_000
        containers.runtime.remove(task_id)
        containers.runtime.images.remove(name)
        containers.runtime.images.remove(name)
        assert not containers.runtime.images.has(name)
        sleeper = containers.start(SLEEPER)
        containers.runtime.images.remove(IMAGE)
        assert containers.runtime.images.has(IMAGE)
        containers.runtime.stop(sleeper, 0)

    def test_an_image_whose_layers_another_one_has_too_still_has_its_size(
        self, containers: Bench, engine: Engine
    ) -> None:
        repository = f"schedulearn-test/shared-{uuid.uuid4().hex[:8]}"
        task_id = containers.start(shell("head -c 1000000 /dev/zero > /tmp/own"))
        containers.wait_for_end(task_id)
        engine.api.commit(task_id, repository, "1")
        engine.api.commit(task_id, repository, "2", changes=["ENV SECOND=1"])
        containers.runtime.remove(task_id)
        base = engine.api.inspect_image(IMAGE)["Size"]
        try:
            images = {image.name: image for image in containers.runtime.disk().images}
            assert images[f"{repository}:1"].bytes >= base + 1_000_000
            assert images[f"{repository}:2"].bytes >= base + 1_000_000
            assert [images[f"{repository}:{tag}"].own_bytes for tag in ("1", "2")] == [0, 0]
            assert images[IMAGE].bytes == base
        finally:
            for tag in ("1", "2"):
                containers.runtime.images.remove(f"{repository}:{tag}")

    def test_a_folder_that_the_host_lacks_is_named(self, containers: Bench, tmp_path: Path) -> None:
        missing = str(tmp_path / "nowhere")
        with pytest.raises(StartRefused, match="nowhere"):
            containers.start(SLEEPER, mounts={"/data/set": missing})
        with pytest.raises(StartRefused, match="no longer declared"):
            containers.start(SLEEPER, mounts={"/data/set": ""})

    @pytest.mark.parametrize("writable", [True, False])
    def test_a_folder_over_a_file_of_the_image_is_refused(
        self, containers: Bench, tmp_path: Path, writable: bool
    ) -> None:
        """Else it would be tried for ever, and hold its GPU."""
        change = {"writable": ["/bin/sleep"], "run_as": RunAs("ada", 4321, 4322, ())} if writable else {}
        with pytest.raises(StartRefused, match="is a file in the image: choose another path"):
            containers.start(SLEEPER, mounts={"/bin/sleep": str(tmp_path)}, **change)
        assert containers.runtime.observe() == []

    def test_an_entry_point_of_the_image_does_not_swallow_the_command(self, containers: Bench, engine: Engine) -> None:
        name = f"schedulearn-test/entry-{uuid.uuid4().hex[:8]}"
        made = engine.api.create_container(IMAGE, entrypoint=["nonesuch"])
        engine.api.commit(made["Id"], repository=name)
        engine.api.remove_container(made["Id"])
        task_id = containers.start(shell("echo hello"), image=name)
        assert containers.read(task_id, follow=True) == b"hello\n"
        containers.runtime.remove(task_id)
        engine.api.remove_image(name)

    def test_a_name_that_somebody_else_took_is_refused_and_his_is_left_alone(
        self, containers: Bench, engine: Engine
    ) -> None:
        spec = containers.spec(SLEEPER)
        theirs = engine.api.create_container(IMAGE, ["sleep", "100"], name=spec.task_id)["Id"]
        try:
            with pytest.raises(StartRefused, match=f"{spec.task_id}.*does not belong to Schedulearn"):
                containers.runtime.start(spec)
            containers.runtime.stop(spec.task_id, 0)
            containers.runtime.remove(spec.task_id)
            assert containers.runtime.observe() == []
            assert engine.api.inspect_container(theirs)["State"]["Status"] == "created"
        finally:
            engine.api.remove_container(theirs, force=True)

    def test_another_clusters_task_is_neither_seen_nor_touched(
        self, containers: Bench, engine_url: str, tmp_path: Path
    ) -> None:
        spec = containers.spec(SLEEPER)
        containers.runtime.start(spec)
        other = DockerRuntime("here", engine_url, tmp_path / "other", "another-cluster")
        assert other.observe() == []
        other.stop(spec.task_id, 0)
        other.remove(spec.task_id)
        with pytest.raises(StartRefused, match="another Schedulearn"):
            other.start(spec)
        other.close()
        assert containers.see(spec.task_id).state is EngineState.RUNNING

    def test_a_task_that_somebody_removed_is_gone_and_its_log_ends(self, containers: Bench, engine: Engine) -> None:
        task_id = containers.start(shell("echo one; sleep 100"))
        output = containers.runtime.logs(task_id, True)
        assert next(output) == b"one\n"
        engine.api.remove_container(task_id, force=True)
        assert list(output) == []
        assert containers.see(task_id) is None
        assert containers.read(task_id) == b"one\n"

    def test_a_host_without_that_gpu_refuses_and_keeps_no_container(self, containers: Bench, engine: Engine) -> None:
        if "nvidia" in engine.api.info()["Runtimes"]:
            pytest.skip("this host has GPUs")
        with pytest.raises(HostRefused, match="Docker gives no GPUs to containers: install"):
            containers.start(SLEEPER, simulated_gpus=False)
        assert containers.runtime.observe() == []

    def test_what_the_engine_says_of_gpus_is_understood(
        self, containers: Bench, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Real words of a real engine, for what it can be asked for without a GPU."""
        if "nvidia" in engine.api.info()["Runtimes"]:
            pytest.skip("this host has GPUs")
        ways: list[tuple[dict[str, Any], str]] = [
            ({"runtime": "nvidia"}, "has lost its nvidia runtime"),
            ({"devices": ["/dev/nvidia77:/dev/nvidia77:rwm"]}, "a device file of the GPUs is missing"),
            ({"device_requests": [DeviceRequest(device_ids=["0"], capabilities=[["gpu"]])]}, "gives no GPUs"),
            (
                {"device_requests": [DeviceRequest(driver="cdi", device_ids=["nvidia.com/gpu=GPU-none"])]},
                "CDI description|gives no GPUs",
            ),
        ]
        for options, words in ways:
            monkeypatch.setattr(container, "gpu_options", lambda task, info, options=options: options)
            with pytest.raises(HostRefused, match=words) as refused:
                containers.start(SLEEPER, simulated_gpus=False)
            assert refused.value.blame == "host", options
            assert containers.runtime.observe() == []

    def test_gpu_containers_have_the_limits_that_nccl_needs_where_the_engine_may(
        self, containers: Bench, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(container, "gpu_options", lambda task, info: {})
        told = containers.start(shell("ulimit -l; ulimit -s"), simulated_gpus=False)
        assert containers.wait_for_end(told).exit_code == 0
        raised = bool(engine.api.inspect_container(told)["HostConfig"]["Ulimits"])  # an engine may not be allowed to
        wanted = [b"unlimited", str((64 << 20) >> 10).encode()]
        assert (containers.read(told).split() == wanted) is raised

    def test_memory_that_ran_out_is_told_apart(self) -> None:
        state = {"Status": "exited", "ExitCode": 137, "OOMKilled": True, "StartedAt": "0001-01-01T00:00:00Z"}
        task = read_task("t", {"State": state})
        assert (task.state, task.exit_code, task.oom_killed, task.started_at) == (EngineState.EXITED, 137, True, None)

    def test_a_task_does_not_end_before_it_starts(self) -> None:
        """The engine writes the start down once the process runs, when a short one may have ended."""
        times = {"StartedAt": "2026-11-22T09:05:28.349357Z", "FinishedAt": "2026-11-22T09:05:28.348883Z"}
        task = read_task("t", {"State": {"Status": "exited", "ExitCode": 3, **times}})
        assert task.started_at == task.finished_at == pytest.approx(1795338328.348883, abs=1e-6)


@pytest.mark.docker
class TestLogs:
    SERVICE = """
import sys
from pathlib import Path
from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime
runtime = DockerRuntime("here", sys.argv[1], Path(sys.argv[2]), sys.argv[3], log_cap_bytes=100 << 20)
runtime.observe()
for _ in runtime.logs(sys.argv[4], True):
    print("some", flush=True)
"""

    def test_a_service_killed_while_it_copies_loses_and_doubles_nothing(self, engine_url: str, tmp_path: Path) -> None:
        cluster = f"test-{uuid.uuid4().hex[:8]}"
        runtime = DockerRuntime("here", engine_url, tmp_path / "first", cluster)
        spec = TaskSpec(
            uuid.uuid4().hex[:10], 1, 0, IMAGE,
            ("sh", "-c", "for i in $(seq 40); do seq 1 400; seq 1 100 >&2; sleep 0.04; done; head -c 40000 /dev/zero"),
            (),
        )  # fmt: skip
        runtime.start(spec)
        runtime.close()
        for delay in (0.2, 0.5, 0.9):
            arguments = [engine_url, str(tmp_path / "second"), cluster, spec.task_id]
            with subprocess.Popen([sys.executable, "-c", self.SERVICE, *arguments], stdout=subprocess.PIPE) as service:
                service.stdout.readline()
                time.sleep(delay)
                service.send_signal(signal.SIGKILL)
        last = DockerRuntime("here", engine_url, tmp_path / "second", cluster)
        resumed = b"".join(last.logs(spec.task_id, True))
        last.close()
        # Copied in one go, for comparison: the two streams mix in the engine's own order.
        fresh = DockerRuntime("here", engine_url, tmp_path / "third", cluster)
        assert resumed == b"".join(fresh.logs(spec.task_id, True))
        assert sorted(resumed.rstrip(b"\0").split()) == sorted(
            [str(n).encode() for n in (*range(1, 401), *range(1, 101))] * 40
        )
        assert resumed.endswith(b"\0" * 40000)
        fresh.remove(spec.task_id)
        fresh.close()

    def test_removing_copies_the_rest_of_the_log_first(self, containers: Bench) -> None:
        task_id = containers.start(shell("seq 1 1000; sleep 100"))
        containers.runtime.remove(task_id)
        kept = containers.read(task_id)
        assert kept in (b"", "".join(f"{n}\n" for n in range(1, 1001)).encode()) or kept.startswith(b"1\n2\n")


class TestImages:
    def test_our_own_names_are_never_asked_of_a_registry(self, tmp_path: Path) -> None:
        runtime = DockerRuntime("here", "unix:///nonexistent.sock", tmp_path, "c")
        for name in ("schedulearn/miner", "docker.io/schedulearn/horovod-cpu:1.0", "schedulearn/horovod-cpu@sha256:00"):
            with pytest.raises(ImageUnavailable, match="built on the host"):
                list(runtime.images.fetch(name))
        runtime.close()

    def test_our_own_images_are_built_by_the_engine_of_the_host(self, tmp_path: Path, monkeypatch) -> None:
        script = tmp_path / "build-image.sh"
        script.write_text('echo "progress 50 $1 at $DOCKER_HOST"; echo "ready schedulearn/horovod-$1"')
        monkeypatch.setattr("schedulearn.scheduler.runtimes.docker.images.recipe_path", lambda name: script)
        runtime = DockerRuntime("here", "unix:///some.sock", tmp_path, "c")
        *_, last = runtime.images.fetch("schedulearn/horovod-cuda13:latest")
        assert (last.percent, last.message) == (50, "cuda13 at unix:///some.sock")
        runtime.close()

    def test_the_flavours_are_those_that_the_scripts_know(self) -> None:
        versions = Path(__file__).parents[2] / "worker_images/versions.env"
        told = re.findall(r'^FLAVOURS="(.*)"$', versions.read_text(), re.M)
        assert told == [" ".join(FLAVOURS)]

    def test_the_progress_of_a_pull_sums_up_its_layers_and_never_falls(self) -> None:
        layers = _Layers("torch")
        events = [
            {"status": "Pulling from library/torch", "id": "latest"},
            {"status": "Already exists", "id": "a"},
            {"status": "Pulling fs layer", "id": "b"},
            {"status": "Downloading", "id": "b", "progressDetail": {"current": 50, "total": 100_000_000}},
            {"status": "Pulling fs layer", "id": "c"},
            {"status": "Downloading", "id": "b", "progressDetail": {"current": 50_000_000, "total": 100_000_000}},
            {"status": "Download complete", "id": "b", "progressDetail": {}},
            {"status": "Extracting", "id": "b", "progressDetail": {"current": 50_000_000, "total": 100_000_000}},
            {"status": "Pull complete", "id": "b"},
            {"status": "Pull complete", "id": "c"},
            {"status": "Digest: sha256:00"},
        ]
        seen = []
        for event in events:
            layers.take(event)
            seen.append(layers.progress().percent)
        assert seen == sorted(seen)
        assert seen[-1] == 100
        assert 30 < seen[5] < 40

    @pytest.mark.docker
    def test_a_pull_that_is_impossible_says_what_to_check(self, containers: Bench) -> None:
        with pytest.raises(ImageUnavailable, match="Check its name"):
            list(containers.runtime.images.fetch("localhost:1/nothing:1"))
        with pytest.raises(ImageUnavailable):
            list(containers.runtime.images.fetch("NOT a name"))


class TestGpus:
    def test_cdi_devices_come_first_then_a_device_request_then_the_nvidia_runtime(self) -> None:
        real = replace(REAL, device_files=("/dev/nvidia3", "/dev/nvidiactl"))
        files = ["/dev/nvidia3:/dev/nvidia3:rwm", "/dev/nvidiactl:/dev/nvidiactl:rwm"]
        both = {"Runtimes": {"runc": {}, "nvidia": {}}}
        found = [{"ID": "nvidia.com/gpu=GPU-a"}, {"ID": "nvidia.com/gpu=GPU-b"}, {"ID": "nvidia.com/gpu=all"}]
        options = gpu_options(real, {**both, "DiscoveredDevices": found})
        [request] = options.pop("device_requests")
        assert (request["Driver"], request["DeviceIDs"]) == ("cdi", ["nvidia.com/gpu=GPU-a", "nvidia.com/gpu=GPU-b"])
        assert options == {}, "they stay over a reload of systemd by themselves"
        for info in (both, {**both, "DiscoveredDevices": found[1:]}, {"Runtimes": {"runc": {}}}):
            options = gpu_options(real, info)
            [request] = options.pop("device_requests")
            assert (request["DeviceIDs"], request["Capabilities"]) == (["GPU-a", "GPU-b"], [["gpu"]])
            assert options == {"devices": files}
        assert gpu_options(replace(real, gpu_request=False), both) == {"runtime": "nvidia", "devices": files}
        assert "device_requests" in gpu_options(replace(real, gpu_request=False), {"Runtimes": {"runc": {}}})
        assert gpu_options(replace(REAL, gpu_request=False), both) == {"runtime": "nvidia"}

    def test_what_an_engine_can_not_do_is_left_out_one_by_one(self) -> None:
        task = replace(REAL, device_files=("/dev/nvidia3",), binding=Binding("0"))
        words = (
            'error gathering device information while adding custom device "/dev/nvidia3": no such file or directory',
            'could not select device driver "" with capabilities: [[gpu]]',
            "Requested CPUs are not available - requested 0, available: 1",
        )
        for each in words:
            less = with_less(task, each)
            assert less is not None, each
            assert with_less(less, each) is None, "once"
            task = less
        assert (task.device_files, task.gpu_request, task.binding) == ((), False, Binding())

    def test_containers_count_their_gpus_from_zero_since_they_have_no_others(self) -> None:
        assert complete_env(REAL, {}, hides_others=True)["CUDA_VISIBLE_DEVICES"] == "0,1"
        assert complete_env(REAL, {})["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
        for hides in (True, False):
            env = complete_env(REAL, {}, hides_others=hides)
            assert env["NVIDIA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
            assert (
                complete_env(replace(REAL, simulated_gpus=True), {}, hides_others=hides)["CUDA_VISIBLE_DEVICES"] == ""
            )

    def test_a_host_whose_containers_may_lose_their_gpus_is_warned_of(self) -> None:
        info = {"Runtimes": {"nvidia": {}}, "CgroupVersion": "2", "CgroupDriver": "systemd"}
        cdi = {"DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}]}
        odd = [{**info, **cdi}, {**info, "CgroupVersion": "1"}, {**info, "CgroupDriver": "cgroupfs"}, {}]
        assert [problem.code for problem in problems(info, 0.0)] == ["gpus_by_hook"]
        assert [list(problems(each, 0.0)) for each in odd] == [[]] * 4

    def test_limits_and_capabilities_of_containers_with_gpus(self) -> None:
        class Api:
            def create_host_config(self, **arguments: Any) -> dict[str, Any]:
                return arguments

        def made(task: TaskSpec, info: dict[str, Any]) -> tuple[list[str], bool]:
            host = container.create_arguments(Api(), task, "cluster", info)["host_config"]
            return [each["Name"] for each in host["ulimits"]], "SYS_NICE" in host["cap_add"]

        nice = replace(REAL, sys_nice=True)
        limits = ["memlock", "stack"]
        assert made(REAL, {}) == (limits, False), "the capability only where the operator allows it"
        assert made(nice, {}) == (limits, True)
        assert made(nice, {"SecurityOptions": ["name=rootless"]}) == ([], True), "rootless engines raise no limits"
        assert made(replace(nice, simulated_gpus=True), {}) == made(replace(nice, gpu_uuids=()), {}) == ([], False)

    def test_simulated_ones_are_asked_of_nobody(self) -> None:
        simulated = TaskSpec("j", 1, 0, "i", ("a",), ("GPU-a",), simulated_gpus=True)
        assert gpu_options(simulated, {"Runtimes": {"runc": {}, "nvidia": {}}, "DefaultRuntime": "runc"}) == {}
        both = {"Runtimes": {"runc": {}, "nvidia": {}}, "DefaultRuntime": "nvidia"}
        assert gpu_options(simulated, both) == {"runtime": "runc"}


class TestConnection:
    def test_an_engine_that_does_not_answer_is_a_fault_that_names_it(self, tmp_path: Path) -> None:
        runtime = DockerRuntime("here", "unix:///nonexistent.sock", tmp_path, "c")
        for call in (
            runtime.observe,
            lambda: runtime.images.has("x"),
            lambda: runtime.start(REAL),
            lambda: runtime.stop(REAL.task_id, 1),
            lambda: runtime.remove(REAL.task_id),
            lambda: list(runtime.images.fetch("x")),
        ):
            with pytest.raises(RuntimeFault, match=r"nonexistent\.sock does not answer: .*No such file"):
                call()
        assert list(runtime.logs(REAL.task_id, True)) == []
        runtime.close()
        with pytest.raises(RuntimeFault, match="closed"):
            runtime.observe()

    def test_a_ping_says_why_not(self) -> None:
        assert "No such file" in ping("unix:///nonexistent.sock")
        assert "refused" in ping("tcp://127.0.0.1:1")

    @pytest.mark.docker
    def test_a_ping_of_an_engine_says_nothing(self, engine_url: str) -> None:
        assert ping(engine_url) is None

    @pytest.mark.docker
    def test_a_host_is_reached_through_ssh(self, engine_url: str, tmp_path: Path, monkeypatch) -> None:
        """The real path but for the network: `ssh` is a stand-in that runs its command here."""
        stand_in = tmp_path / "bin" / "ssh"
        stand_in.parent.mkdir()
        stand_in.write_text(f"#!/bin/sh\nfor last; do :; done\nDOCKER_HOST={engine_url} exec $last\n")
        stand_in.chmod(0o755)
        monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
        assert ping("ssh://user@gpu1") is None
        runtime = DockerRuntime("gpu1", "ssh://user@gpu1", tmp_path, f"test-{uuid.uuid4().hex[:8]}")
        spec = TaskSpec(uuid.uuid4().hex[:10], 1, 0, IMAGE, ("sh", "-c", "echo one; sleep 100"), ())
        runtime.start(spec)
        output = runtime.logs(spec.task_id, True)
        assert next(output) == b"one\n"
        runtime.stop(spec.task_id, 0)
        assert list(output) == []
        (task,) = runtime.observe()
        assert task.state is EngineState.EXITED
        runtime.remove(spec.task_id)
        runtime.close()


def test_the_words_of_the_init_are_understood() -> None:
    line = b"[FATAL tini (7)] exec train.sh failed: Permission denied\n"
    assert why_not_run(line, 126) == "train.sh: Permission denied"
    assert why_not_run(b"[FATAL tini (1)] exec x y failed: No such file or directory", 127) == "x y: command not found"
    assert why_not_run(b"sh: 1: foo: not found\n", 127) == ""


@pytest.mark.docker
def test_watching_goes_on_after_the_connection_broke(containers: Bench) -> None:
    watch = containers.runtime.watch()
    next(watch)
    for stream in list(containers.runtime._engine._streams):
        stream.cancel()
    next(watch)
    next(watch)
    wait_for(lambda: containers.runtime._engine._streams)
    containers.start(SLEEPER)
    next(watch)
    containers.runtime.close()
    assert list(watch) == []


@pytest.mark.docker
class TestCudaCheck:
    def test_a_host_that_gives_no_gpus_fails_it_and_an_image_that_is_not_there_skips_it(
        self, containers: Bench, engine: Engine
    ) -> None:
        if "nvidia" in engine.api.info()["Runtimes"]:
            pytest.skip("this host has GPUs")
        runtime = containers.runtime
        skipped = runtime.cuda_check(lambda: "schedulearn/nothing")
        failed = runtime.cuda_check(lambda: IMAGE)
        assert skipped is not None
        assert failed is not None
        assert "is missing" in skipped.run(["GPU-a"]).skipped
        assert "Docker gives no GPUs to containers" in failed.run(["GPU-a"]).errors[""]
        left = engine.api.containers(all=True, filters={"name": "schedulearn-cuda-check"})
        assert left == []
