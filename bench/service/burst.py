"""10,000 submissions at once, each over a connection of its own: each is accepted, or refused with 429 and
`Retry-After`, and what was accepted is stored."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

from bench.measured_service import JOB, ask_whole, raw, service, verdict

JOBS = 10_000
TOGETHER = 1_000  # connections that are open at a time: more than a laboratory's scripts would have


class Burst(NamedTuple):
    accepted: set[str]
    """Ids of jobs."""
    refused: int
    """With 429 and `Retry-After`."""
    wrong: Counter[str]
    """What came otherwise."""
    seconds: float


async def send(port: int, jobs: int, together: int = TOGETHER, token: str = "") -> Burst:
    """As fast as they are answered."""
    request = raw("POST", "/jobs", {**JOB, "required_gpus": 1}, token)
    free = asyncio.Semaphore(together)
    accepted: set[str] = set()
    wrong: Counter[str] = Counter()
    refused = 0

    async def one() -> None:
        nonlocal refused
        async with free:
            try:
                status, headers, body = await _ask_alone(port, request)
            except (OSError, asyncio.IncompleteReadError) as error:
                wrong[type(error).__name__] += 1
                return
        if status == 201:
            accepted.add(json.loads(body)["id"])
        elif status == 429 and int(headers.get("retry-after", "0")) > 0:
            refused += 1
        else:
            wrong[str(status)] += 1

    began = time.perf_counter()
    await asyncio.gather(*[one() for _ in range(jobs)])
    return Burst(accepted, refused, wrong, time.perf_counter() - began)


async def _ask_alone(port: int, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Over a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await ask_whole(reader, writer, request)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def main() -> bool:
    with service("--runtime", "process", "--simulate-gpus", "1") as target:
        # One job that holds the only GPU, so that submissions are met and not starts.
        target.request("POST", "/jobs", {**JOB, "command": "sleep 3600"})
        burst = asyncio.run(send(target.port, JOBS))
        stored = sum(target.get("/api/v1/jobs?limit=1")["counts"].values()) - 1
        for job in target.get("/api/v1/jobs?state=running")["items"]:
            target.request("DELETE", f"/api/v1/jobs/{job['id']}")
    told = f"{len(burst.accepted)} accepted, {burst.refused} refused, {dict(burst.wrong)} wrong, {stored} stored"
    print(f"  {JOBS} submissions over {TOGETHER} connections at a time took {burst.seconds:.1f} s: {told}")
    whole = not burst.wrong and len(burst.accepted) + burst.refused == JOBS
    return verdict("burst of submissions", told, "each accepted or refused with 429, none lost",
                   whole and stored == len(burst.accepted))  # fmt: skip
