"""Two real jobs that can't be resized take turns on one GPU."""

from __future__ import annotations

import time
from itertools import groupby
from pathlib import Path

import pytest
from services import Service

pytestmark = pytest.mark.process

QUANTUM = 1.0


def quantum_now() -> int:
    return int(time.time() / QUANTUM)


def test_two_rigid_jobs_take_turns_on_one_gpu_and_both_come_to_their_end(tmp_path: Path) -> None:
    marks, done = tmp_path / "marks", tmp_path / "done"

    def command(name: str) -> str:
        """Leaves its mark all the time; says goodbye when it is stopped."""
        loop = f"while [ ! -e {done} ]; do echo {name} >> {marks}; sleep 0.02; done"
        return f"""sh -c 'trap "echo saved; exit 1" TERM; {loop}'"""

    def turns() -> list[str]:
        return [name for name, _ in groupby(marks.read_text().split())] if marks.exists() else []

    with Service(tmp_path / "data", gpus=1) as served:
        policy = {"algorithm": "gandiva", "params": {"quantum": QUANTUM}}
        assert served.http.put("/api/v1/policy", json=policy).status_code == 200
        first = quantum_now()
        began = time.monotonic()
        jobs = [served.submit(command(name)) for name in ("a", "b")]
        while len(turns()) < 6:
            assert time.monotonic() < began + 60, f"{turns()} {served.log()[-3000:]}"
            time.sleep(0.05)
        # Quanta are those of the clock, and each brings one switch; the second job may have the one in which it comes.
        # Did they run at the same time, their marks would alternate far more often.
        assert len(turns()) <= quantum_now() - first + 2
        views = [served.job(job) for job in jobs]
        assert {view["state"] for view in views} == {"running"}
        [paused] = [view for view in views if view["reason"] == "time_slice"]
        assert "waits for its time slice" in paused["message"]

        # The one that pauses is stopped, and still gets its time to save what it has; the other one goes on alone.
        assert served.http.post(f"/api/v1/jobs/{paused['id']}/cancel").status_code < 300
        served.wait(paused["id"], "cancelled")
        assert "saved" in served.logs(paused["id"])
        done.touch()
        [other] = [job for job in jobs if job != paused["id"]]
        assert served.wait(other, "succeeded")["restarts"] == 0
        ran = served.rows("SELECT finished_at - started_at, paused_seconds FROM task")
        assert all(0 < seconds < whole for whole, seconds in ran)
        spans = {job: served.job(job)["run_seconds"] for job in jobs}
        [(whole,)] = served.rows(f"SELECT finished_at - started_at FROM task WHERE job_id = '{other}'")
        assert spans[other] < whole
