"""Durable submissions, one by one over Slurm's `sbatch` on the same machine, and 10,000 in one batch.

Budgets: 2 times as many a second, and 3 s for the batch. Each POST is answered once the job is flushed to disk. Slurm
is Debian's slurm-wlm, set up for this run on loopback; without root or the package there is no ratio, and the run says
so.
"""

from __future__ import annotations

import asyncio
import subprocess
import time

from bench.measured_service import JOB, ask, raw, service, verdict
from bench.service.real_slurm import install, real_slurm

SECONDS = 5.0
CLIENTS = 32
BATCH = 10_000


def main() -> bool:
    with service("--runtime", "process", "--simulate-gpus", "1") as target:
        # One job that holds the only GPU, so that submissions are measured and not starts.
        target.request("POST", "/jobs", {**JOB, "command": "sleep 600"})
        time.sleep(1)
        one = asyncio.run(_posts(target.port, 1))
        many = asyncio.run(_posts(target.port, CLIENTS))
        began = time.perf_counter()
        target.request("POST", "/api/v1/jobs:batch", [JOB] * BATCH)
        batch = time.perf_counter() - began
        stored = sum(target.get("/api/v1/jobs?limit=1")["counts"].values())
        for job in target.get("/api/v1/jobs?state=running")["items"]:
            target.request("DELETE", f"/api/v1/jobs/{job['id']}")
    print(f"  POST /jobs: {one:.0f}/s from 1 client, {many:.0f}/s from {CLIENTS}; {stored} stored")
    held = verdict("10,000 jobs in one batch", f"{batch:.2f} s", "<= 3 s", batch <= 3)
    if missing := install():
        print(f"  NOT COMPARED: {missing}")
        return held
    with real_slurm() as env:
        # As above: one job holds the only processor, so that the others wait in a queue that Slurm looks after.
        subprocess.run(
            ["sbatch", "-o", "/dev/null", "--wrap=sleep 600"], env=env, stdout=subprocess.DEVNULL, check=True
        )
        time.sleep(2)
        by_one, by_eight = _sbatches(1, env), _sbatches(8, env)
    print(f"  sbatch: {by_one:.0f}/s from 1 shell, {by_eight:.0f}/s from 8")
    return verdict("one by one, over sbatch", f"{one / by_one:.1f} x", ">= 2 x", one >= 2 * by_one) and held


async def _posts(port: int, clients: int) -> float:
    request = raw("POST", "/jobs", JOB)
    end = time.perf_counter() + SECONDS

    async def client() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        count = 0
        while time.perf_counter() < end:
            status, _ = await ask(reader, writer, request)
            if status != 201:
                raise RuntimeError(f"POST /jobs answered {status}")
            count += 1
        writer.close()
        return count

    return sum(await asyncio.gather(*[client() for _ in range(clients)])) / SECONDS


def _sbatches(clients: int, env: dict[str, str]) -> float:
    """Jobs that sbatch takes a second, from so many shells at once; the jobs stay in the queue."""
    each = 200 // clients
    began = time.perf_counter()
    shells = [
        subprocess.Popen(
            [
                "sh",
                "-c",
                f"for i in $(seq {each}); do sbatch -o /dev/null --wrap=true >/dev/null || exit 1; done",
            ],
            env=env,
        )
        for _ in range(clients)
    ]
    if any(shell.wait() for shell in shells):
        raise RuntimeError("sbatch failed")
    return each * clients / (time.perf_counter() - began)
