"""What operators do to single GPUs, and what becomes of the jobs on them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from clusters import FakeCluster, spec, wait_for
from gpu_probes.memory import FakeProbe

from schedulearn.metrics.probe.readings import GpuProcess, GpuReading, Xid
from schedulearn.scheduler.core.outcomes import gpu_health
from schedulearn.scheduler.errors import ConflictError, NotFoundError, RuntimeFault
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.telemetry.gpu_reset import reset_here


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_health, "OCCUPIED_AFTER_S", 0.1)


def holds(c: FakeCluster, job: str) -> list[str]:
    with c.cluster.db.read() as db:
        return [uuid for task in tasks_of(db, [job], live=True) for uuid in task.gpu_uuids]


def kinds(c: FakeCluster) -> list[str]:
    with c.cluster.db.read() as db:
        return [event.kind for event in repository.list_events(db) if event.kind.startswith("gpu.")]


def test_a_cordoned_gpu_keeps_its_job_and_gets_no_other_until_it_is_returned(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=2) as c:
        [job] = c.submit()
        c.wait(job, "running")
        [mine] = holds(c, job)
        c.cluster.fleet.close_gpu("local", mine)
        c.cluster.fleet.close_gpu("local", mine)
        first, second = c.submit(spec(), spec())
        c.wait(first, "running")
        assert mine not in holds(c, first)
        c.runtime.finish(c.task(job))
        c.wait(job, "succeeded")
        c.poke()
        assert c.state(second) == "queued"
        assert c.cluster.monitor.return_gpu("local", mine) == mine
        c.wait(second, "running")
        assert holds(c, second) == [mine]
        assert kinds(c) == ["gpu.cordoned", "gpu.returned"]
        with pytest.raises(ConflictError, match="is in service: it is not unhealthy, and not cordoned"):
            c.cluster.monitor.return_gpu("local", mine)
        with pytest.raises(NotFoundError, match="no GPU '7'"):
            c.cluster.fleet.close_gpu("local", "7")


@pytest.mark.parametrize(
    ("elastic", "deadline", "moves"), [(True, 3600.0, True), (False, 3600.0, False), (False, 0.0, True)]
)
def test_a_drained_gpu_is_left_at_once_by_elastic_jobs_and_by_others_at_its_deadline(
    tmp_path: Path, elastic: bool, deadline: float, moves: bool
) -> None:
    with FakeCluster(tmp_path, gpus=2) as c:
        [job] = c.submit(spec(elastic=elastic, max_restarts=0))
        c.wait(job, "running")
        [mine] = holds(c, job)
        c.cluster.fleet.close_gpu("local", mine, deadline)
        if moves:
            wait_for(lambda: c.job(job).attempt == 2 and c.state(job) == "running")
            assert mine not in holds(c, job)
        else:
            c.poke()
            assert (c.job(job).attempt, holds(c, job)) == (1, [mine])
            c.cluster.fleet.close_gpu("local", mine)  # a cordon ends the drain
            assert c.gpu(mine).drain_until is None
        assert kinds(c)[0] == "gpu.draining"


def test_a_closed_gpu_stays_so_over_restarts_and_inventories(tmp_path: Path) -> None:
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)))
        c.cluster.fleet.close_gpu("local", "0")
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        [job] = c.submit()
        c.wait(job, "running")
        assert holds(c, job) == [probe.uuid(1)]
        probe.set(0, xids=(Xid(79, 1, 9e9),))
        wait_for(lambda: c.gpu(probe.uuid(0)).fault)
        probe.set(0)
        c.cluster.monitor.return_gpu("local", "0")
        assert (c.gpu(probe.uuid(0)).fault, c.gpu(probe.uuid(0)).cordoned) == ("", False), "return is for both"


def test_an_idle_gpu_is_reset_while_nobody_reads_it_and_its_errors_are_forgiven(tmp_path: Path) -> None:
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.cluster.monitor.reading(probe.uuid(1)))
        probe.set(0, xids=(Xid(79, 1, 9e9),))
        wait_for(lambda: c.gpu(probe.uuid(0)).fault)
        c.cluster.monitor.reset_gpu("local", "0")
        assert probe.resets == [probe.uuid(0)]
        assert (c.gpu(probe.uuid(0)).fault, c.gpu(probe.uuid(0)).cordoned) == ("", False)
        [job] = c.submit(spec(gpus=2))
        c.wait(job, "running")
        assert [kind for kind in kinds(c) if kind != "gpu.xid"] == ["gpu.unhealthy", "gpu.returned", "gpu.reset"]


def test_a_gpu_that_is_in_use_or_can_not_be_reset_is_left_as_it_was(tmp_path: Path) -> None:
    probe = FakeProbe(3)
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.cluster.monitor.reading(probe.uuid(2)))
        [job] = c.submit()
        c.wait(job, "running")
        with pytest.raises(ConflictError, match=f"has a job \\({job}\\): drain it first, `schedulearn hosts gpu drain"):
            c.cluster.monitor.reset_gpu("local", "0")
        probe.set(1, processes=(GpuProcess(77),))
        wait_for(lambda: (c.cluster.monitor.reading(probe.uuid(1)) or GpuReading("")).processes)
        with pytest.raises(ConflictError, match="process 77 uses GPU 1 of local: end it"):
            c.cluster.monitor.reset_gpu("local", "1")
        probe.set(1, processes=(GpuProcess(77, "x"),))
        wait_for(lambda: c.gpu(probe.uuid(1)).occupied, seconds=20)
        with pytest.raises(ConflictError, match="is used by x"):
            c.cluster.monitor.reset_gpu("local", "1")
        probe.no_reset = "only root may"
        c.cluster.fleet.close_gpu("local", "2")
        probe.set(2, ecc_errors=1)
        wait_for(lambda: c.gpu(probe.uuid(2)).fault)
        with pytest.raises(RuntimeFault, match="only root may"):
            c.cluster.monitor.reset_gpu("local", "2")
        assert probe.resets == []
        assert (c.gpu(probe.uuid(2)).fault != "", c.gpu(probe.uuid(2)).cordoned) == (True, True)
        assert not c.gpu(probe.uuid(1)).cordoned
        probe.no_reset = ""
        c.cluster.monitor.reset_gpu("local", "2")
        assert (c.gpu(probe.uuid(2)).fault, c.gpu(probe.uuid(2)).cordoned) == ("", True), "it stays closed"


def test_what_is_no_whole_real_gpu_is_not_reset(tmp_path: Path) -> None:
    with FakeCluster(tmp_path / "simulated", gpus=1) as c, pytest.raises(ConflictError, match="is simulated"):
        c.cluster.monitor.reset_gpu("local", "0")
    probe = FakeProbe(1, prefix="MIG-a")
    with FakeCluster(tmp_path / "mig", probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)))
        with pytest.raises(ConflictError, match="is a MIG device"):
            c.cluster.monitor.reset_gpu("local", "0")


def test_nvidia_smi_says_why_it_did_not_reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(
        RuntimeFault, match="only root may reset a GPU, but the service runs as uid 1000: run `nvidia-smi"
    ):
        reset_here("GPU-a")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\necho "$@" > "$0.asked"\n[ "$3" = GPU-a ] || { echo "GPU is in use"; exit 19; }\n')
    program.chmod(0o755)
    reset_here("GPU-a")
    assert (tmp_path / "nvidia-smi.asked").read_text() == "--gpu-reset -i GPU-a\n"
    with pytest.raises(RuntimeFault, match=r"did not reset it \(exit code 19\): GPU is in use"):
        reset_here("GPU-b")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(RuntimeFault, match="can't find nvidia-smi"):
        reset_here("GPU-a")
