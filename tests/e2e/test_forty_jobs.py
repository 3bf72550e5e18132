"""A busy morning: 40 jobs on 8 GPUs while the policy is switched ten times."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from lease_checks import check_intervals, check_leases
from services import Service

pytestmark = pytest.mark.process

POLICIES = [
    {"algorithm": "fifo"},
    {"algorithm": "round-robin"},
    {"algorithm": "fifo", "params": {"backfill": True}},
    {"algorithm": "round-robin", "params": {"backfill": True}},
]


@pytest.mark.long
def test_forty_jobs_all_end_and_no_gpu_is_in_two_leases(tmp_path: Path) -> None:
    dice = random.Random(0)
    with Service(tmp_path / "data", gpus=8) as served:
        jobs = []
        for number in range(40):
            jobs.append(served.submit(f"sleep {dice.uniform(0.05, 0.6):.2f}", gpus=dice.randint(1, 8)))
            if number % 4 == 3:
                policy = dice.choice(POLICIES)
                assert served.http.put("/api/v1/policy", json=policy).status_code == 200
            check_leases(served)
            time.sleep(0.05)
        states = {job: served.wait(job, "succeeded", seconds=120)["state"] for job in jobs}
        assert set(states.values()) == {"succeeded"}
        assert served.rows("SELECT count(*) FROM policy") == [(10,)]
        check_leases(served)
        check_intervals(served)
        assert all(len(served.job(job)["tasks"]) == 1 for job in jobs)
