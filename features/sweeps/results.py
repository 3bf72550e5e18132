"""Results of the runs of sweeps, recorded when their jobs have ended."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Mapping, Set
from functools import partial

from sqlalchemy.engine import Connection

from schedulearn.features.sweeps import result_rows as store
from schedulearn.features.sweeps.machine_use import Mean, RecentMeasurements, machine_use, mean_while
from schedulearn.features.sweeps.result_rows import EndedRun, Recorded
from schedulearn.scheduler.core.prices import cost_of
from schedulearn.scheduler.store.accounting.usage import usage_of_job
from schedulearn.scheduler.store.db import Database

_BATCH = 100  # maximum runs recorded in one cycle
_MAX_METRICS = 100
_JOULES_A_KWH = 3.6e6


class RunResults:
    def __init__(
        self,
        db: Database,
        prices: Mapping[str, float],
        utilization: Mean,
        looks: RecentMeasurements,
        is_energy_counted: Callable[[Collection[str], float], bool],
    ) -> None:
        """`prices`: price of a GPU-hour by type of GPU.

        `utilization`: mean of a GPU, in percent, from recent readings. `is_energy_counted`: returns whether the energy
        of these GPUs up to a time is stored."""
        self._db = db
        self._prices = prices
        self._utilization = utilization
        self._looks = looks
        self._is_energy_counted = is_energy_counted

    def record(self, now: float) -> Set[str]:
        """Store results of ended runs; return sweeps with incomplete energy data.

        Runs that are not recorded now are left to the next cycle. Any cycle may be the first after a start."""
        found: list[Recorded] = []
        unsettled: set[str] = set()
        with self._db.read() as conn:
            for run in store.unrecorded(conn, _BATCH):
                if self._is_settled(run):
                    found.append(Recorded(run.sweep_id, run.number, run.job_id, self._results(conn, run, now)))
                else:
                    unsettled.add(run.sweep_id)
        if found:
            self._db.write(lambda conn: store.record(conn, found))
        return unsettled

    def _is_settled(self, run: EndedRun) -> bool:
        return all(self._is_energy_counted(task.gpu_uuids, task.ended_at) for task in run.tasks)

    def _results(self, conn: Connection, run: EndedRun, now: float) -> dict[str, float]:
        """Return the results of a run; none if it did not succeed.

        The duration of a failed run says nothing about its parameters."""
        if not run.succeeded:
            return {}
        used = usage_of_job(conn, run.job_id, now)
        found: dict[str, float] = {name: run.metrics[name] for name in sorted(run.metrics)[:_MAX_METRICS]}
        found |= {
            "response_time": run.finished_at - run.submitted_at,
            "run_time": run.run_seconds,
            "gpu_hours": used.gpu_hours,
        }
        if run.started_at is not None:
            found["wait_time"] = run.started_at - run.submitted_at
        if run.epochs:
            found["epoch_time"] = run.run_seconds / run.epochs
            if run.epoch_samples and run.run_seconds > 0:
                found["throughput"] = run.epoch_samples * run.epochs / run.run_seconds
        if used.energy_kwh:
            found["energy"] = used.energy_kwh * _JOULES_A_KWH
        if (utilization := self._mean_utilization(conn, run, now)) is not None:
            found["gpu_utilization"] = utilization
        found |= machine_use(conn, run, self._looks, now)
        if (cost := cost_of(used.hours_of, self._prices)) is not None:
            found["cost"] = cost
        return {name: round(value, 6) for name, value in found.items()}

    def _mean_utilization(self, conn: Connection, run: EndedRun, now: float) -> float | None:
        stored = partial(store.mean_utilization, conn)
        means = [
            mean
            for task in run.tasks
            for uuid in task.gpu_uuids
            if (mean := mean_while(task, uuid, self._utilization, stored, now)) is not None
        ]
        return statistics.fmean(means) if means else None
