"""What predictions cost the API. Budget: its medians beside them at most 1.1 times those of a service without any.

Both services run at the same time with the same jobs, and one client asks them in turn: what else the machine does hits
both. A job is submitted to each every two seconds, so that one predicts as often as it ever does."""

from __future__ import annotations

import http.client
import json
import random
import statistics
import sys
import time

from bench.measured_service import JOB, Service, service, verdict

JOBS = 1000  # that wait: a prediction then takes all of its time to compute
PAUSE_S = 0.02  # between requests: a service that is not busy
SUBMIT_EVERY_S = 2.0
FLAGS = ("--runtime", "process", "--simulate-gpus", "1")


def main(seconds: float = 40.0) -> bool:
    without = (sys.executable, "-m", "bench.service.without_forecasts")
    with service(*FLAGS) as busy, service(*FLAGS, program=without) as calm:
        both = (busy, calm)
        ids = [_fill(each) for each in both]
        while busy.get("/api/v1/jobs?limit=1")["items"][0]["eta"] is None:
            time.sleep(0.1)
        if calm.get("/api/v1/jobs?limit=1")["items"][0]["eta"] is not None:
            raise RuntimeError("the service that was to predict nothing does")
        before = [each.cpu_seconds() for each in both]
        times = _ask(both, ids, seconds)
        used = [(each.cpu_seconds() - was) / seconds for each, was in zip(both, before, strict=True)]
        for each in both:
            for job in each.get("/api/v1/jobs?state=running")["items"]:
                each.request("DELETE", f"/api/v1/jobs/{job['id']}")
    sums = [0.0, 0.0]
    for path, found in times.items():
        medians = [statistics.median(each) * 1e3 for each in found]
        sums = [total + median for total, median in zip(sums, medians, strict=True)]
        print(f"  {path}: median {medians[0]:.2f} ms with predictions, {medians[1]:.2f} without, {len(found[0])} each")
    print(f"  processor share {used[0]:.1%} with, {used[1]:.1%} without")
    ratio = sums[0] / sums[1]
    return verdict("API medians with predictions over without", f"{ratio:.2f} x", "<= 1.1 x", ratio <= 1.1)


def _fill(target: Service) -> list[str]:
    jobs = [{**JOB, "command": "sleep 3600"}] * 250
    batches = [target.request("POST", "/api/v1/jobs:batch", jobs) for _ in range(JOBS // 250)]
    return [job["id"] for batch in batches for job in batch["items"]]


def _ask(both: tuple[Service, Service], ids: list[list[str]], seconds: float) -> dict[str, tuple[list[float], ...]]:
    """Path -> the seconds that each of both took to answer, each time."""
    dice = random.Random(0)
    clients = [http.client.HTTPConnection("127.0.0.1", each.port, timeout=60) for each in both]
    times: dict[str, tuple[list[float], ...]] = {}
    end, submit_at = time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        if time.monotonic() > submit_at:
            submit_at = time.monotonic() + SUBMIT_EVERY_S
            for client in clients:
                _request(client, "POST", "/jobs", json.dumps(JOB))
        job = dice.randrange(JOBS)
        for path in ("/api/v1/jobs?limit=50", "/api/v1/jobs/{id}", "/api/v1/hosts"):
            for which in dice.sample((0, 1), 2):
                began = time.perf_counter()
                _request(clients[which], "GET", path.replace("{id}", ids[which][job]))
                times.setdefault(path, ([], []))[which].append(time.perf_counter() - began)
            time.sleep(PAUSE_S)
    return times


def _request(client: http.client.HTTPConnection, method: str, path: str, body: str | None = None) -> None:
    client.request(method, path, body, {"content-type": "application/json"})
    answer = client.getresponse()
    answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path} answered {answer.status}")
