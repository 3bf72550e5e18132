"""A cluster to look at: the real service over fake hosts, with a past, jobs that run, jobs that wait and one that
reports. For screenshots and for the page's tests at scale.

python tests/support/showcase.py DATA PORT [HOSTS] [JOBS]
"""

from __future__ import annotations

import math
import random
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvicorn
from fakes.runtime import FakeRuntime
from sqlalchemy import insert
from sqlalchemy.engine import Connection

from schedulearn.api.app import create_app
from schedulearn.api.settings import load_settings
from schedulearn.features import FEATURES
from schedulearn.features.sweeps.table import Sweep, SweepRun
from schedulearn.features.webhooks.table import Webhook
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.hosts.embedded import EmbeddedHost, simulated_gpus
from schedulearn.scheduler.runtimes.log_store import LogStore
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.specs.job import JobSpec, new_job_id
from schedulearn.scheduler.store.accounting.capacity import Capacity
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.history import ClusterMinute
from schedulearn.scheduler.store.models import (
    Event,
    Gpu,
    GpuMinute,
    Host,
    Job,
    Meta,
    Metric,
    PassMeasurement,
    PolicyChoice,
    Profile,
)
from schedulearn.scheduler.store.models import Task as TaskTable
from schedulearn.scheduler.store.people.tables import ApiToken

CLUSTER = "showcase"
GPUS_A_HOST = 8
NAMES = ("resnet50-imagenet", "bert-squad", "gpt2-wikitext", "yolo-coco", "deepspeech-librispeech", "ncf-movielens",
         "vit-cifar", "unet-lungs")  # fmt: skip
USERS = ("ada", "ben", "chiara", "dmitri", "emeka")
HOST_NAMES = ("atlas", "boreas", "calypso", "daphne", "echo", "fama", "gaia", "hera")
LOG = (
    b"".join(
        b"[0]<stdout>:epoch %3d  loss %.4f  accuracy %.3f\n" % (n, 6 * 0.97**n, 0.74 - 0.7 * 0.95**n)
        for n in range(1, 33)
    )
    + b"[0]<stderr>:WARNING: the last batch of the epoch is smaller than the others\n"
)
FAULTS = (
    b'Traceback (most recent call last):\n  File "/workspace/train.py", line 212, in <module>\n    main()\n'
    b"ValueError: expected input of 224 x 224, got 192 x 224\n",
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has 79.10 GiB in all\n",
    b"FileNotFoundError: [Errno 2] No such file or directory: '/data/imagenet/train'\n",
)
DAYS = 7
DAY_S = 86_400.0


def host_names(count: int) -> list[str]:
    return [HOST_NAMES[i] if count <= len(HOST_NAMES) else f"node-{i:03}" for i in range(count)]


def seed(data: Path, hosts: int = 4, jobs: int = 240) -> str:
    """Fills a new database. Returns the id of the job that reports, which is to start once the service does."""
    rng = random.Random(4)
    now = time.time()
    db = Database(sqlite_url(data))
    try:
        return db.write(lambda c: _seed(c, rng, now, host_names(hosts), jobs))
    finally:
        db.close()


def _seed(c: Connection, rng: random.Random, now: float, names: list[str], count: int) -> str:
    c.execute(insert(Meta).values(key="cluster_id", value=CLUSTER))
    for position, name in enumerate(names):
        embedded = position == 0
        c.execute(insert(Host).values(
            id=name, address="fake" if embedded else f"unix:///fake/{name}.sock", runtime="fake" if embedded else
            "docker", labels={}, position=position, origin="embedded" if embedded else "settings",
            simulated_gpus=None if embedded else GPUS_A_HOST,
        ))  # fmt: skip
        c.execute(insert(Gpu), [{**asdict(gpu), "host_id": name} for gpu in simulated_gpus(CLUSTER, name, GPUS_A_HOST)])
    c.execute(insert(PolicyChoice), [
        {"at": now - days * DAY_S, "algorithm": algorithm, "metric": metric, "params": {}}
        for days, algorithm, metric in ((5.5, "fifo", "default"), (3.2, "las", "default"), (0.4, "goodput", "speed"))
    ])  # fmt: skip
    jobs, tasks, events = [], [], []
    for job, task in _past(rng, now, names, count):
        jobs.append(job)
        tasks.append(task)
        events += [_event(job, job["submitted_at"], "queued", "Submitted."),
                   _event(job, task["created_at"], "starting", f"Given GPUs: {len(task['gpu_uuids'])} on "
                          f"{task['host_id']}."),
                   _event(job, task["finished_at"], job["state"], job["message"])]  # fmt: skip
    reporter, attempts, decisions = _reporter(rng, now, names)
    events.sort(key=lambda event: event["at"])
    c.execute(insert(Job), [*jobs, reporter])
    c.execute(insert(TaskTable), tasks + attempts)
    c.execute(insert(Event), [{"host_id": None, "data": {}, "code": "", **event} for event in events + decisions])
    _measurements(c, reporter["id"], now)
    _sweep(c, rng, jobs)
    _minutes(c, rng, now, names[0], tasks)
    c.execute(insert(Capacity), [
        {"at": now - DAYS * DAY_S, "gpus": GPUS_A_HOST * (len(names) - 1)},
        {"at": now - 4 * DAY_S, "gpus": GPUS_A_HOST * len(names)},
    ])  # fmt: skip
    _receivers(c, now)
    return str(reporter["id"])


def _event(job: dict[str, Any], at: float, kind: str, message: str, **more: Any) -> dict[str, Any]:
    return {"at": at, "kind": f"job.{kind}", "job_id": job["id"], "message": message, **more}


def _past(
    rng: random.Random, now: float, names: list[str], count: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Ended jobs, packed onto the GPUs so that no GPU had two at a time."""
    free_at = {name: [now - DAYS * DAY_S + rng.random() * 3600 for _ in range(GPUS_A_HOST)] for name in names}
    gpus = {name: [gpu.uuid for gpu in simulated_gpus(CLUSTER, name, GPUS_A_HOST)] for name in names}
    mean = DAYS * DAY_S * len(names) * GPUS_A_HOST / (count * 3.0) * 0.8
    for _ in range(count):
        host = min(names, key=lambda name: sorted(free_at[name])[2])
        width = rng.choice((1, 1, 2, 2, 4, 8))
        order = sorted(range(GPUS_A_HOST), key=lambda gpu: free_at[host][gpu])[:width]
        begin = max(free_at[host][gpu] for gpu in order) + rng.random() * 600
        length = min(mean * 4, max(60.0, rng.lognormvariate(math.log(mean), 0.9)))
        if begin >= now - 400:
            free_at[host] = [now + DAY_S] * GPUS_A_HOST
            continue
        length = min(length, now - 300 - begin)
        for gpu in order:
            free_at[host][gpu] = begin + length
        state = rng.choices(("succeeded", "failed", "cancelled"), (12, 1, 1))[0]
        job = _job(rng, begin - rng.random() * 900, width, state, begin, begin + length)
        yield job, _task(job, 1, host, [gpus[host][gpu] for gpu in order], begin, begin + length)


def _job(
    rng: random.Random, at: float, gpus: int, state: str = "queued", begin: float | None = None,
    end: float | None = None, **fields: Any,
) -> dict[str, Any]:  # fmt: skip
    ran = (end - begin) if begin is not None and end is not None else 0.0
    reason, message = {
        "succeeded": ("completed", "The command ended with code 0."),
        "failed": ("command_failed", "The command ended with code 1."),
        "cancelled": ("cancelled", "Cancelled."),
        "queued": ("submitted", "Submitted."),
    }[state]
    name = rng.choice(NAMES)
    return {
        "id": new_job_id(), "name": name, "container_image": "schedulearn/horovod-cuda13",
        "spec": {
            "type": "Pytorch", "command": f"python {name.split('-')[0]}.py --lr 0.1 --epochs 90",
            "env": {"WANDB_TOKEN": "hush", "OMP_NUM_THREADS": "8"},
        },
        "required_gpus": gpus, "min_gpus": gpus,
        "max_gpus": gpus, "elastic": False, "priority": 50, "weight": 1.0, "deadline": None, "max_duration": None,
        "max_restarts": 0, "launcher": "horovod",
        "grace_period": 10.0, "shm_bytes": 8 << 30, "labels": {"project": rng.choice(("vision", "speech", "text"))},
        "user": rng.choice(USERS), "family": name, "state": state, "reason": reason, "message": message,
        "version": 1, "attempt": 1 if begin else 0, "restarts": 0, "losses": 0,
        "exit_code": {"succeeded": 0, "failed": 1}.get(state), "submitted_at": at, "started_at": begin,
        "finished_at": end, "run_seconds": ran, "gpu_seconds": ran * gpus, "pull_percent": None,
        "idempotency_key": None, "request_hash": None, **fields,
    }  # fmt: skip


def _task(job: dict[str, Any], attempt: int, host: str, gpus: list[str], begin: float, end: float) -> dict[str, Any]:
    return {
        "id": f"schedulearn-{job['id']}-{attempt}-0", "job_id": job["id"], "attempt": attempt, "rank": 0,
        "host_id": host, "gpu_uuids": gpus, "state": "ended", "stop": False, "created_at": begin,
        "started_at": begin + 4, "finished_at": end, "exit_code": job["exit_code"], "outcome": "completed",
        "error": "", "paused_at": None, "paused_seconds": 0.0, "energy_joules": (end - begin) * len(gpus) * 210.0,
    }  # fmt: skip


def _reporter(
    rng: random.Random, now: float, names: list[str]
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """An elastic job that was resized before and waits for its next attempt."""
    job = _job(rng, now - 290, 2, elastic=True, min_gpus=1, max_gpus=8, priority=80)
    job |= {"name": "resnet50-imagenet", "attempt": 3, "started_at": now - 280, "run_seconds": 260.0,
            "gpu_seconds": 1100.0, "user": "ada"}  # fmt: skip
    gpus = [gpu.uuid for gpu in simulated_gpus(CLUSTER, names[0], GPUS_A_HOST)]
    spans = ((1, 2, 280, 200), (2, 4, 198, 90), (3, 8, 88, 12))
    attempts = [_task(job, n, names[0], gpus[:k], now - begin, now - end) for n, k, begin, end in spans]
    told = [_event(job, now - 290, "queued", "Submitted.")]
    for n, k, begin, _ in spans:
        told.append(_event(job, now - begin, "starting", f"Given GPUs: {k} on {names[0]}."))
        told.append(_event(job, now - begin + 4, "running", "Its container runs."))
        if n < len(spans):
            why = f"{2 * k} GPUs train {1.9 - n / 10:.1f} times as fast as {k}."
            told.append(_event(job, now - spans[n][2] - 2, "resizing", why, code="resized"))
    return job, attempts, told


def _sweep(c: Connection, rng: random.Random, jobs: list[dict[str, Any]]) -> None:
    """Learning rates and batch sizes, tried by the last jobs that succeeded."""
    rates, sizes = (0.003, 0.01, 0.03, 0.1), (64, 128, 256)
    runs = [{"lr": rate, "batch_size": size} for rate in rates for size in sizes]
    tried = sorted((job for job in jobs if job["state"] == "succeeded"), key=lambda job: job["submitted_at"])
    tried = tried[-len(runs) :]
    if len(tried) < len(runs):
        return
    c.execute(insert(Sweep).values(
        id="sweep00001", name="vit-cifar learning rates", user="chiara", runs=len(runs), max_parallel=4,
        max_failures=None, state="completed", reason="completed", message="All runs have ended.",
        created_at=tried[0]["submitted_at"], finished_at=max(job["finished_at"] for job in tried),
        spec={"name": "vit-cifar learning rates", "grid": {"lr": rates, "batch_size": sizes},
              "job": {"type": "Pytorch", "container_image": "schedulearn/pytorch", "required_gpus": 2,
                      "command": "python vit.py --lr {lr} --batch {batch_size}"},
              "metric": {"name": "accuracy", "goal": "max"}},
    ))  # fmt: skip
    for number, (params, job) in enumerate(zip(runs, tried, strict=True), start=1):
        c.execute(insert(SweepRun).values(sweep_id="sweep00001", number=number, params=params, job_id=job["id"]))
        best = 0.93 - 0.04 * abs(math.log10(params["lr"] / 0.02)) - params["batch_size"] / 9000 + rng.gauss(0, 0.003)
        begin, end = job["started_at"], job["finished_at"]
        points = [
            [step, best * (1 - math.exp(-step / 300)), begin + (end - begin) * step / 2000]
            for step in range(0, 2001, 40)
        ]
        c.execute(insert(Metric).values(job_id=job["id"], name="accuracy", points=points, **_bounds(points)))


def _measurements(c: Connection, job_id: str, now: float) -> None:
    c.execute(insert(Profile).values(
        job_id=job_id, attempt=3, reported_at=now - 12, init_batch=256, max_batch=8192, min_local=32, max_local=256,
        accumulate=True, atomic_batch=192, accumulation=0, why="throughput x efficiency is best at 1536 samples",
        noise_scale=2900.0, epoch=31, epochs=90, position=400_000, epoch_samples=1_281_167, steps=26_300,
    ))  # fmt: skip
    c.execute(insert(PassMeasurement), [
        {"job_id": job_id, "gpu_type": "simulated", "num_nodes": 1, "num_gpus": k, "atomic_batch": batch,
         "passes": 400, "grad_time": 0.012 + 0.0011 * batch,
         "iter_time": 0.012 + 0.0011 * batch + (0.0 if k == 1 else 0.016 + 0.004 * k), "at": now - 100 + k}
        for k in (1, 2, 4, 8) for batch in (64, 128, 192)
    ])  # fmt: skip
    rng = random.Random(1)
    steps = range(0, 26_300, 130)
    curves = {
        "loss": lambda x: 6.2 * math.exp(-4 * x) + 1.1 + rng.gauss(0, 0.05),
        "accuracy": lambda x: 0.74 * (1 - math.exp(-4 * x)) + rng.gauss(0, 0.006),
        "noise_scale": lambda x: 300 + 2600 * x + rng.gauss(0, 60),
    }
    for name, value in curves.items():
        points = [[step, value(step / 26_300), now - 280 + 268 * step / 26_300] for step in steps]
        c.execute(insert(Metric).values(job_id=job_id, name=name, points=points, **_bounds(points)))


def _bounds(points: list[list[float]]) -> dict[str, float]:
    values = [value for _, value, _ in points]
    return {"last": values[-1], "lowest": min(values), "highest": max(values)}


def _minutes(c: Connection, rng: random.Random, now: float, host: str, tasks: list[dict[str, Any]]) -> None:
    """A day of the first host's GPUs, as their jobs had them, and of the cluster's utility since goodput decides."""
    last = int(now // 60)
    busy: dict[str, list[tuple[float, float]]] = {}
    for task in tasks:
        for uuid in task["gpu_uuids"] if task["host_id"] == host else ():
            busy.setdefault(uuid, []).append((task["started_at"], task["finished_at"]))
    rows = []
    for gpu in simulated_gpus(CLUSTER, host, GPUS_A_HOST):
        level = rng.uniform(60, 95)
        for minute in range(last - 1440, last):
            held = any(begin <= minute * 60 <= end for begin, end in busy.get(gpu.uuid, ()))
            load = min(100.0, level + rng.gauss(0, 4)) if held else 0.0
            rows.append({
                "gpu_uuid": gpu.uuid, "minute": minute, "utilization": round(load), "memory_bytes": (4 + load / 4) *
                (1 << 28), "temperature": 32 + round(load / 2.4), "power_w": 55 + round(load * 2.4),
            })  # fmt: skip
    c.execute(insert(GpuMinute), rows)
    since = last - int(0.4 * 1440)
    c.execute(insert(ClusterMinute), [
        {"minute": minute, "utility": 0.56 + 0.12 * math.sin((minute - since) / 90) + rng.gauss(0, 0.008), "low": 0.35,
         "high": 0.65}
        for minute in range(since, last)
    ])  # fmt: skip


def _receivers(c: Connection, now: float) -> None:
    """Webhooks that have got everything that there will ever be: nothing is sent from a made-up cluster."""
    done = {"position": 1 << 40, "created_at": now - 5 * DAY_S, "tries": 0, "last_error": ""}
    c.execute(insert(Webhook), [
        {**done, "url": "https://chat.example.org/hooks/gpu-lab", "events": ["job.ended", "host.lost"], "secret": "",
         "delivered": 812, "last_at": now - 340, "last_event": "job.succeeded", "last_status": 200},
        {**done, "url": "https://pager.example.org/v2/enqueue", "events": ["host.lost", "gpu.unhealthy"],
         "secret": "hush", "delivered": 3, "tries": 2, "last_at": now - 65, "last_event": "gpu.unhealthy",
         "last_status": 503, "last_error": "it answered 503"},
    ])  # fmt: skip
    c.execute(insert(ApiToken), [
        {"name": name, "hash": name, "created_at": now - days * DAY_S, "last_used_at": used and now - used}
        for name, days, used in (("ada's laptop", 40, 900), ("nightly evaluation", 12, 50_000), ("ben", 2, None))
    ])  # fmt: skip


def populate(cluster: Cluster, hosts: int, waiting: int = 9) -> None:
    """Jobs for two thirds of the GPUs, and some that are too large for what is left."""
    rng = random.Random(9)
    wanted = [rng.choice((1, 2, 2, 4)) for _ in range(hosts * 2)] + [GPUS_A_HOST] * waiting
    specs = [
        JobSpec.model_validate({
            "name": rng.choice(NAMES), "type": "Pytorch", "container_image": "schedulearn/horovod-cuda13",
            "command": "python train.py", "required_gpus": gpus, "user": rng.choice(USERS),
            "labels": {"project": rng.choice(("vision", "speech", "text"))},
        })
        for gpus in wanted
    ]  # fmt: skip
    cluster.service.submit(specs[:-waiting]).result()
    time.sleep(2)
    cluster.service.submit(specs[-waiting:]).result()


def _write_logs(data: Path, reporter: str) -> None:
    query = (
        "SELECT task.id, task.attempt, job.id, task.started_at, task.finished_at FROM task JOIN job "
        "ON job.id = task.job_id WHERE job.state = 'failed' OR job.id = ? ORDER BY job.id, task.attempt"
    )
    with closing(sqlite3.connect(f"file:{data / 'schedulearn.db'}?mode=ro", uri=True)) as db:
        tasks = db.execute(query, (reporter,)).fetchall()
    for number, (task_id, attempt, job_id, begin, end) in enumerate(tasks):
        text = LOG + FAULTS[number % len(FAULTS)]
        if job_id == reporter:
            text = b"attempt %d begins from its checkpoint\n" % attempt + (LOG if attempt == 3 else b"")
        writer = LogStore(data / "logs").writer(task_id)
        lines = text.splitlines(keepends=True)
        for at, line in enumerate(lines):
            writer.append(line, begin + (end - begin) * at / len(lines))
        writer.close()


def main(data: Path, port: int, hosts: int = 4, jobs: int = 240) -> None:
    data.mkdir(parents=True, exist_ok=True)
    _write_logs(data, seed(data, hosts, jobs))
    names = host_names(hosts)
    busy: dict[str, float] = {}

    def utilization(uuid: str) -> float | None:
        return busy.setdefault(uuid, random.Random(uuid).uniform(55, 99)) if uuid in held() else None

    def held() -> set[str]:
        return {uuid for spec in runtime.tasks() for uuid in spec.gpu_uuids}

    runtimes = {name: FakeRuntime(name) for name in names}
    runtime = runtimes[names[0]]
    gpus = simulated_gpus(CLUSTER, names[0], GPUS_A_HOST)
    embedded = EmbeddedHost(names[0], "fake", "fake", runtime, list(gpus), utilization)
    start = Cluster.start

    def started(cluster: Cluster) -> None:
        start(cluster)
        populate(cluster, hosts)
        for fake in runtimes.values():
            for task in fake.tasks():
                writer = cluster.logs.writer(task.task_id)  # as the runtime of a real host does
                writer.append(LOG, time.time())
                writer.abandon()

    Cluster.start = started  # type: ignore[method-assign]
    settings = load_settings(
        data=data,
        hosts=[
            HostSpec(address=f"unix:///fake/{name}.sock", name=name, simulate_gpus=GPUS_A_HOST) for name in names[1:]
        ],
    )
    app = create_app(settings, lambda *_: embedded, lambda row: runtimes[row.id], features=FEATURES)
    uvicorn.run(app, port=port, log_level="warning", timeout_graceful_shutdown=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:]))
