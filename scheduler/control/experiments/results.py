"""Keeps what each run of a sweep came to, once its job has ended."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import partial

from sqlalchemy.engine import Connection

from schedulearn.scheduler.advisor.advice import price_of
from schedulearn.scheduler.control.experiments.machine_use import Looks, Mean, machine_use, mean_while
from schedulearn.scheduler.store.accounting.usage import gpu_types
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.experiments import results as store
from schedulearn.scheduler.store.experiments.results import Ended, Recorded

_BATCH = 100  # runs that one turn records
_MOST_METRICS = 100
_SECONDS = 3600.0


class RunResults:
    def __init__(self, db: Database, prices: Mapping[str, float], utilization: Mean, looks: Looks) -> None:
        """`prices`: of an hour of a GPU, by its type. `utilization`: of a GPU, in per cent, from what is in memory."""
        self._db = db
        self._prices = prices
        self._utilization = utilization
        self._looks = looks

    def record(self, now: float) -> None:
        """What is not recorded in this turn is in the next one; every turn may be the first after a start."""
        with self._db.read() as conn:
            ended = store.unrecorded(conn, _BATCH)
            found = [
                Recorded(each.sweep_id, each.number, each.job_id, self._results(conn, each, now)) for each in ended
            ]
        if found:
            self._db.write(lambda conn: store.record(conn, found))

    def _results(self, conn: Connection, run: Ended, now: float) -> dict[str, float]:
        """Nothing of a run that did not succeed: how long it took says nothing of its parameters."""
        if not run.succeeded:
            return {}
        found: dict[str, float] = {name: run.metrics[name] for name in sorted(run.metrics)[:_MOST_METRICS]}
        found |= {
            "response_time": run.finished_at - run.submitted_at,
            "run_time": run.run_seconds,
            "gpu_hours": run.gpu_seconds / _SECONDS,
        }
        if run.started_at is not None:
            found["wait_time"] = run.started_at - run.submitted_at
        if run.epochs:
            found["epoch_time"] = run.run_seconds / run.epochs
            if run.epoch_samples and run.run_seconds > 0:
                found["throughput"] = run.epoch_samples * run.epochs / run.run_seconds
        if energy := sum(task.energy_joules for task in run.tasks):
            found["energy"] = energy
        if (used := self._mean_utilization(conn, run, now)) is not None:
            found["gpu_utilization"] = used
        found |= machine_use(conn, run, self._looks, now)
        if (cost := self._cost(conn, run)) is not None:
            found["cost"] = cost
        return {name: round(value, 6) for name, value in found.items()}

    def _mean_utilization(self, conn: Connection, run: Ended, now: float) -> float | None:
        stored = partial(store.mean_utilization, conn)
        means = [
            mean
            for task in run.tasks
            for uuid in task.gpu_uuids
            if (mean := mean_while(task, uuid, self._utilization, stored, now)) is not None
        ]
        return statistics.fmean(means) if means else None

    def _cost(self, conn: Connection, run: Ended) -> float | None:
        """None where the price of one of its GPUs is not known."""
        if not self._prices:
            return None
        types = gpu_types(conn, [uuid for task in run.tasks for uuid in task.gpu_uuids])
        cost = 0.0
        for task in run.tasks:
            for uuid in task.gpu_uuids:
                price = price_of(self._prices, types.get(uuid, ""))
                if price is None:
                    return None
                cost += price * (task.ended_at - task.held_at) / _SECONDS
        return cost
