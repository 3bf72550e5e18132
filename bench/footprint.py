"""Start and size of the service. Budget: ready in 1.5 s on a warm install, at most 120 MB resident when idle."""

from __future__ import annotations

import compileall
import statistics
import time

from bench.service import service, verdict


def main() -> bool:
    for folder in ("api", "scheduler", "metrics"):  # as `make setup` leaves it, whatever was edited since
        compileall.compile_dir(folder, quiet=1)
    ready, size = [], 0.0
    for _ in range(5):
        with service("--runtime", "process", "--simulate-gpus", "4") as target:
            ready.append(target.ready_seconds)
            time.sleep(1)
            size = target.rss_mb()
    median = statistics.median(ready)
    return all(
        [
            verdict(
                "ready after start, new database", f"{median:.2f} s, best {min(ready):.2f}", "<= 1.5 s", median <= 1.5
            ),
            verdict("resident memory when idle", f"{size:.0f} MB", "<= 120 MB", size <= 120),
        ]
    )
