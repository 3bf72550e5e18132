"""Policy that knows all arrivals, run times and noise scales in advance.

It shows the value of foresight alone. A unit of a job's work is worth what it saves of the job's cost to its end, at
the prices that prove the lower bound (`bound.py`). Each job takes k = argmax worth S(k) - price k, at the lowest price
of today that fits. Restarts cost it as much as all others; the bound leaves them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from bench.policies.bound import Market
from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.goodput.knapsack import Floats, assign
from schedulearn.scheduler.policies.goodput.options import Options, build_options
from schedulearn.scheduler.policies.goodput.packing import pack
from schedulearn.scheduler.policies.goodput.prices import market_price
from schedulearn.scheduler.sim.workload import TraceJob

LASTS_S, PATIENCE = 60.0, 0.2  # seconds that an allocation lasts, plus a share of the job's run time
RESTART_S = 30.0


class Foresight(Policy):
    """Policy for elastic jobs of `trace` and one GPU type, with declared run times."""

    name: ClassVar[str] = "foresight"
    resizes: ClassVar[bool] = True

    def __init__(self, market: Market, trace: Sequence[TraceJob]) -> None:
        self.market = market
        self.trace = {job.id: job for job in trace}

    def allocate(self, snapshot: Snapshot) -> Plan:
        jobs = tuple(sorted(snapshot.jobs, key=lambda job: job.order))
        if not jobs:
            return Plan({})
        options = build_options(jobs, snapshot.hosts)
        value = _discount_restarts(options)
        worth = np.array([self._worth(job, snapshot.now) for job in jobs])[:, None]
        base = np.where(value > 0, -worth * value, np.inf)
        size = options.size.astype(float)
        price = market_price(base, size, options, options.capacity) * options.tuning.slack
        cost = base + price * size
        cost[:, options.wait] = options.tuning.waiting * (worth[:, 0] + price)
        choice = assign(cost, options.gpus, options.pool, options.capacity, options.tuning).choice
        wants = {
            job.id: options.want(row, int(column))
            for row, (job, column) in enumerate(zip(jobs, choice, strict=True))
            if column != options.wait
        }
        return Plan(pack(wants, jobs, snapshot.hosts))

    def _worth(self, job: JobView, now: float) -> float:
        """Return what a second of work on one GPU is worth, in seconds."""
        if job.goodput is None or job.remaining is None:
            return 1.0
        application = self.trace[job.id].application
        costs = self.market.costs[application.name]
        parts = len(costs) - 1
        one = float(job.goodput(1, 1)) / application.bounds.init_batch  # steps a second on one GPU
        part = min(parts - 1, int((1 - job.remaining * one / application.total_steps) * parts))
        here, after = (float(np.interp(now, self.market.clock, costs[row])) for row in (part, part + 1))
        return max(1e-6, (here - after) * one / (application.total_steps / parts))


def _discount_restarts(options: Options) -> Floats:
    """Return the speedups (J, C), reduced where the job would restart."""
    value = options.speedup.copy()
    value[:, options.wait] = 0.0
    for row, job in enumerate(options.jobs):
        if job.allocation:
            lasts = LASTS_S + PATIENCE * job.run_seconds
            value[row, : options.stay] *= lasts / (lasts + (job.resize_seconds or RESTART_S))
    return value
