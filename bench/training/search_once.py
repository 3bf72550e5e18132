"""A search over real training, against all configurations. Budget: within 10 % of the best in a quarter of the trials.

`python -m bench search_once` trains a network of bench/courier/train.py through the real service on this machine's
processors: each of 48 configurations twice, then a search by time and one by time x GPU time, which know nothing of
that. `search_once=0.25`: a quarter of the epochs, to try it out.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.courier.factorial import digits_service, job_of, wait_for
from bench.measured_service import Service, verdict
from schedulearn.features.sweeps.models.configurations import Goal, TrialOutcome

GPUS: Sequence[int] = (1, 2, 3, 4)
SIZES: Sequence[int] = (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048)
GOALS: Sequence[Goal] = ("time", "both")
EPOCHS, REPLICATIONS, WIDTH = 32, 2, 256
SHARE, WITHIN = 0.25, 1.10

Point = tuple[int, int]
"""GPUs, batch size."""


def main(scale: float = 1.0) -> bool:
    job = {**job_of(WIDTH), "epochs": max(1, round(EPOCHS * scale)), "max_duration": 600}
    kept = True
    with digits_service(max(GPUS)) as target:
        seconds = exhaustive(target, job)
        for goal in GOALS:
            kept = search(target, job, goal, seconds) and kept
    return kept


def exhaustive(target: Service, job: Mapping[str, Any]) -> dict[Point, float]:
    """Seconds of each configuration, the mean over its runs."""
    began = time.monotonic()
    body = {
        "name": "all configurations", "job": {**job, "family": "exhaustive"}, "design": "factorial",
        "factors": {"required_gpus": GPUS, "batch_size": SIZES}, "replications": REPLICATIONS, "max_parallel": 1,
        "max_failures": 0,
    }  # fmt: skip
    found = target.request("POST", "/api/v1/experiments", body)
    wait_for(lambda: target.get(f"/api/v1/sweeps/{found['id']}")["finished_at"] is not None, 3600)
    runs: dict[Point, list[float]] = {}
    for each in target.get(f"/api/v1/experiments/{found['id']}?limit=1000")["table"]:
        if not each["results"]:
            raise RuntimeError(f"run {each['number']} did not succeed")
        point = each["params"]["required_gpus"], each["params"]["batch_size"]
        runs.setdefault(point, []).append(each["results"]["run_time"])
    off = statistics.median(max(took) / min(took) - 1 for took in runs.values())
    took_s = time.monotonic() - began
    print(
        f"  {len(runs)} configurations, each {REPLICATIONS} times, in {took_s:.0f} s; half differ by {off:.1%} or more"
    )
    return {point: statistics.fmean(took) for point, took in runs.items()}


def search(target: Service, job: Mapping[str, Any], goal: Goal, seconds: Mapping[Point, float]) -> bool:
    """What a search finds, by the times of all configurations."""
    began = time.monotonic()
    body = {"name": f"by {goal}", "job": job, "gpus": GPUS, "batch_sizes": SIZES, "goal": goal}
    started = target.request("POST", "/api/v1/searches", body)["id"]
    wait_for(lambda: target.get(f"/api/v1/searches/{started}")["finished_at"] is not None, 3600)
    answer = target.get(f"/api/v1/searches/{started}")
    values = {point: TrialOutcome(took, point[0]).value(goal) for point, took in seconds.items()}
    best = min(values, key=lambda point: values[point])
    most = math.floor(SHARE * len(values))
    trials = len(answer["tried"])
    if answer["found"] is None:
        return verdict(f"search by {goal}", "found nothing", f"<= {WITHIN}", False)
    found = answer["found"]["required_gpus"], answer["found"]["batch_size"]
    ratio = values[found] / values[best]
    return verdict(
        f"search by {goal}: {found[0]} GPUs, batch of {found[1]}, of the best ({best[0]}, {best[1]})",
        f"{ratio:.3f} after {trials} of {len(values)} trials, {time.monotonic() - began:.0f} s",
        f"<= {WITHIN} after {most}",
        ratio <= WITHIN and trials <= most,
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
