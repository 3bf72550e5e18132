"""One decision of each policy. Budgets: 15 ms for 160 jobs on 64 GPUs, 0.4 s for 2,000 jobs on 4,096 GPUs of 3 types.

Goodputs are those of profiled applications, each job at a point of its own, so that nothing is shared or cached.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping

import numpy as np

from bench.measured_service import verdict
from schedulearn.metrics.model.goodput import Goodput
from schedulearn.metrics.model.residuals import Residuals
from schedulearn.scheduler.core.model import HostView, JobView, Snapshot
from schedulearn.scheduler.core.policy import plan_faults
from schedulearn.scheduler.policies.registry import POLICIES, make_policy
from schedulearn.scheduler.sim.application import Application, on_type
from schedulearn.scheduler.sim.workload import load_applications

DEFAULT = "default"
ONE = {"t4": 1.0}
THREE = {"t4": 1.0, "2080ti": 1.6, "a100": 4.0}


def main() -> bool:
    results = []
    for jobs, hosts, gpus, types, budget in ((160, 16, 4, ONE, 0.015), (2000, 512, 8, THREE, 0.4)):
        for name, metric in _measured():
            policy = make_policy(name, metric)
            times = []
            for seed in range(7):
                snapshot = _snapshot(jobs, hosts, gpus, types, seed)  # new ones: a decision is measured cold
                began = time.process_time()  # others may use the machine
                plan = policy.allocate(snapshot)
                times.append(time.process_time() - began)
                if plan_faults(snapshot, plan):
                    raise RuntimeError(f"{name} makes faulty plans")
            took = statistics.median(times)
            label = name if metric == DEFAULT else f"{name}:{metric}"
            what = f"{label}, {jobs} jobs on {hosts * gpus} GPUs"
            results.append(verdict(what, f"{took * 1e3:.1f} ms", f"<= {budget * 1e3:.0f} ms", took <= budget))
    return all(results)


def _measured() -> list[tuple[str, str]]:
    """(policy, metric): all policies, and of `goodput` each metric that decides in a way of its own."""
    metrics = {"goodput": ("default", "speed", "cost", "balanced")}
    return [(name, metric) for name in sorted(POLICIES) for metric in metrics.get(name, (DEFAULT,))]


def _goodput(application: Application, types: Mapping[str, float], dice: random.Random) -> Goodput:
    assert application.times is not None
    fitted = application.times.fitted()
    phi = application.phi(dice.randrange(application.last_part + 1)) * dice.uniform(0.9, 1.1)
    models = {kind: on_type(fitted, speed) for kind, speed in types.items()}
    seen = Residuals(np.linspace(0.9, 1.1, 8), np.linspace(1.1, 0.8, 64))  # what measured sizes deviate by
    return Goodput(models, phi, application.bounds, types, residuals=dict.fromkeys(models, seen))


def _snapshot(jobs: int, hosts: int, gpus: int, types: Mapping[str, float], seed: int) -> Snapshot:
    """Two thirds of the cluster held by running jobs, the rest of the jobs waiting. Two in three are elastic, with
    profiles and all kinds of lengths, and have run long enough to be moved."""
    dice = random.Random(seed)
    applications = [application for application in load_applications().values() if application.times is not None]
    kinds = list(types)
    views_of_hosts = tuple(HostView(f"h{index:03}", gpus, kinds[index % len(kinds)]) for index in range(hosts))
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
                goodput=_goodput(dice.choice(applications), types, dice) if elastic else None,
            )
        )
    return Snapshot(20000.0, 0, views_of_hosts, tuple(views))
