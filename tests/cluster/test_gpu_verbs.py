"""What operators do to single GPUs, and what becomes of the jobs on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import FakeCluster, spec, wait_for
from gpu_probes.memory import FakeProbe

from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of


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
        probe.set(0, xid=79, xid_at=9e9)
        wait_for(lambda: c.gpu(probe.uuid(0)).fault)
        probe.set(0)
        c.cluster.monitor.return_gpu("local", "0")
        assert (c.gpu(probe.uuid(0)).fault, c.gpu(probe.uuid(0)).cordoned) == ("", False), "return is for both"
