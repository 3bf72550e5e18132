"""Prices of GPUs: market price, expected later prices, price floors by metric."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from schedulearn.scheduler.core.model import JobView
from schedulearn.scheduler.policies.goodput.knapsack import Floats, Ints, Taken
from schedulearn.scheduler.policies.goodput.objective import GoodputObjective
from schedulearn.scheduler.policies.goodput.options import Options
from schedulearn.scheduler.policies.goodput.tuning import Tuning


def worth_of_work(
    options: Options, weight: Floats, price: float, later: Floats | float, floor: Floats | float = 0.0
) -> Floats:
    """Return what a unit of work is worth to each job, (J, 1): its cost in delay and GPUs at the prices it will see.

    A unit of work is a second on one GPU. The crowd of jobs that makes today's `price` will end. A job that ends soon
    pays today's price. A long job can do more of its work when GPUs are cheap, so its work is worth less now.

    `later`, one or (J,): price of a GPU when the crowd is gone, relative to today's. `floor` (J, 1): minimum price of a
    GPU at any time.
    """
    allowed = options.speedup > 0
    inverse = np.where(allowed, 1 / np.where(allowed, options.speedup, 1.0), np.inf)
    held_up = weight * inverse
    gpu_seconds_per_work = np.where(allowed, options.charged * np.where(allowed, inverse, 0.0), 0.0)
    rows = np.arange(len(inverse))
    seconds_per_work = inverse[rows, (held_up + np.maximum(price, floor) * gpu_seconds_per_work).argmin(axis=1)]
    seconds_per_work = np.where(np.isfinite(seconds_per_work), seconds_per_work, 0.0)  # 0: it can run nowhere now
    life = remaining_work(options.jobs, options.tuning) * seconds_per_work / options.tuning.calm_s
    # The mean over its life of a price that falls from 1 to `later` by exp(-t).
    mean = later + (1 - later) * -np.expm1(-life) / np.maximum(life, 1e-9)
    worth = (held_up + np.maximum(price * mean[:, None], floor) * gpu_seconds_per_work).min(axis=1)[:, None]
    return np.where(np.isfinite(worth), worth, weight)


def remaining_work(jobs: tuple[JobView, ...], tuning: Tuning, *, compared: bool = True) -> Floats:
    """Return the remaining seconds of each job on one GPU, (J,).

    If nothing is known, they are as many as the job has had, within bounds. `compared`: jobs are weighed against each
    other, and an unknown run time among known ones counts as a long one.
    """
    among_known = compared and any(job.remaining is not None for job in jobs)
    least = tuning.unknown_gpu_s if among_known else tuning.young_gpu_s
    guess = np.clip([job.attained_gpu_seconds for job in jobs], least, tuning.longest_gpu_s)
    return np.array([s if job.remaining is None else job.remaining for job, s in zip(jobs, guess, strict=True)])


def bounded_floor(
    objective: GoodputObjective, options: Options, base: Floats, gpu_seconds: Floats, market: float, weight: Floats
) -> Floats:
    """Return the price floor of a GPU for each job, (J, 1), relative to its weight, as `slowdown` allows.

    It is the highest price, at most that of the job's metric, that keeps one bound. The bound limits the sum of the
    jobs' remaining times to `slowdown` times that sum at the market price. If the market price is 0, half of that
    increase is allowed: growing takes time too, and in an empty cluster no other job gains. One bound for all jobs is
    spent where it saves most.
    """
    own = np.array([objective.price_floor_of(job) for job in options.jobs])[:, None]
    if not own.any():
        return own
    work, rows = remaining_work(options.jobs, objective.tuning), np.arange(len(base))
    speed = options.speedup.copy()
    speed[:, options.wait] = 0.0
    running = np.where(speed > 0, base, np.inf)

    def time(price: Floats) -> float:
        picked = speed[rows, (running + price * gpu_seconds).argmin(axis=1)]
        return float((work[picked > 0] / picked[picked > 0]).sum())

    longer = (objective.slowdown - 1) / (1 if market > 0 else 2)
    most = (1 + longer) * time(np.full_like(weight, market))
    low, high = 0.0, 1.0
    if time(np.maximum(market, own * weight)) <= most:
        return own
    for _ in range(objective.tuning.floor_halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if time(np.maximum(market, middle * own * weight)) <= most else (low, middle)
    return low * own


def market_price(base: Floats, gpu_seconds: Floats, options: Options, capacity: Ints, by_worth: bool = False) -> float:
    """Return the lowest price of a GPU at which the jobs' demand fits the whole cluster; 0 if all fits anyway.

    `by_worth`: the price is that of one of the slowest GPUs; others cost, and count, by their worth relative to it.
    """
    unit = options.speedups.worth if by_worth else np.ones(len(capacity))
    total = float((capacity * unit).sum()) * (1 + 1e-9)
    taking = np.isfinite(base)
    taking[:, options.wait] = False
    rows = taking.any(axis=1)
    base, gpu_seconds, gpus = (
        np.where(taking, base, 1e100)[rows],
        gpu_seconds[rows],
        (options.gpus * unit[options.pool])[rows],
    )
    at = np.arange(len(base))

    def demands(prices: Floats) -> Floats:
        """(P,): GPUs that the jobs would take at each of `prices`."""
        picked = (base + prices[:, None, None] * gpu_seconds).argmin(axis=2)
        return np.asarray(gpus[at, picked].sum(axis=1))

    low, high = 0.0, 1.0
    if demands(np.array([low]))[0] <= total:
        return low
    while demands(np.array([high]))[0] > total and high < 1e4:
        low, high = high, high * 4
    tuning = options.tuning
    at_once = tuning.halvings_at_once if base.size <= tuning.small_table else 1
    for _ in range(tuning.halvings // at_once):
        low, high = _halved(demands, total, low, high, at_once)
    return high


def _halved(
    demands: Callable[[Floats], Floats], total: float, low: float, high: float, times: int
) -> tuple[float, float]:
    """Halve an interval of prices several times, with one evaluation of all prices that this may need.

    With few jobs, that takes hardly longer than one price.
    """
    edges = [low, high]
    for _ in range(times):
        middles = [(a + b) / 2 for a, b in pairwise(edges)]
        edges = [edge for pair in zip(edges, middles, strict=False) for edge in pair] + [high]
    much = (demands(np.array(edges[1:-1])) > total).tolist()
    first, last = 0, len(edges) - 1
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if much[middle - 1] else (first, middle)
    return edges[first], edges[last]


def pool_prices(base: Floats, gpus: Ints, pool: Ints, capacity: Ints, start: Floats, tuning: Tuning) -> Floats:
    """Return a price for each GPU type, (P,), at which the demand for that type just fits.

    The search begins at `start`. With one price for all types, however it weighs them, a demand that fits the whole
    cluster leaves GPUs of some types idle.
    """
    prices, rows = start.copy(), np.arange(len(base))
    if len(prices) == 1:
        return prices
    base = np.where(np.isfinite(base), base, 1e100)
    taken = Taken(gpus, pool, len(prices))

    def demand(kind: int) -> int:
        picked = (base + taken.at(prices)).argmin(axis=1)
        return int((gpus[rows, picked] * (pool[rows, picked] == kind)).sum())

    for _ in range(tuning.pool_rounds):
        for kind in range(len(prices)):
            low, high = 0.0, 4 * float(max(prices[kind], start[kind]))
            for _ in range(tuning.pool_steps):
                prices[kind] = (low + high) / 2
                low, high = (prices[kind], high) if demand(kind) > capacity[kind] else (low, prices[kind])
            prices[kind] = high
    return prices


def hesrpt_weights(remaining: npt.ArrayLike, p: float) -> Floats:
    """Return weights w by rank, (J,), the shortest job highest, sum 1; equal jobs share theirs.

    With speedups k^p, the minimum sum of w / k^p gives out GPUs in proportion to w^(1 / (1 + p)). The weights are
    therefore the shares of heSRPT (Berg et al., 2020, theorem 4) to the power 1 + p. There the i-th longest of J gets
    (i/J)^(1 / (1 - p)) - ((i-1)/J)^(1 / (1 - p)) of the GPUs.
    """
    left = np.asarray(remaining, dtype=float)
    count = len(left)
    rank = np.arange(count + 1) / count
    by_rank = np.diff(rank ** (1 / (1 - p))) ** (1 + p)
    order = np.argsort(-left, kind="stable")
    _, group = np.unique(left[order], return_inverse=True)
    means = np.bincount(group, weights=by_rank) / np.bincount(group)
    weights = np.empty(count)
    weights[order] = means[group] / by_rank.sum()
    return weights
