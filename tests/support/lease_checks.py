"""No GPU is ever given twice: checked in the database of a service, from its history and right now."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise

from services import Service


def check_intervals(service: Service) -> None:
    """From the history of tasks: no GPU was in two tasks at a time, no job in two attempts at a time."""
    rows = service.rows("SELECT job_id, attempt, id, gpu_uuids, started_at, finished_at FROM task WHERE started_at > 0")
    spans: dict[str, list[tuple[float, float, str]]] = {}
    attempts: dict[tuple[str, str], tuple[float, float]] = {}
    for job_id, attempt, task_id, gpus, started, finished in rows:
        end = finished or time.time()
        for uuid in gpus.strip("[]").split(", "):
            spans.setdefault(uuid, []).append((started, end, task_id))
        first, last = attempts.get((job_id, f"attempt {attempt}"), (started, end))
        attempts[job_id, f"attempt {attempt}"] = (min(first, started), max(last, end))
    for (job_id, name), (first, last) in attempts.items():
        spans.setdefault(job_id, []).append((first, last, name))
    for key, found in spans.items():
        found.sort()
        for (_, end, before), (begin, _, after) in pairwise(found):
            assert begin >= end - 0.005, f"{key} was in {before} and {after} at a time"


def check_leases(service: Service) -> None:
    """Right now: each leased GPU belongs to one live task."""
    leases = Counter(uuid for (uuid,) in service.rows("SELECT gpu_uuid FROM lease"))
    assert all(count == 1 for count in leases.values()), leases
    orphans = service.rows("SELECT l.task_id FROM lease l JOIN task t ON t.id = l.task_id WHERE t.state = 'ended'")
    assert orphans == []
