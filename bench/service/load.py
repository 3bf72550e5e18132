"""The API and the database with 10,000 jobs in them. Budgets: p99 of 50 clients reading and writing 100 ms without an
error; list pages in 20 ms; the database 50 MB after 10,000 finished jobs."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from sqlalchemy import insert
from sqlalchemy.engine import Connection

from bench.measured_service import JOB, ask, raw, service, verdict
from schedulearn.features import load_tables
from schedulearn.scheduler.control.service import Service
from schedulearn.scheduler.core.host_facts import FoundGpu
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.models import Host

JOBS = 10_000
CLIENTS = 50
REQUESTS = 4_000
RATE = 150  # requests a second of all clients together: what a large lab's page, scripts and SDKs might send


def main() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        _fill(data)
        size = (data / "schedulearn.db").stat().st_size / 1e6
        with service("--runtime", "process", "--simulate-gpus", "1", data=data) as target:
            target.request("POST", "/jobs", {**JOB, "command": "sleep 600"})
            time.sleep(1)
            pages = []
            cursor = ""
            for _ in range(40):
                began = time.perf_counter()
                page = target.get(f"/api/v1/jobs?limit=50{cursor}")
                pages.append(time.perf_counter() - began)
                cursor = f"&cursor={page['next']}"
            latencies, errors = asyncio.run(_load(target.port, [job["id"] for job in page["items"]]))
            for job in target.get("/api/v1/jobs?state=running")["items"]:
                target.request("DELETE", f"/api/v1/jobs/{job['id']}")
    page_ms = statistics.median(pages) * 1e3
    p50, p99 = (statistics.quantiles(latencies, n=100)[i] * 1e3 for i in (49, 98))
    print(f"  {len(latencies)} requests of {CLIENTS} clients: median {p50:.1f} ms, p99 {p99:.1f} ms, {errors} errors")
    return all(
        [
            verdict(f"database of {JOBS} finished jobs", f"{size:.1f} MB", "<= 50 MB", size <= 50),
            verdict("list page of 50 jobs", f"{page_ms:.1f} ms", "<= 20 ms", page_ms <= 20),
            verdict("API p99", f"{p99:.1f} ms, {errors} errors", "<= 100 ms, none", p99 <= 100 and not errors),
        ]
    )


def _fill(data: Path) -> None:
    """10,000 jobs that ran and ended, with the tasks and events that real ones leave."""
    load_tables()
    db = Database(sqlite_url(data))
    service = Service(db)
    spec = JobSpec(**{**JOB, "command": "python examples/digits/train.py --epochs 20 --lr 0.05"})
    db.write(_host)
    for start in range(0, JOBS, 500):
        rows = service.submit([spec] * 500).result()
        db.write(lambda connection, rows=rows: [_live(connection, row["id"]) for row in rows])
        print(f"\r  filling the database: {start + 500} jobs", end="", flush=True)
    print()
    db.close()
    with closing(sqlite3.connect(data / "schedulearn.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _host(db: Connection) -> None:
    db.execute(insert(Host).values(id="past", address="", runtime="process", state="cordoned", labels={}, position=9))
    repository.sync_gpus(db, "past", [FoundGpu("GPU-past", 0, "simulated", 1 << 34, simulated=True)])


def _live(db: Connection, job_id: str) -> None:
    now = time.time()
    task_id = f"schedulearn-{job_id}-1-0"
    repository.move_job(db, repository.get_job(db, job_id), Reason.PLACED, "Given GPUs: 1 on past.", now, attempt=1)
    repository.add_task(db, [("GPU-past", 0)], now, id=task_id, job_id=job_id, attempt=1, rank=0, host_id="past")
    job = repository.get_job(db, job_id)
    repository.move_job(db, job, Reason.CONTAINER_RUNNING, "Running on past (1 GPU).", now, started_at=now)
    [task] = tasks_of(db, [job_id])
    repository.end_task(db, task, outcome="completed", now=now, exit_code=0, started_at=now)
    job = repository.get_job(db, job_id)
    repository.move_job(db, job, Reason.COMPLETED, "The command ended with exit code 0.", now, exit_code=0)


async def _load(port: int, ids: list[str]) -> tuple[list[float], int]:
    dice = random.Random(0)
    latencies: list[float] = []
    errors = 0
    each = REQUESTS // CLIENTS

    async def client(number: int) -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(dice.random() * CLIENTS / RATE)
        for _ in range(each):
            job = dice.choice(ids)
            request, wanted = dice.choices(
                [
                    (raw("GET", "/api/v1/jobs?limit=50"), 200),
                    (raw("GET", f"/api/v1/jobs/{job}"), 200),
                    (raw("GET", f"/api/v1/jobs/{job}/events"), 200),
                    (raw("POST", "/jobs", JOB), 201),
                    (raw("GET", "/api/v1/hosts"), 200),
                ],
                weights=[2, 3, 1, 3, 1],
            )[0]
            began = time.perf_counter()
            status, _ = await ask(reader, writer, request)
            took = time.perf_counter() - began
            latencies.append(took)
            errors += status != wanted
            await asyncio.sleep(max(0.0, CLIENTS / RATE - took))
        writer.close()

    await asyncio.gather(*[client(number) for number in range(CLIENTS)])
    return latencies, errors
