"""One decision of each policy. Budgets: 15 ms for 160 jobs on 64 GPUs, 1 s for 2,000 jobs on 4,096 GPUs."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

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


@dataclass(frozen=True)
class _Speed:
    """A goodput that costs next to nothing to ask: what is timed is the policy."""

    scaling: float

    def __call__(self, num_nodes: Any, num_gpus: Any, gpu_type: str | None = None) -> Any:
        gpus = np.asarray(num_gpus, dtype=float)
        return 100.0 * np.where(np.asarray(num_nodes) > 1, 0.9, 1.0) * gpus**self.scaling


def _snapshot(jobs: int, hosts: int, gpus: int) -> Snapshot:
    """Two thirds of the cluster held by running jobs, the rest of the jobs waiting. Two in three are elastic, with
    profiles and all kinds of lengths, and have run long enough to be moved."""
    dice = random.Random(0)
    free = {f"h{index:03}": gpus for index in range(hosts)}
    views = []
    for index in range(jobs):
        size = dice.choice([1, 1, 1, 2, 2, 4])
        elastic = dice.random() < 2 / 3
        held = next((h for h, left in free.items() if left >= size), None) if dice.random() < 0.6 else None
        if held is not None:
            free[held] -= size
        run_seconds = dice.expovariate(1 / 5000) if held is not None or dice.random() < 0.3 else 0.0
        views.append(
            JobView(
                str(index),
                float(index),
                size,
                1 if elastic else size,
                16 if elastic else size,
                elastic,
                deadline=1e6 + dice.uniform(0, 1e5),
                priority=dice.randrange(101),
                attained_gpu_seconds=run_seconds * size,
                run_seconds=run_seconds,
                allocation={held: size} if held is not None else {},
                remaining=dice.expovariate(1 / 5000) if dice.random() < 0.7 else None,
                goodput=_Speed(dice.uniform(0.4, 1.0)) if elastic else None,
            )
        )
    return Snapshot(20000.0, 0, tuple(HostView(name, gpus) for name in free), tuple(views))
