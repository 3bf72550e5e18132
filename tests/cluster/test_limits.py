"""What a job may use beside its GPUs and of their memory, and which data sets it may name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from clusters import FakeCluster, spec, wait_for
from pydantic import ValidationError

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.planning.limits import SHARES_A_GPU, check_data_sets, limits
from schedulearn.scheduler.core.task import GIB
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store.cluster_state import load_cluster_state
from schedulearn.scheduler.store.resources.gpu_memory import note_gpu_peaks, predicted_needs

HOST = HostFacts("x", cpus=64, memory_bytes=512 * GIB)


@dataclass
class Asking:
    cpus: float | None = None
    memory_bytes: int | None = None
    shm_bytes: int = GIB


def test_without_a_word_a_job_gets_its_share_by_gpus() -> None:
    two = limits(Asking(), 2, 8, HOST)
    assert (two.cpus, two.cpu_shares) == (None, 2 * SHARES_A_GPU)
    assert two.memory_bytes == int(512 * GIB * 0.95 / 4)
    assert sum(limits(Asking(), n, 8, HOST).memory_bytes or 0 for n in (1, 2, 5)) < HOST.memory_bytes
    assert limits(Asking(), 2, 8, None).memory_bytes is None, "a host that was never asked has no share to give"


def test_workers_weigh_the_same_whatever_jobs_and_gangs_they_belong_to() -> None:
    """So that nobody's workers crawl where the processors of a host are busy: its neighbours', or the rest of its gang,
    should two engines share one machine."""
    weights = {limits(Asking(), gpus, of, HOST).cpu_shares / gpus for gpus in (1, 2, 4, 8, 16) for of in (gpus, 16)}
    assert len(weights) == 1
    assert limits(Asking(), 16, 16, HOST).cpu_shares <= 262144, "the kernel's bound, beyond which weights are cut"


def test_what_it_says_counts_and_its_shared_memory_fits() -> None:
    assert limits(Asking(cpus=3.0, memory_bytes=7 * GIB), 1, 8, HOST).memory_bytes == 7 * GIB
    assert limits(Asking(cpus=3.0), 1, 8, HOST).cpus == 3.0
    assert limits(Asking(shm_bytes=100 * GIB), 1, 8, HOST).memory_bytes == 101 * GIB
    assert limits(Asking(shm_bytes=900 * GIB), 1, 8, HOST).memory_bytes == 512 * GIB


def test_shared_memory_is_4_gib_a_gpu_and_no_more_than_the_host_has() -> None:
    for given, shm in [
        ({"gpus": 8}, 32 * GIB), ({"gpus": 1}, 4 * GIB), ({"gpus": 0}, GIB), ({"gpus": 8, "shm_size": "1g"}, GIB),
        ({"gpus": 2, "elastic": True}, 8 * GIB), ({"gpus": 4096}, 4096 * GIB),
    ]:  # fmt: skip
        assert spec(**given).shm_size == shm, given
    small = HostFacts("small", memory_bytes=16 * GIB)
    assert limits(Asking(shm_bytes=32 * GIB), 8, 8, small).shm_bytes == 16 * GIB
    assert limits(Asking(shm_bytes=32 * GIB), 8, 8, None).shm_bytes == 32 * GIB


def test_data_sets_reach_the_container_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=ClusterSettings(data_sets={"wiki": "/srv/wiki", "image-net": "/srv/in"})) as c:
        [one] = c.submit(spec(mounts=["image-net"], memory="2g"))
        [two] = c.submit(spec(mounts={"wiki": "/corpus/"}))
        c.wait(one, "running")
        c.wait(two, "running")
        tasks = {task.job_id: task for task in c.runtime.tasks()}
        assert tasks[one].mounts == {"/data/image-net": "/srv/in"}
        assert tasks[one].memory_bytes == 2 * GIB
        assert tasks[one].env["SCHEDULEARN_DATA_IMAGE_NET"] == "/data/image-net"
        assert tasks[two].mounts == {"/corpus": "/srv/wiki"}
        with pytest.raises(
            InvalidError, match="no data set 'wikki'; the operator declared: image-net, wiki"
        ) as refused:
            c.submit(spec(), spec(mounts=["wikki"]))
        assert refused.value.field == "1.mounts"


@pytest.mark.parametrize(
    "target",
    [
        "",
        "/",
        "data",
        "/data/../etc/x",
        "/etc/passwd",
        "/schedulearn/sdk",
        "/proc",
        "/a\0",
        "//etc",
        "/./etc/x",
        "///proc/self",
        "/.",
        "//",
    ],
)
def test_targets_that_no_data_set_may_have(target: str) -> None:
    with pytest.raises(ValidationError):
        spec(mounts={"wiki": target})


def test_two_data_sets_can_not_be_at_one_place() -> None:
    with pytest.raises(ValidationError, match="the same path"):
        spec(mounts={"a": "/data/x", "b": "/data/x/"})


@pytest.mark.parametrize("declared", [{"a b": "/x"}, {"a": "x"}, {"": "/x"}])
def test_what_an_operator_can_not_declare(declared: dict[str, str]) -> None:
    with pytest.raises(InvalidError):
        check_data_sets(declared)


def needs(c: FakeCluster) -> dict[str, int]:
    with c.cluster.db.read() as conn:
        return predicted_needs(conn, load_cluster_state(conn).jobs)


def test_jobs_that_do_not_fit_together_wait_and_say_why(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1) as c:
        with c.cluster.db.read() as conn:
            [gpu] = load_cluster_state(conn).gpus
        c.cluster.service.set_policy("fifo", "default", {"jobs_per_gpu": 3, "backfill": True})
        more, less = int(gpu.memory_bytes * 0.6), int(gpu.memory_bytes * 0.2)
        [first] = c.submit(spec("a", gpu_memory=more))
        c.wait(first, "running")
        large, small = c.submit(spec("b", gpu_memory=more), spec("c", gpu_memory=less))
        c.wait(small, "running")
        wait_for(lambda: c.poke() and "predicted to use" in c.cluster.loop.waiting.get(large, ""), what="the reason")
        assert c.state(large) == "queued"
        c.cluster.service.cancel(first)
        c.wait(large, "running")
        c.runtime.finish(c.task(small))  # the fake host takes a GPU of two jobs for a fault when it is closed


def test_what_a_family_took_counts_and_not_what_its_next_job_asks_for(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1) as c:
        [first] = c.submit(spec("a", family="f"))
        c.wait(first, "running")
        assert needs(c) == {}
        for peak in (500, 900, 300):
            c.cluster.db.write(
                lambda conn, peak=peak: note_gpu_peaks(
                    conn, {f"schedulearn-{first}-1-0": peak, "schedulearn-gone-1-0": 9}
                )
            )
        kin, other = c.submit(spec("b", family="f", gpu_memory=1 << 20), spec("c", family="g", gpu_memory=1 << 21))
        assert needs(c) == {first: 900, kin: 900, other: 1 << 21}
