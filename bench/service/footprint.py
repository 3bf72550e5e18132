"""Start and size of the service, and what it takes when idle. Budget: ready in 1.5 s on a warm install; at most 120 MB
resident and 1 % of a core when idle, also after jobs have ended."""

from __future__ import annotations

import statistics
import time

from bench.measured_service import JOB, Service, compile_all, service, verdict

FLAGS = ("--runtime", "process", "--simulate-gpus", "4")
JOBS = 20


def main(idle_seconds: float = 30.0) -> bool:
    compile_all()
    ready, size = [], 0.0
    for _ in range(5):
        with service(*FLAGS) as target:
            ready.append(target.ready_seconds)
            time.sleep(1)
            size = target.rss_mb()
    median = statistics.median(ready)
    with service(*FLAGS) as target:
        _finish_jobs(target)
        before = target.cpu_seconds()
        time.sleep(idle_seconds)
        share = (target.cpu_seconds() - before) / idle_seconds
    return all(
        [
            verdict(
                "ready after start, new database", f"{median:.2f} s, best {min(ready):.2f}", "<= 1.5 s", median <= 1.5
            ),
            verdict("resident memory when idle", f"{size:.0f} MB", "<= 120 MB", size <= 120),
            verdict(
                f"processor share after {JOBS} jobs have ended, over {idle_seconds:.0f} s",
                f"{share:.2%} of a core", "< 1 %", share < 0.01,
            ),
        ]
    )  # fmt: skip


def _finish_jobs(target: Service) -> None:
    """Jobs that wait for each other and are of one family, so that their ends were predicted; and then rest until
    nothing follows from them any more."""
    for _ in range(JOBS):
        target.request("POST", "/jobs", {**JOB, "command": "sleep 2", "required_gpus": 2})
    while len(target.get("/api/v1/jobs?state=succeeded")["items"]) < JOBS:
        time.sleep(0.5)
    time.sleep(15)
