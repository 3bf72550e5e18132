"""Predictions of the service: one thing that fails does not take all of them away."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from clusters import FakeCluster, spec, wait_for

from schedulearn.scheduler.control import forecaster
from schedulearn.scheduler.control.forecaster import KEPT_S, Forecaster
from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.planning.quotas import Quota, Quotas
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.sim.simulator import MAX_STEPS
from schedulearn.scheduler.store.cluster_state import load_cluster_state


class Shortsighted(Policy):
    """Fails where it is asked about later than a time."""

    name: ClassVar[str] = "shortsighted"

    def __init__(self, until: float) -> None:
        self.until = until

    def allocate(self, snapshot: Snapshot) -> Plan:
        if snapshot.now > self.until:
            raise ZeroDivisionError("no idea")
        return make_policy("fifo").allocate(snapshot)


def outlook_of(
    c: FakeCluster, policy: list[Policy], now: list[float], quotas: Callable[[], Quotas] = Quotas
) -> Forecaster:
    return Forecaster(
        c.cluster.db,
        lambda: policy[0],
        c.cluster.profiles,
        lambda: {"local"},
        c.cluster.utilization,
        lambda job, hosts: 0.0,
        quotas=quotas,
        every_s=0.01,
        clock=lambda: now[0],
    )


def test_a_change_of_a_quota_is_a_change_of_what_is_expected(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        holder, ada = c.submit(spec(gpus=4, max_duration=300.0), spec(gpus=2, user="ada"))
        c.wait(holder, "running")
        quotas = [Quotas({"ada": Quota(gpus=1)})]
        found = outlook_of(c, [make_policy("fifo")], [c.job(holder).started_at + 1.0], lambda: quotas[0])
        assert found.update()
        assert found.etas.jobs[ada].beyond_quota
        assert not found.update()
        quotas[0] = Quotas({"ada": Quota(gpus=2, gpu_hours=8)}, used_hours={"ada": 1})
        assert found.update()
        assert found.etas.jobs[ada].start == pytest.approx(c.job(holder).started_at + 300, abs=5)
        quotas[0] = Quotas({"ada": Quota(gpus=2, gpu_hours=1)}, used_hours={"ada": 1})
        assert found.update()
        assert found.etas.jobs.keys() == {holder}, "nobody can tell when hours are forgotten"


def test_where_the_policy_fails_predictions_end_and_are_whole_again_once_it_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeCluster(tmp_path) as c:
        first, second = c.submit(spec(gpus=4, max_duration=300.0), spec(gpus=4, max_duration=300.0))
        c.wait(first, "running")
        with c.cluster.db.read() as db:
            [task] = load_cluster_state(db).tasks
        start = task.started_at  # not when that was noticed, on a busy machine seconds later
        assert start is not None
        policy: list[Policy] = [Shortsighted(start + 400)]
        now = [start + 1.0]
        found = outlook_of(c, policy, now)
        for _ in range(3):
            assert found.update()
            assert found.etas.jobs[first].end == pytest.approx(start + 300, abs=1)
            assert found.etas.jobs[second].start == pytest.approx(start + 300, abs=1)
            assert found.etas.jobs[second].end is None
            assert start + 400 < found.etas.until <= start + 402 + 60 * MAX_STEPS
            now[0] += forecaster.STALE_S
        told = [record for record in caplog.records if "no idea" in record.getMessage()]
        assert [record.levelno for record in told] == [logging.ERROR], "told once, not each time"
        policy[0] = make_policy("fifo")
        assert found.update()
        assert found.etas.jobs[second].end is not None


def test_predictions_outlive_a_failure_for_a_while_and_come_back_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(forecaster, "STALE_S", 0.02)
    monkeypatch.setattr(forecaster, "_LOOK_S", 0.01)
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(max_duration=300.0))
        c.wait(job, "running")
        now = [c.job(job).started_at + 1.0]
        policy = [make_policy("fifo")]
        found = outlook_of(c, policy, now)
        found.start()
        try:
            wait_for(lambda: found.etas.jobs, what="a prediction")
            policy.clear()
            failed = found.etas
            now[0] += KEPT_S / 2
            wait_for(lambda: "IndexError" in caplog.text, what="the failure")
            assert found.etas.jobs == failed.jobs
            now[0] += KEPT_S
            wait_for(lambda: not found.etas.jobs, what="predictions too old to be shown")
            policy.append(make_policy("fifo"))
            wait_for(lambda: found.etas.jobs, what="a prediction")
        finally:
            found.close()
