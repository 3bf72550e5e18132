"""What a probe tells of a machine, and what jobs get by it: GPUs that are close, and the processors beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime
from gpu_probes.memory import FakeProbe

from schedulearn.metrics.probe.readings import GpuLink, NumaNode
from schedulearn.scheduler.core.task import TaskSpec
from schedulearn.scheduler.settings import ClusterSettings

BIND = {"memory": "1g"}


def two_sockets() -> FakeProbe:
    probe = FakeProbe(8)
    probe.gpus = [
        replace(gpu, numa=gpu.index // 4, pci=f"00000000:{gpu.index:02X}:00.0", minor=7 - gpu.index)
        for gpu in probe.gpus
    ]
    probe.links = tuple(
        GpuLink(a, b, "node" if a // 4 == b // 4 else "system") for a in range(8) for b in range(a + 1, 8)
    )
    probe.nodes = (NumaNode(0, "0-15", 1 << 34), NumaNode(1, "16-31", 1 << 34))
    return probe


def given(c: FakeCluster, job: str) -> TaskSpec:
    c.wait(job, "running")
    [task] = [task for task in c.runtime.tasks() if task.job_id == job]
    return task


def indices(task: TaskSpec) -> list[int]:
    return [int(uuid[-1]) for uuid in task.gpu_uuids]


def test_jobs_get_gpus_of_one_socket_and_its_processors(tmp_path: Path) -> None:
    probe = two_sockets()
    with FakeCluster(tmp_path, probe=probe) as c:
        c.cluster.service.set_policy("fifo")
        wait_for(lambda: c.gpu(probe.uuid(7)))
        assert c.gpu(probe.uuid(3)).pci == "00000000:03:00.0"
        three, two, six = c.submit(spec(gpus=3, **BIND), spec(gpus=2, **BIND), spec(gpus=3, **BIND))
        assert (indices(given(c, three)), given(c, three).binding) == ([0, 1, 2], ("0-15", "0"))
        assert given(c, two).device_files == ("/dev/nvidia3", "/dev/nvidia2", "/dev/nvidiactl", "/dev/nvidia-uvm")
        assert (indices(given(c, two)), given(c, two).binding) == ([4, 5], ("16-31", "1"))
        assert (indices(given(c, six)), given(c, six).binding) == ([3, 6, 7], ("", "")), "over both sockets"
        # A driver that can't be asked for a moment takes nothing from what is known.
        probe.problem = "Unknown Error"
        wait_for(lambda: c.cluster.monitor.problem("local"))
        c.runtime.finish(c.task(two))
        [again] = c.submit(spec(gpus=2, **BIND))
        assert given(c, again).binding == ("16-31", "1")


def test_an_operator_may_leave_jobs_unbound(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, probe=two_sockets(), settings=ClusterSettings(bind_numa=False)) as c:
        [job] = c.submit(spec(gpus=2, **BIND))
        assert given(c, job).binding == ("", "")


def test_a_service_that_starts_anew_knows_the_machine_before_its_probe_answers(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, probe=two_sockets()) as c:
        [job] = c.submit(spec(gpus=2, **BIND))
        given(c, job)
    silent = two_sockets()
    silent.fault = "it does not answer"
    with FakeCluster(tmp_path, probe=silent, runtime=FakeRuntime("local")) as c:
        with c.cluster.db.read() as db:
            from schedulearn.scheduler.store.cluster_state import load_gpu_leases

            [host] = load_gpu_leases(db).hosts
        assert "16-31" in host.topology
