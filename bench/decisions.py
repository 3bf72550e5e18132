"""One decision of each policy. Budgets: 15 ms for 160 jobs on 64 GPUs, 1 s for 2,000 jobs on 4,096 GPUs."""

from __future__ import annotations

import random
import statistics
import time

from bench.service import verdict
from schedulearn.scheduler.domain import HostView, JobView, Snapshot
from schedulearn.scheduler.policy import POLICIES, make_policy, plan_faults


def main() -> bool:
    results = []
    for jobs, hosts, gpus, budget in ((160, 16, 4, 0.015), (2000, 512, 8, 1.0)):
        snapshot = _snapshot(jobs, hosts, gpus)
        for name in sorted(POLICIES):
            policy = make_policy(name)
            times = []
            for _ in range(7):
                began = time.perf_counter()
                plan = policy.allocate(snapshot)
                times.append(time.perf_counter() - began)
            if plan_faults(snapshot, plan):
                raise RuntimeError(f"{name} makes faulty plans")
            took = statistics.median(times)
            what = f"{name}, {jobs} jobs on {hosts * gpus} GPUs"
            results.append(verdict(what, f"{took * 1e3:.1f} ms", f"<= {budget * 1e3:.0f} ms", took <= budget))
    return all(results)


def _snapshot(jobs: int, hosts: int, gpus: int) -> Snapshot:
    """Two thirds of the cluster held by running jobs, the rest of the jobs waiting."""
    dice = random.Random(0)
    free = {f"h{index:03}": gpus for index in range(hosts)}
    views = []
    for index in range(jobs):
        size = dice.choice([1, 1, 1, 2, 2, 4])
        held = next((h for h, left in free.items() if left >= size), None) if dice.random() < 0.6 else None
        if held is not None:
            free[held] -= size
        views.append(
            JobView(str(index), float(index), size, size, size, allocation={held: size} if held is not None else {})
        )
    return Snapshot(1e6, 0, tuple(HostView(name, gpus) for name in free), tuple(views))
