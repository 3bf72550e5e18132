"""Hosts and GPUs that can't run jobs: jobs go elsewhere and are not blamed, the host is closed, nothing is lost."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime
from gpu_probes.memory import FakeProbe

from schedulearn.metrics.probe.readings import GpuHealth, GpuProcess, Reading, Xid
from schedulearn.scheduler.core.outcomes import early_failures, gpu_health
from schedulearn.scheduler.core.outcomes.blame import Blame
from schedulearn.scheduler.core.task import TaskSpec
from schedulearn.scheduler.errors import ConflictError, HostRefused, ObjectFault, RuntimeFault, StoreError
from schedulearn.scheduler.hosts import retries
from schedulearn.scheduler.runtimes.cuda_check import Checked
from schedulearn.scheduler.runtimes.log_store import LogStore
from schedulearn.scheduler.store import gpus, hosts, repository
from schedulearn.scheduler.telemetry import host_watch, monitor

MISMATCH = "on local the NVIDIA driver's library and its kernel module differ: reboot the host"


class Broken(FakeRuntime):
    """Starts nothing with GPUs while it has a fault."""

    fault: RuntimeFault | None = HostRefused(MISMATCH, Blame.HOST)

    def start(self, task: TaskSpec) -> None:
        if self.fault is not None and task.gpu_uuids:
            self.calls.append(("refused", task.task_id))
            raise self.fault
        super().start(task)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_failures, "REST_S", (0.2, 0.2))
    monkeypatch.setattr(retries, "BACKOFF_S", (0.01,))


def host(c: FakeCluster, host_id: str = "local") -> Any:
    with c.cluster.db.read() as db:
        return hosts.get_host(db, host_id)


def kinds(c: FakeCluster) -> list[str]:
    with c.cluster.db.read() as db:
        return [event.kind for event in repository.list_events(db)]


def refused(runtime: FakeRuntime) -> int:
    return sum(method == "refused" for method, _ in runtime.calls)


def test_a_host_whose_start_fails_three_times_takes_no_more_jobs_with_gpus(tmp_path: Path) -> None:
    runtime = Broken("local")
    with FakeCluster(tmp_path, runtime=runtime, gpus=2) as c:
        jobs = c.submit(spec(), spec(gpus=2))
        wait_for(lambda: host(c).gpu_fault, what="the host to be closed")
        wait_for(lambda: all(c.state(job) == "queued" for job in jobs), what="both jobs to wait")
        assert refused(runtime) == 3
        assert c.leases() == []
        [cpu] = c.submit(spec(gpus=0))
        c.wait(cpu, "running")
        wait_for(lambda: "reboot the host" in c.cluster.loop.waiting.get(jobs[0], ""), what="why it waits")
        assert all(c.job(job).retries == c.job(job).losses == 0 for job in jobs)
        c.runtime.finish(c.task(cpu))
        runtime.fault = None
        c.cluster.fleet.set_state("local", "active")
        c.wait(jobs[0], "running")
        assert host(c).gpu_fault == ""
        assert refused(runtime) == 3
        assert kinds(c).count("host.gpus_closed") == kinds(c).count("host.gpus_opened") == 1


def test_a_job_goes_elsewhere_at_once(tmp_path: Path) -> None:
    runtime, other = Broken("local"), FakeRuntime("far")
    with FakeCluster(tmp_path, runtime=runtime, others={"far": other}, gpus=1) as c:
        c.add("far", gpus=1)
        [job] = c.submit(spec())
        c.wait(job, "running")
        assert refused(runtime) <= 1
        assert other.tasks()
        assert host(c).gpu_fault == ""


def test_a_closed_host_is_closed_after_a_restart_of_the_service(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, runtime=Broken("local"), gpus=1) as c:
        c.submit(spec())
        wait_for(lambda: host(c).gpu_fault, what="the host to be closed")
    runtime = Broken("local")
    with FakeCluster(tmp_path, runtime=runtime, gpus=1) as c:
        [cpu] = c.submit(spec(gpus=0))
        c.wait(cpu, "running")
        assert refused(runtime) == 0


def test_a_success_forgets_what_failed_before(tmp_path: Path) -> None:
    runtime = Broken("local")
    with FakeCluster(tmp_path, runtime=runtime, gpus=1) as c:
        for _ in range(2):
            runtime.fault = HostRefused(MISMATCH, Blame.HOST)
            before = refused(runtime)
            [job] = c.submit(spec())
            wait_for(lambda before=before: refused(runtime) > before, what="a failed start")
            runtime.fault = None
            c.wait(job, "running")
            c.runtime.finish(runtime.tasks()[0].task_id)
            c.wait(job, "succeeded")
            assert host(c).gpu_failures == []


@pytest.mark.parametrize("fault", [RuntimeFault("no answer"), ObjectFault("the engine is odd")])
def test_draining_frees_a_job_that_can_not_start(tmp_path: Path, fault: RuntimeFault) -> None:
    runtime = Broken("local")
    runtime.fault = fault
    with FakeCluster(tmp_path, runtime=runtime, gpus=1) as c:
        [job] = c.submit(spec())
        wait_for(lambda: refused(runtime), what="a failed start")
        c.cluster.fleet.drain("local", 3600)
        c.wait(job, "queued")
        wait_for(lambda: c.leases() == [], what="the GPU")
        assert c.job(job).losses == 0
        tries = refused(runtime)
        c.poke()
        assert refused(runtime) == tries


@pytest.mark.parametrize("tries", [4, 12])  # by 12 it has come back twice, and found no other host
def test_a_start_that_an_engine_refuses_for_unknown_causes_frees_its_gpus(tmp_path: Path, tries: int) -> None:
    runtime, other = Broken("local"), FakeRuntime("far")
    runtime.fault = ObjectFault("the engine at local failed to start it: odd.")
    with FakeCluster(tmp_path, runtime=runtime, others={"far": other}, gpus=1) as c:
        [job] = c.submit(spec())
        wait_for(lambda: refused(runtime) >= tries, what="its tries")
        c.add("far", gpus=1)
        c.wait(job, "running")
        assert host(c).gpu_fault == "", "what nobody knows closes no host"


def fail(c: FakeCluster, job: str, line: str) -> int:
    """The job writes a line and fails; its attempt."""
    wait_for(lambda: c.state(job) == "running", what="the job to run")
    attempt = int(c.job(job).attempt)
    task = c.task(job, attempt)
    writer = LogStore(c.directory / "logs").writer(task)
    writer.append(line.encode() + b"\n")
    writer.close()
    c.runtime.finish(task, 1)
    return attempt


def test_output_blames_host_gpu_or_nobody_and_a_broken_family_closes_nothing(tmp_path: Path) -> None:
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)), what="the GPU")
        [job] = c.submit(spec(name="sees none"))
        for _ in range(early_failures.MAX_MOVES):
            attempt = fail(c, job, "RuntimeError: No CUDA GPUs are available")
            wait_for(lambda attempt=attempt: c.job(job).attempt > attempt, what="another try")
        fail(c, job, "RuntimeError: No CUDA GPUs are available")
        failed = c.wait(job, "failed")
        assert failed.message == (
            "The command ended with exit code 1: on local the job found no GPU in its container: "
            "try `nvidia-smi` there, in a container too"
        )
        assert len(host(c).gpu_failures) == 1, "it counts once, however often it says so"
        [shm] = c.submit(spec(name="full"))
        fail(c, shm, "DataLoader worker (pid 9) is killed by signal: Bus error")
        assert "shm_size" in c.wait(shm, "failed").message


def test_three_users_who_find_a_gpu_broken_take_it_out_of_service_and_one_alone_can_not(tmp_path: Path) -> None:
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)), what="the GPU")
        counted = []
        for user in ("ada", "ada", "ada", "bob", "cleo"):
            [job] = c.submit(spec(user=user, family=f"f{len(counted)}"))
            fail(c, job, "CUDA error: uncorrectable ECC error encountered")
            wait_for(lambda job=job: c.job(job).losses == 1, what="the job to move on")
            counted.append(len(c.gpu(probe.uuid(0)).failures))
            c.cluster.service.cancel(job)
        assert counted == [1, 1, 1, 2, early_failures.MAX_FAILURES]
        assert "uncorrectable memory errors" in c.gpu(probe.uuid(0)).fault
        assert host(c).gpu_fault == ""
        c.cluster.monitor.return_gpu("local", "0")
        assert c.gpu(probe.uuid(0)).failures == []


def test_a_gpu_is_handed_on_only_when_its_memory_is_free(tmp_path: Path) -> None:
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)), what="the GPU")
        first, second = c.submit(spec(), spec())
        c.wait(first, "running")
        probe.set(0, memory_bytes=12e9)
        c.runtime.finish(c.task(first))
        c.wait(first, "succeeded")
        wait_for(lambda: "12.0 GB of its memory are not released yet" in c.cluster.loop.waiting.get(second, ""))
        assert c.leases() == []
        probe.set(0, memory_bytes=1e9)
        c.wait(second, "running")


def test_memory_that_stays_after_a_job_is_somebodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_health, "SETTLE_S", 1.0)
    monkeypatch.setattr(monitor, "SETTLE_S", 1.5)
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)), what="the GPU")
        first, second = c.submit(spec(), spec())
        c.wait(first, "running")
        probe.set(0, memory_bytes=12e9)
        c.runtime.finish(c.task(first))
        wait_for(lambda: c.gpu(probe.uuid(0)).occupied, what="the GPU to be somebody's")
        assert c.gpu(probe.uuid(0)).occupied == "no visible process, with 12.0 GB of its memory"
        wait_for(lambda: "1 used by others" in c.cluster.loop.waiting.get(second, ""), what="why it waits")
        assert c.state(second) == "queued"


def test_a_job_whose_memory_a_stranger_has_is_not_blamed(tmp_path: Path) -> None:
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)), what="the GPU")
        [alone] = c.submit(spec())
        fail(c, alone, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
        assert c.wait(alone, "failed").reason == "command_failed", "its own fault"
        [job] = c.submit(spec())
        c.wait(job, "running")
        miner = GpuProcess(4711, "miner", int(10e9))
        probe.set(0, memory_bytes=11e9, processes=(miner,))
        fail(c, job, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
        wait_for(lambda: c.state(job) == "queued", what="the job to wait")
        assert "its GPU ran out of memory, which others use too: miner (process 4711)" in c.job(job).message
        assert (c.job(job).losses, c.job(job).retries) == (1, 0)


@pytest.mark.parametrize(
    ("fault", "after_s", "why"),
    [
        ("nvml error: driver/library version mismatch: unknown", 3600.0, "reboot the host"),
        ("its image can't be built", 0.2, "its image can't be built"),
    ],
)
def test_a_host_whose_probe_fails_gets_no_jobs_with_gpus_until_it_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, after_s: float, why: str
) -> None:
    monkeypatch.setattr(host_watch, "_BACKOFF_S", (0.05,))
    monkeypatch.setattr(host_watch, "UNWATCHED_AFTER_S", after_s)
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)), what="the GPU")
        probe.fault = fault
        probe.interrupt()
        wait_for(lambda: why in c.gpu(probe.uuid(0)).unwatched, what="the GPU to be closed")
        gpu, cpu = c.submit(spec(), spec(gpus=0))
        c.wait(cpu, "running")
        wait_for(lambda: "1 that can't be asked" in c.cluster.loop.waiting.get(gpu, ""), what="why it waits")
        assert c.state(gpu) == "queued"
        probe.fault = ""
        c.wait(gpu, "running")
        assert {"gpu.unwatched", "gpu.watched"} <= set(kinds(c))


def test_the_latest_reason_why_gpus_are_not_watched_is_shown_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_watch, "_BACKOFF_S", (0.05,))
    monkeypatch.setattr(host_watch, "UNWATCHED_AFTER_S", 0.0)
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)), what="the GPU")
        for fault in ("its image can't be built", "its engine does not answer"):
            probe.fault = fault
            probe.interrupt()
            wait_for(lambda: fault in c.gpu(probe.uuid(0)).unwatched, what=fault)  # noqa: B023
        assert kinds(c).count("gpu.unwatched") == 1


class StandIn:
    """A check of CUDA that answers as a test says."""

    def __init__(self, *answers: Checked | RuntimeFault) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    def run(self, gpu_uuids: Sequence[str]) -> Checked:
        self.asked.append(list(gpu_uuids))
        answer = self.answers.pop(0) if self.answers else Checked()
        if isinstance(answer, RuntimeFault):
            raise answer
        return answer


def checks(c: FakeCluster) -> list[str]:
    with c.cluster.db.read() as db:
        return [event.code for event in repository.list_events(db) if event.kind == "host.cuda_check"]


@pytest.mark.parametrize("how", ["return_gpu", "reset_gpu"])
def test_a_gpu_that_was_reset_is_judged_afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """What its driver asked for before lasted for some seconds more, and took it out of service again."""
    probe = FakeProbe(2)
    monkeypatch.setattr(gpu_health, "HINDERED_AFTER_S", 0.5)
    monkeypatch.setattr(host_watch, "_BACKOFF_S", (0.01,))
    probe.set(0, health=GpuHealth("GPU reset"))
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)) and c.gpu(probe.uuid(0)).fault_kind == "state")
        probe.set(0, health=GpuHealth("none"))
        getattr(c.cluster.monitor, how)("local", "0")
        time.sleep(0.2)  # ten samples
        assert kinds(c).count("gpu.unhealthy") == 1
        assert c.gpu(probe.uuid(0)).fault == ""
        probe.set(0, health=GpuHealth("GPU reset"))
        wait_for(lambda: c.gpu(probe.uuid(0)).fault, what="it asks for one again")


class Slow(FakeProbe):
    """Its first answer takes a while, as NVML's initialisation does."""

    def _read(self) -> Iterator[Reading]:
        time.sleep(0.7)
        yield from super()._read()


def test_a_gpu_is_returned_only_after_the_first_look(tmp_path: Path) -> None:
    """The service has just started: the errors that the probe tells next would take the GPU out again."""
    runtime, probe = FakeRuntime("local"), FakeProbe(2)
    probe.set(0, ecc_errors=3)
    with FakeCluster(tmp_path, runtime=runtime, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)) and c.gpu(probe.uuid(0)).fault)
    slow = Slow(2)
    slow.set(0, ecc_errors=3)
    with FakeCluster(tmp_path, runtime=runtime, probe=slow) as c:
        wait_for(lambda: c.cluster.monitor._watches)
        with pytest.raises(ConflictError, match="have not been read yet: try again"):
            c.cluster.monitor.return_gpu("local", "0")
        wait_for(lambda: c.cluster.monitor.reading(slow.uuid(0)))
        c.cluster.monitor.return_gpu("local", "0")
        assert c.gpu(slow.uuid(0)).fault == ""


def test_a_return_forgives_errors_though_the_clock_was_set_back_since(tmp_path: Path) -> None:
    probe, runtime = FakeProbe(2), FakeRuntime("local")
    probe.set(0, xids=(Xid(48, 1, time.time() + 3600),))
    with FakeCluster(tmp_path, runtime=runtime, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)) and c.gpu(probe.uuid(0)).fault)
        c.cluster.monitor.return_gpu("local", "0")
    probe.closed = False
    with FakeCluster(tmp_path, runtime=runtime, probe=probe) as c:
        wait_for(lambda: c.cluster.monitor.reading(probe.uuid(0)))
        assert c.gpu(probe.uuid(0)).fault == ""


def test_a_job_whose_gpu_broke_while_the_service_was_away_is_not_blamed(tmp_path: Path) -> None:
    runtime = FakeRuntime("local")
    with FakeCluster(tmp_path, runtime=runtime, probe=FakeProbe(2)) as c:
        [job] = c.submit(spec())
        c.wait(job, "running")
    probe = Slow(2)
    uuid = runtime.env(c.task(job))["NVIDIA_VISIBLE_DEVICES"]
    probe.set(int(uuid[-1]), lost=True, processes=None)
    runtime.finish(c.task(job), 1)
    with FakeCluster(tmp_path, runtime=runtime, probe=probe) as c:
        wait_for(lambda: c.state(job) == "failed" or (c.job(job).attempt, c.state(job)) == (2, "running"))
        assert (c.job(job).attempt, c.job(job).retries, c.job(job).reason) == (2, 0, "container_running")


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_a_job_that_failed_has_failed_though_the_clock_of_its_host_is_wrong(tmp_path: Path, ahead_s: float) -> None:
    runtime = FakeRuntime("local", clock=lambda: time.time() + ahead_s)
    with FakeCluster(tmp_path, runtime=runtime, probe=FakeProbe(2)) as c:
        [job] = c.submit(spec())
        c.wait(job, "running")
        runtime.finish(c.task(job), 1)
        wait_for(lambda: c.poke() and c.state(job) == "failed", seconds=15, pause=0.2)
        assert c.job(job).reason == "command_failed"


@pytest.mark.parametrize("fault", [{"xids": (Xid(79, 1, 1e12),)}, {"lost": True}, {"ecc_errors": 2}])
def test_a_fault_that_could_not_be_stored_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: dict[str, Any]
) -> None:
    """Its Xid was: it was taken for an old one after that, and the GPU stayed in service."""
    set_fault, failures = gpus.set_fault, [StoreError("the disk is full")]

    def fails_once(*given: Any, **more: Any) -> None:
        if failures:
            raise failures.pop()
        set_fault(*given, **more)

    monkeypatch.setattr(gpus, "set_fault", fails_once)
    monkeypatch.setattr(host_watch, "_BACKOFF_S", (0.01,))
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)))
        probe.set(0, **fault)
        wait_for(lambda: not failures, what="the write that fails")
        wait_for(lambda: c.gpu(probe.uuid(0)).fault, seconds=10)


def test_cuda_is_checked_when_a_host_joins_changes_its_driver_or_returns_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_watch, "_BACKOFF_S", (0.05,))
    probe, runtime = FakeProbe(2), FakeRuntime("local")
    check = StandIn(
        Checked(errors={probe.uuid(1): "a matrix product is wrong"}),
        Checked(),
        Checked(errors={"": "on local CUDA is not ready: start the fabric manager"}),
        RuntimeFault("no answer"),
        Checked(skipped="the image is not there"),
        Checked(),
    )
    runtime.check_of_cuda = check
    with FakeCluster(tmp_path, runtime=runtime, probe=probe) as c:
        wait_for(lambda: checks(c) == ["failed"], what="the check of a host that joins")
        assert "a matrix product is wrong" in c.gpu(probe.uuid(1)).fault
        assert c.gpu(probe.uuid(0)).fault == host(c).gpu_fault == ""
        # CUDA is checked beside the first reading, and may be done before it.
        wait_for(lambda: not c.cluster.monitor._watches["local"].is_new, what="the first reading of its GPUs")
        c.cluster.monitor.return_gpu("local", "1")
        wait_for(lambda: checks(c) == ["failed", "passed"], what="the check of a GPU that returns")
        steps = [("failed", True), ("skipped", True), ("skipped", True), ("passed", False)]
        for number, (code, closed) in enumerate(steps):
            probe.driver = f"59{number}.1"
            wait_for(lambda number=number: len(checks(c)) == 3 + number, what="the check of another driver")
            assert (checks(c)[-1], bool(host(c).gpu_fault)) == (code, closed), "what can't be asked changes nothing"
        assert check.asked == [[probe.uuid(0), probe.uuid(1)]] * 6
