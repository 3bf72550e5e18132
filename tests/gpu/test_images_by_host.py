"""One name of a framework: each host gets the image that fits its GPUs, and keeps to it."""

from pathlib import Path

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime
from gpu_probes.memory import FakeProbe

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.outcomes.blame import Blame
from schedulearn.scheduler.errors import HostRefused
from schedulearn.scheduler.specs.job import JobSpec

CPU, CUDA, CUDA12 = "schedulearn/horovod-cpu", "schedulearn/horovod-cuda13", "schedulearn/horovod-cuda12"


class Driver(FakeProbe):
    driver = "580.95.05"


class OldDriver(FakeProbe):
    driver = "535.1"


def fetching(host: str, nvidia: bool) -> FakeRuntime:
    runtime = FakeRuntime(host, images={"img"}, fetchable={CPU: (), CUDA: (), CUDA12: ()})
    runtime.facts = HostFacts(host, nvidia=nvidia)
    return runtime


def pytorch(gpus: int = 1) -> JobSpec:
    return spec("train", gpus, container_image="schedulearn/pytorch")


def test_hosts_with_gpus_get_the_image_with_cuda_and_others_the_one_without(tmp_path: Path) -> None:
    plain, gpu = fetching("local", nvidia=False), fetching("far", nvidia=True)
    probe = Driver(2, prefix="GPU-far")
    with FakeCluster(tmp_path, gpus=1, runtime=plain, others={"far": gpu}, other_probes={"far": probe}) as c:
        c.add("far", gpus=None)
        wait_for(lambda: c.gpu(probe.uuid(1)), what="the GPUs of the host")
        small, large = c.submit(pytorch(1), pytorch(2))
        c.wait(small, "running")
        c.wait(large, "running")
        assert plain.images.present == {"img", CPU}
        assert gpu.images.present == {"img", CUDA}


def test_a_host_with_an_older_driver_gets_the_image_with_an_older_cuda(tmp_path: Path) -> None:
    runtime = fetching("local", nvidia=True)
    with FakeCluster(tmp_path, runtime=runtime, probe=OldDriver(1)) as c:
        [job] = c.submit(pytorch())
        c.wait(job, "running")
        assert runtime.images.present == {"img", CUDA12}


class Ancient(FakeProbe):
    driver = "470.256"


class NotKnown(FakeProbe):
    driver = ""


@pytest.mark.parametrize(
    ("probe", "image", "why"),
    [
        (Ancient(1), "schedulearn/pytorch", "On local no image with CUDA runs GPUs with driver 470.256"),
        (NotKnown(1), "schedulearn/keras", "On local the NVIDIA driver is not known yet"),
        (Driver(1), "schedulearn/tensorflow", "chedulearn/tensorflow does not exist with CUDA"),
    ],
)
def test_a_job_with_gpus_never_gets_an_image_without_cuda(
    tmp_path: Path, probe: FakeProbe, image: str, why: str
) -> None:
    runtime = fetching("local", nvidia=True)
    with FakeCluster(tmp_path, runtime=runtime, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)), what="the GPU")
        elastic, rigid = c.submit(
            spec("grow", 1, container_image=image, elastic=True), spec("train", 1, container_image=image)
        )
        for job in (elastic, rigid):
            wait_for(lambda job=job: why in c.cluster.loop.waiting.get(job, ""), what="why it waits")
            assert c.state(job) == "queued"
        assert c.leases() == []
        assert runtime.images.present == {"img"}
        [own] = c.submit(spec())
        c.wait(own, "running")


def test_a_job_goes_to_the_host_that_can_run_its_image(tmp_path: Path) -> None:
    old, new = fetching("local", nvidia=True), fetching("far", nvidia=True)
    probe = Driver(1, prefix="GPU-far")
    with FakeCluster(tmp_path, runtime=old, probe=Ancient(4), others={"far": new}, other_probes={"far": probe}) as c:
        c.add("far", gpus=None)
        wait_for(lambda: c.gpu(probe.uuid(0)), what="the GPUs of the host")
        first, second = c.submit(pytorch(), pytorch())
        c.wait(first, "running")
        wait_for(lambda: "It waits for 1 GPU that can run its image." in c.cluster.loop.waiting.get(second, ""))
        assert new.images.present == {"img", CUDA}
        assert old.images.present == {"img"}


def test_an_image_that_asks_for_a_newer_driver_is_not_started_there_again(tmp_path: Path) -> None:
    """Its own name says nothing of CUDA: the engine refuses it, and other images go on."""
    local, far = FakeRuntime("local"), FakeRuntime("far")
    why = "on local the image can't start: it asks for cuda>=13.0: install a newer NVIDIA driver there"
    with FakeCluster(
        tmp_path, runtime=local, probe=Driver(1), others={"far": far}, other_probes={"far": Driver(1, prefix="GPU-far")}
    ) as c:
        wait_for(lambda: c.gpu("GPU-real-0"), what="the GPU")
        local.fail_next("start", HostRefused(why, Blame.IMAGE))
        [job] = c.submit(spec(container_image="lab/new"))
        wait_for(lambda: why[3:] in c.cluster.loop.waiting.get(job, ""), what="why it waits")
        [other] = c.submit(spec(container_image="lab/old"))
        c.wait(other, "running")
        c.add("far", gpus=None)
        c.wait(job, "running")
        assert far.tasks()
        assert c.job(job).losses == 0


def test_a_service_that_starts_anew_knows_the_driver_before_its_probe_answers(tmp_path: Path) -> None:
    runtime, probe = fetching("local", nvidia=True), Driver(1)
    with FakeCluster(tmp_path, runtime=runtime, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)), what="the GPU")
    silent = Driver(1)
    silent.fault = "no answer yet"
    with FakeCluster(tmp_path, runtime=fetching("local", nvidia=True), probe=silent) as c:
        agent = c.cluster.agents["local"]
        wait_for(lambda: agent.status.facts is not None, what="contact")
        wait_for(lambda: agent.image_here("schedulearn/pytorch") == CUDA, what="the driver of before")


def test_an_image_that_is_asked_for_by_hand_is_that_of_the_host(tmp_path: Path) -> None:
    runtime, probe = fetching("local", nvidia=True), Driver(1)
    with FakeCluster(tmp_path, runtime=runtime, probe=probe) as c:
        agent = c.cluster.agents["local"]
        wait_for(lambda: agent.image_here("schedulearn/pytorch") == CUDA, what="the driver")
        agent.fetch("schedulearn/pytorch")
        wait_for(lambda: runtime.images.present == {"img", CUDA}, what="the image")
