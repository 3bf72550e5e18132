"""A lower bound on the mean completion time of a trace, up to its discretisation, for whoever knew all before: every
arrival, length and goodput.

Lagrangian: a GPU costs price(t) a second, and each job by itself takes the schedule that is cheapest for it (its
completion time and the GPUs it pays for; it may wait, stop and change at no cost). The sum of that less what the
cluster's GPUs would earn is below the total completion time of any schedule, whatever the prices. They are raised where
demand exceeds the GPUs.

Numerics: prices are constant over 5 minutes, jobs change GPUs at 200 points of their training at most, and their
cheapest costs are tabulated a minute apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schedulearn.scheduler.sim.application import SEGMENTS, Application, packed
from schedulearn.scheduler.sim.workload import TraceJob

Floats = npt.NDArray[np.float64]
STEP_S, PRICE_S = 60.0, 300.0
FREE = 1e-9  # a price that is none
FINER = 4  # parts of a segment of the simulator


@dataclass(frozen=True)
class Market:
    """What GPUs would be worth at every moment to whoever knew everything before."""

    bound: float
    """Seconds: the mean completion time that no schedule beats."""
    clock: Floats
    """(times,): seconds of the trace."""
    costs: dict[str, Floats]
    """Application -> (parts + 1, times): what it costs a job, in time and GPUs, to go on from there to its end."""


def market(jobs: Sequence[TraceJob], hosts: int, width: int, rounds: int = 150) -> Market:
    """The prices that prove the best bound for `hosts` x `width` GPUs."""
    names = {job.application.name: job.application for job in jobs}
    gpus = np.array([k for k in (1, 2, 4, 8, 16) if k < width] + [width * n for n in range(1, hosts + 1)])
    parts = {name: _durations(application, gpus, width) for name, application in names.items()}
    busy = sum(float((parts[job.application.name] * gpus).min(axis=1).sum()) for job in jobs)
    end = max(job.submitted_at for job in jobs) + 3 * busy / (hosts * width)
    clock = np.arange(0.0, end, STEP_S)
    capacity = hosts * width
    start = np.full(int(end / PRICE_S) + 1, 1.0 / width)
    start[int(max(job.submitted_at for job in jobs) / PRICE_S) + 1 :] /= 4
    best = Market(0.0, clock, {})
    prices = np.full_like(start, FREE)  # at first: then the bound is the mean time alone, which is best for few jobs
    for number in range(-1, rounds):
        total, used = 0.0, np.zeros(len(prices))
        paid = np.interp(clock, np.arange(len(prices) + 1) * PRICE_S, np.r_[0.0, np.cumsum(prices) * PRICE_S])
        tables = {name: _cheapest(duration, gpus, clock, paid) for name, duration in parts.items()}
        for job in jobs:
            cost, periods = _schedule(
                job.submitted_at, parts[job.application.name], gpus, clock, tables[job.application.name]
            )
            total += cost
            for begin, stop, held in periods:
                _spread(used, begin, stop, held)
        bound = (total - capacity * float(prices.sum()) * PRICE_S) / len(jobs)
        if bound > best.bound:
            best = Market(bound, clock, {name: values for name, (values, _) in tables.items()})
        if number < 0:
            prices = start
            continue
        excess = used / (capacity * PRICE_S) - 1
        prices = np.clip(prices * np.exp(np.clip(excess, -1, 1) * 0.5 / (1 + number / 15)), FREE, 10.0)
    return best


def _durations(application: Application, gpus: npt.NDArray[np.int64], width: int) -> Floats:
    """(parts, sizes): seconds that each part of the training takes on so many GPUs."""
    work = application.total_steps / SEGMENTS / FINER
    parts = [application.part_at((at + 0.5) / SEGMENTS * application.total_steps) for at in range(SEGMENTS)]
    rates = np.array([application.fastest(packed(int(count), width))[parts] for count in gpus])
    rows = work / rates.T
    return np.repeat(rows, FINER, axis=0)


def _cheapest(
    duration: Floats, gpus: npt.NDArray[np.int64], clock: Floats, paid: Floats
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """(parts + 1, times): what it costs from there to the end, and (parts, times) the size to go on with, -1: wait."""
    values = np.zeros((len(duration) + 1, len(clock)))
    picks = np.empty((len(duration), len(clock)), dtype=np.int64)
    for part in range(len(duration) - 1, -1, -1):
        ends = clock[None, :] + duration[part][:, None]
        cost = duration[part][:, None] + gpus[:, None] * (np.interp(ends, clock, paid) - paid)
        cost += np.interp(ends, clock, values[part + 1])
        pick = cost.argmin(axis=0)
        now = cost[pick, np.arange(len(clock))]
        # Waiting: the least of cost(later) + (later - now), from the last moment backwards.
        later = np.minimum.accumulate((now + clock)[::-1])[::-1] - clock
        picks[part] = np.where(later < now - 1e-9, -1, pick)
        values[part] = later
    return values, picks


def _schedule(
    at: float, duration: Floats, gpus: npt.NDArray[np.int64], clock: Floats, table: tuple[Floats, npt.NDArray[np.int64]]
) -> tuple[float, list[tuple[float, float, int]]]:
    """The cheapest cost of a job that comes at `at`, and (begin, end, GPUs) of what it then holds."""
    values, picks = table
    cost = float(np.interp(at, clock, values[0]))
    periods: list[tuple[float, float, int]] = []
    now = at
    for part in range(len(duration)):
        index = min(int(now / STEP_S + 0.5), len(clock) - 1)
        if picks[part, index] < 0:
            going = np.flatnonzero(picks[part, index:] >= 0)
            index += int(going[0]) if len(going) else 0
            now = max(now, clock[index])
        size = max(0, int(picks[part, index]))
        periods.append((now, now + duration[part, size], int(gpus[size])))
        now = periods[-1][1]
    return cost, periods


def _spread(used: Floats, begin: float, end: float, gpus: int) -> None:
    first, last = int(begin / PRICE_S), min(int(end / PRICE_S), len(used) - 1)
    if first >= last:
        used[min(first, len(used) - 1)] += (end - begin) * gpus
        return
    used[first] += ((first + 1) * PRICE_S - begin) * gpus
    used[first + 1 : last] += PRICE_S * gpus
    used[last] += (end - last * PRICE_S) * gpus
