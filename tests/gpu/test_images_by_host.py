"""One name of a framework: each host gets the image that fits its GPUs, and keeps to it."""

from pathlib import Path

from clusters import FakeCluster, spec, wait_for
from gpu_probes.memory import FakeProbe

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.runtimes.fake import FakeRuntime
from schedulearn.scheduler.specs.job import JobSpec

CPU, CUDA = "schedulearn/horovod-cpu", "schedulearn/horovod-cuda"


class Driver(FakeProbe):
    driver = "580.95.05"


class OldDriver(FakeProbe):
    driver = "535.1"


def fetching(host: str, nvidia: bool) -> FakeRuntime:
    runtime = FakeRuntime(host, images={"img"}, fetchable={CPU: (), CUDA: ()})
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


def test_a_host_with_an_old_driver_gets_the_image_without_cuda(tmp_path: Path) -> None:
    runtime = fetching("local", nvidia=True)
    with FakeCluster(tmp_path, runtime=runtime, probe=OldDriver(1)) as c:
        [job] = c.submit(pytorch())
        c.wait(job, "running")
        assert runtime.images.present == {"img", CPU}


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
