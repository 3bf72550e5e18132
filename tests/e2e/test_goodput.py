"""The goodput policy over real training with the SDK: every resize is worth its name, and no GPU idles for long."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from lease_checks import check_intervals, check_leases
from services import Service
from training import Training, wait_until

pytestmark = [pytest.mark.long, pytest.mark.horovod]
MIN_RUN_S = 30.0  # of the policy's default
FLAGS = "--epochs 100000 --pause-per-sample 0.01 --max-batch 256"
LONG_S = 480.0


@pytest.fixture
def served(tmp_path: Path, horovod_env: Path) -> Iterator[Service]:
    env = {
        "SCHEDULEARN_ENVIRONMENTS": json.dumps({"horovod": str(horovod_env)}),
        "SCHEDULEARN_REPORT_INTERVAL": "2",
    }
    with Service(tmp_path / "data", env=env) as service:
        answer = service.http.put("/api/v1/policy", json={"algorithm": "goodput", "metric": "speed"})
        assert answer.status_code == 200, answer.text
        yield service
        service.cancel_all()


def allocations(served: Service, job: Training) -> list[tuple[int, float, float | None]]:
    """(GPUs, began to run, ended) of each attempt that ran."""
    rows = served.rows(f"SELECT gpu_uuids, started_at, finished_at FROM task WHERE job_id = '{job.id}' ORDER BY seq")
    return [(len(json.loads(gpus)), began, ended) for gpus, began, ended in rows if began is not None]


def held(served: Service) -> int:
    return sum(len(json.loads(gpus)) for (gpus,) in served.rows("SELECT gpu_uuids FROM task WHERE state != 'ended'"))


def check_resizes(served: Service, *jobs: Training) -> int:
    """How many there were: each to another size (there is one host), none before the job had run for its minimum, and
    nobody was told that there are no GPUs."""
    resizes = 0
    for job in jobs:
        found = allocations(served, job)
        for (before, began, ended), (after, _, _) in pairwise(found):
            resizes += 1
            assert before != after, f"{job.id} was stopped and started again at {before}"
            assert ended is not None
            assert ended - began >= MIN_RUN_S, f"{job.id} ran for {ended - began:.1f} s on {before}"
    assert served.rows("SELECT message FROM event WHERE code = 'unsatisfiable_now'") == []
    check_intervals(served)
    check_leases(served)
    return resizes


def submit(served: Service, out: Path, family: str) -> Training:
    return Training(served, out, "horovod", FLAGS, family=family, labels={})


def test_two_jobs_share_four_gpus_and_one_of_a_known_family_begins_at_its_size(served: Service, tmp_path: Path) -> None:
    first = submit(served, tmp_path / "first", "a")
    second = submit(served, tmp_path / "second", "b")
    wait_until(lambda: held(served) == 4, "all GPUs in use", 240)
    third = submit(served, tmp_path / "third", "a")
    wait_until(lambda: allocations(served, third), "the third at work", 240)
    wait_until(lambda: held(served) == 4, "all GPUs in use again", 240)
    served.http.delete(f"/jobs/{second.id}")
    served.wait(second.id, "cancelled", seconds=60)
    wait_until(lambda: held(served) == 4, "those of the second in use too", 240)
    # Which way there hangs on who starts first: the third takes GPUs of one that shrinks, or of one that waits again.
    assert check_resizes(served, first, second, third) >= 1, "all four were in use though nobody grew"
    [(size, _, ended), *_] = allocations(served, third)
    assert size > 1 or ended is None, "it began on one GPU and was stopped for more"


@pytest.mark.skipif(
    not os.environ.get("SCHEDULEARN_TEST_TRAINING"),
    reason="NOT tested here: eight minutes of two jobs side by side. Run `make test-training`",
)
@pytest.mark.timeout(900)
def test_for_minutes_no_gpu_idles_but_while_a_job_is_resized(served: Service, tmp_path: Path) -> None:
    jobs = [submit(served, tmp_path / name, name) for name in ("a", "b")]
    wait_until(lambda: held(served) == 4, "all GPUs in use", 240)
    began = time.monotonic()
    while time.monotonic() - began < LONG_S:
        moving = [served.job(job.id)["state"] for job in jobs]
        if all(state == "running" for state in moving) and held(served) < 4:
            wait_until(lambda: held(served) == 4, "an idle GPU in use, or a job between stop and start", 60)
        time.sleep(1.0)
    check_resizes(served, *jobs)
    told = served.rows("SELECT job_id FROM event WHERE kind = 'job.resized'")
    assert {job for (job,) in told} >= {job.id for job in jobs}
