"""What a unit of each job's work is worth, by the price that a GPU will have when the job ends."""

from __future__ import annotations

from math import ceil, log

import numpy as np

from schedulearn.scheduler.core.model import Basis
from schedulearn.scheduler.policies.goodput.knapsack import Floats
from schedulearn.scheduler.policies.goodput.options import Options
from schedulearn.scheduler.policies.goodput.prices import remaining_work

ROUNDS = 2  # worths follow from prices, and prices from worths
PRICES, TIMES = 24, 16  # points of the curves
LOWEST, DEAREST = 1e-3, 4.0  # a price that is told from none, against the highest; and that, against the largest weight
SOONEST_S = 1.0
SAMPLE = 256  # of more jobs, by how long they have to go, that demand is summed up over
QUANTILES = (np.arange(5) + 0.5) / 5  # at which a job may end


def worth_of_work(
    options: Options, weight: Floats, price: float, later: Floats | float, floor: Floats | float = 0.0
) -> Floats:
    """(J, 1): what one more unit of work (a second on one GPU) would cost a job, in waiting and in GPUs. It would end
    so much later, so what a GPU costs then is what counts (Pontryagin's principle: the costate of the work that is left
    does not change while the job runs). When jobs end, GPUs get cheaper: who ends soon pays today's `price`, and the
    work of who outlasts the crowd is worth less. `later` (J,): the part of today's price that stays, since others will
    come. `floor` (J, 1): what a GPU costs at least at any time."""
    allowed = options.speedup > 0
    inverse = np.where(allowed, 1 / np.where(allowed, options.speedup, 1.0), np.inf)
    held_up = weight * inverse
    gpu_seconds_per_work = np.where(allowed, options.charged * np.where(allowed, inverse, 0.0), 0.0)

    def worth_at(prices: Floats) -> Floats:
        found = (held_up + np.maximum(prices[:, None], floor) * gpu_seconds_per_work).min(axis=1)[:, None]
        return np.where(np.isfinite(found), found, weight)

    prices = np.full(len(weight), price)
    if price == 0:
        return worth_at(prices)
    at_once = (held_up + np.maximum(price, floor) * gpu_seconds_per_work).argmin(axis=1)
    per_work = inverse[np.arange(len(inverse)), at_once]
    seconds = remaining_work(options.jobs) * np.where(np.isfinite(per_work), per_work, 0.0)  # 0: it can't run now
    ends = _Ends(options, np.maximum(seconds, SOONEST_S))
    steps = min(price, DEAREST * float(weight.max())) * np.geomspace(LOWEST, 1.0, PRICES)
    for _ in range(ROUNDS):
        prices = (1 - later) * ends.prices(worth_at(prices), np.append(steps, price)) + later * price
    return worth_at(prices)


class _Ends:
    """When jobs will end, as far as that is known: each one's time is log-logistic around what is expected, so that
    nearly half of all end within its `Basis.spread`."""

    def __init__(self, options: Options, seconds: Floats) -> None:
        """`seconds` (J,): expected until each job ends."""
        bases = (Basis.GUESS if job.remaining is None else job.basis or Basis.PROGRESS for job in options.jobs)
        steepness = np.array([1 / log(basis.spread) for basis in bases])
        self._each = ceil(len(seconds) / SAMPLE)
        self._sample = np.argsort(seconds, kind="stable")[self._each // 2 :: self._each]
        times = np.geomspace(seconds.min() / 4, seconds.max() * 4, TIMES)
        there = 1 / (1 + (times[:, None] / seconds[self._sample]) ** steepness[self._sample])
        self._there = there * self._each  # (times, sample)
        odds = QUANTILES / (1 - QUANTILES)
        self._ending = np.log(seconds[:, None]) + np.log(odds) / steepness[:, None]  # (J, quantiles)
        self._times = np.log(times)
        self._total = float((options.capacity * options.worth).sum())
        self._speedup, self._size = options.speedup[self._sample], options.charged[self._sample]
        self._speedup[:, options.wait] = self._size[:, options.wait] = 0.0

    def prices(self, worth: Floats, steps: Floats) -> Floats:
        """(J,): of a GPU when each job ends, on average, if jobs take what their `worth` (J, 1) makes best and nobody
        comes: at every time the lowest of `steps` at which those that are still there fit the cluster, else the last
        one; 0 if they fit at the first."""
        gain, rows = worth[self._sample] * self._speedup, np.arange(len(self._sample))
        picks = [(gain - step * self._size).argmax(axis=1) for step in steps[:-1]]
        demand = self._there @ np.stack([self._size[rows, pick] for pick in picks]).T  # (times, steps - 1)
        above = (demand > self._total).sum(axis=1)
        curve = np.where(above > 0, steps[above], 0.0)
        return np.asarray(np.interp(self._ending, self._times, curve).mean(axis=1))
