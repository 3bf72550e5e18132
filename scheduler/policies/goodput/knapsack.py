"""Knapsack solver: one choice per job at minimum total cost.

The choices must fit the GPUs of each pool; a pool is the GPUs of one type. This is a multiple-choice knapsack with one
constraint per pool. Its Lagrangian dual gives prices of GPUs and a lower bound. For clusters of moderate size, a
dynamic programme gives the optimum itself. Otherwise the choices at those prices are repaired and improved. If that
leaves a gap of more than 0.5 % on a small instance, HiGHS closes it. The result includes the gap to the proven bound.

Arrays: J jobs, C choices per job. `cost` (J, C) is infinite where not allowed. `gpus` (J, C) is what a choice takes,
and `pool` (J, C) is where it takes it (any pool if it takes nothing). Every job needs one choice that takes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from schedulearn.scheduler.policies.goodput.tuning import Tuning

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_MIN = -700.0  # exponents below are slow to compute, and their powers are nearly 0
_BIG = 1e100


@dataclass(frozen=True)
class Assignment:
    choice: Ints
    """(J,) the column chosen for each job."""
    cost: float
    """The sum of the chosen costs."""
    bound: float
    """No assignment costs less."""


class Taken:
    """GPUs that choices take from pools.

    Most columns are in one pool for all jobs, so that pool is looked up once per column.
    """

    def __init__(self, gpus: Ints, pool: Ints, pools: int) -> None:
        self.gpus: Floats = gpus.astype(float)
        """(J, C)"""
        self._pool, self._rows = pool, np.arange(len(pool))
        mixed = (pool != pool[0]).any(axis=0)
        self._mixed = np.flatnonzero(mixed)
        self._single = np.eye(pools)[pool[0]] * ~mixed[:, None]  # (C, P)

    def at(self, prices: Floats) -> Floats:
        """(J, C): what choices cost at `prices` (P,)."""
        found = prices[self._pool[0]] * self.gpus
        for column in self._mixed:
            found[:, column] = prices[self._pool[:, column]] * self.gpus[:, column]
        return np.asarray(found)

    def by_pool(self, amount: Floats) -> Floats:
        """(J, P): the sums of `amount` (J, C)."""
        found = amount @ self._single
        for column in self._mixed:
            found[self._rows, self._pool[:, column]] += amount[:, column]
        return np.asarray(found)


def assign(cost: Floats, gpus: Ints, pool: Ints, capacity: Ints, tuning: Tuning) -> Assignment:
    """Return the cheapest choice per job within `capacity` (P,) GPUs of each pool.

    Raises ValueError if a job has no choice of finite cost that takes nothing.
    """
    rows = np.arange(len(cost))
    free = np.where(gpus == 0, cost, np.inf).argmin(axis=1)
    if not np.isfinite(np.where(gpus == 0, cost, np.inf)[rows, free]).all():
        raise ValueError("every job needs a choice of finite cost that takes no GPUs")
    cheapest = cost.argmin(axis=1)
    if np.all(_used(cheapest, gpus, pool, capacity) <= capacity):
        total = float(cost[rows, cheapest].sum())
        return Assignment(cheapest, total, total)
    if cost.size * float(np.prod(capacity + 1.0)) <= tuning.exact_cells:
        return _exact(cost, gpus, pool, capacity)
    prices, bound = _dual(cost, gpus, pool, capacity, tuning)
    choice = _repaired(cost, gpus, pool, capacity, prices, tuning.fills)
    total = float(cost[rows, choice].sum())
    if total - bound > tuning.milp_gap * abs(bound) and cost.size <= tuning.milp_choices:
        better = _milp(cost, gpus, pool, capacity, tuning)
        if better is not None and float(cost[rows, better[0]].sum()) <= total:
            choice, total, bound = better[0], float(cost[rows, better[0]].sum()), max(bound, better[1])
    return Assignment(choice, total, min(bound, total))


def _used(choice: Ints, gpus: Ints, pool: Ints, capacity: Ints) -> Ints:
    rows = np.arange(len(choice))
    return np.asarray(
        np.bincount(pool[rows, choice], weights=gpus[rows, choice], minlength=len(capacity)), dtype=np.int64
    )


def _exact(cost: Floats, gpus: Ints, pool: Ints, capacity: Ints) -> Assignment:
    """Solve by a dynamic programme over jobs.

    A state is a number of GPUs of each pool. Its value is the minimum cost with at most these GPUs.
    """
    room = capacity + 1
    stride = np.concatenate([[1], np.cumprod(room)[:-1]])
    state = np.arange(int(room.prod()))
    left = np.stack([state // stride[p] % room[p] for p in range(len(capacity))])  # (P, states)
    kinds, kind = np.unique(gpus * len(capacity) + pool, return_inverse=True)
    takes, where = np.divmod(kinds[:, None], len(capacity))
    # State to which each kind of choice leads from each state: an extra one of infinite cost, if it does not fit.
    before = np.where(left[where[:, 0]] >= takes, state - takes * stride[where], len(state))  # (kinds, states)
    best = np.zeros(len(state) + 1)
    best[-1] = np.inf
    rows, columns = np.isfinite(cost).nonzero()
    sources, costs = before[kind.reshape(cost.shape)[rows, columns]], cost[rows, columns][:, None]
    ends = np.searchsorted(rows, np.arange(len(cost) + 1)).tolist()
    picks = np.empty((len(cost), len(state)), dtype=np.int64)
    for job, (begin, end) in enumerate(pairwise(ends)):
        value = best[sources[begin:end]]
        value += costs[begin:end]
        picks[job] = value.argmin(axis=0)
        best[:-1] = value.min(axis=0)
    picks = columns[picks + np.array(ends[:-1])[:, None]]
    best = best[:-1]
    choice = np.empty(len(cost), dtype=np.int64)
    at = int(state[-1])
    for job in range(len(cost) - 1, -1, -1):
        choice[job] = picks[job, at]
        at -= int(gpus[job, choice[job]] * stride[pool[job, choice[job]]])
    return Assignment(choice, float(best[-1]), float(best[-1]))


def _dual(cost: Floats, gpus: Ints, pool: Ints, capacity: Ints, tuning: Tuning) -> tuple[Floats, float]:
    """Return the price of a GPU of each pool, and the lower bound that the prices prove.

    The bound is the sum of min (cost + price x GPUs) - price x capacity. Bisection finds one common price. For several
    pools it is only the start.
    """
    finite = cost[np.isfinite(cost)]
    most = float(finite.max() - finite.min()) + 1.0
    taken, rows = Taken(gpus, pool, len(capacity)), np.arange(len(cost))

    def at(prices: Floats) -> tuple[float, Ints]:
        value = cost + taken.at(prices)
        pick = value.argmin(axis=1)
        return float(value[rows, pick].sum() - (prices * capacity).sum()), _used(pick, gpus, pool, capacity)

    low, high = 0.0, most
    for _ in range(tuning.dual_halvings):
        middle = (low + high) / 2 if low else high / 8
        if at(np.full(len(capacity), middle))[1].sum() > capacity.sum():
            low = middle
        else:
            high = middle
        if high - low <= 1e-9 * high:
            break
    prices = np.full(len(capacity), high)
    bound = at(prices)[0]
    if len(capacity) == 1:
        return prices, bound
    return _refined(cost, taken, capacity, prices, bound, at, tuning)


def _refined(
    cost: Floats,
    taken: Taken,
    capacity: Ints,
    prices: Floats,
    bound: float,
    at: Callable[[Floats], tuple[float, Ints]],
    tuning: Tuning,
) -> tuple[Floats, float]:
    """Improve prices for several pools, from one common price, by Newton's method on the dual.

    Each job's minimum is softened by a temperature that falls towards 0, since the dual itself has corners everywhere.
    """
    finite = np.where(np.isfinite(cost), cost, _BIG)
    squared = taken.gpus**2
    # If jobs must wait, the common price is that of waiting, and differences between pools are far smaller.
    scale = min(float(prices.max()), float(np.median(np.where(taken.gpus > 0, finite, _BIG).min(axis=1))))
    best, now = prices, prices.astype(float)
    hottest = max(float(prices.max()), scale, 1e-9)
    for heat in np.geomspace(hottest, tuning.dual_cold * max(scale, 1e-9), tuning.dual_levels):
        for _ in range(tuning.dual_steps):
            odds = taken.at(now)
            odds += finite
            odds -= odds.min(axis=1, keepdims=True)
            odds /= -heat
            np.exp(np.maximum(odds, _MIN, out=odds), out=odds)
            odds /= odds.sum(axis=1, keepdims=True)
            mean = taken.by_pool(taken.gpus * odds)
            excess = mean.sum(axis=0) - capacity
            spread = taken.by_pool(squared * odds).sum(axis=0)
            curve = np.diag(spread + 1e-6 * spread.max() + 1e-9) - mean.T @ mean
            step = heat * np.linalg.solve(curve, excess)
            most = 4 * heat
            now = np.maximum(now + step * min(1.0, most / max(float(np.abs(step).max()), 1e-300)), 0.0)
        value_now, _ = at(now)
        if value_now > bound:
            best, bound = now.copy(), value_now
    return best, bound


def _repaired(cost: Floats, gpus: Ints, pool: Ints, capacity: Ints, prices: Floats, fills: int) -> Ints:
    """Return choices near those at `prices` that fit.

    Jobs leave a pool whose demand is too high. Then left-over GPUs are given where they save most.
    """
    repair = _Repair(cost, gpus, pool, capacity, cost + prices[pool] * gpus)
    for which in np.argsort(capacity - repair.used):
        if repair.overfull(which):
            repair.relieve(which)
    for _ in range(fills):
        if not repair.fill():
            break
    return repair.choice


class _Repair:
    """Choices being repaired, with the GPUs of each pool that they use."""

    def __init__(self, cost: Floats, gpus: Ints, pool: Ints, capacity: Ints, reduced: Floats) -> None:
        """`reduced`: the costs, including the price of the GPUs."""
        self.cost, self.gpus, self.pool, self.capacity, self.reduced = cost, gpus, pool, capacity, reduced
        self.rows = np.arange(len(cost))
        self.idle = np.where(gpus == 0, cost, np.inf).argmin(axis=1)
        self.choice: Ints = np.asarray(reduced.argmin(axis=1), dtype=np.int64)
        self.used = _used(self.choice, gpus, pool, capacity)

    def overfull(self, which: int) -> bool:
        return bool(self.used[which] > self.capacity[which])

    def relieve(self, which: int) -> None:
        """Make jobs leave the pool, or shrink in it, until it holds them.

        Jobs that lose the least per GPU given back come first. If that is not enough, jobs stop.
        """
        gpus, pool, choice, used, capacity = self.gpus, self.pool, self.choice, self.used, self.capacity
        here = np.flatnonzero((pool[self.rows, choice] == which) & (gpus[self.rows, choice] > 0))
        held = gpus[here, choice[here]]
        back = held[:, None] - np.where(pool[here] == which, gpus[here], 0)  # GPUs given back by each other choice
        room = (pool[here] == which) | (gpus[here] <= np.maximum(capacity - used, 0)[pool[here]])
        now = self.reduced[here, choice[here]][:, None]
        loss = np.where((back > 0) & room, self.reduced[here] - now, np.inf)
        per_gpu = loss / np.maximum(back, 1)
        column = per_gpu.argmin(axis=1)
        for index in np.argsort(per_gpu[np.arange(len(here)), column], kind="stable"):
            if not self.overfull(which):
                return
            job, new = here[index], column[index]
            if used[pool[job, new]] + gpus[job, new] > capacity[pool[job, new]] and pool[job, new] != which:
                new = self.idle[job]
            used[which] -= held[index]
            used[pool[job, new]] += gpus[job, new]
            choice[job] = new
        for job in here[np.argsort(self.cost[here, self.idle[here]] / np.maximum(held, 1), kind="stable")]:
            if not self.overfull(which):
                return
            if pool[job, choice[job]] == which:
                used[which] -= gpus[job, choice[job]]
                choice[job] = self.idle[job]

    def fill(self) -> bool:
        """Give left-over GPUs where they save most, once per job. Return whether anything changed."""
        gpus, pool, choice, used, capacity = self.gpus, self.pool, self.choice, self.used, self.capacity
        taken, now = gpus[self.rows, choice], self.cost[self.rows, choice]
        extra = gpus - np.where(pool == pool[self.rows, choice][:, None], taken[:, None], 0)
        fits = np.isfinite(self.cost) & (extra <= (capacity - used)[pool])
        gain = np.where(fits, now[:, None] - self.cost, 0.0)
        worth = gain / np.maximum(extra, 1)
        column = worth.argmax(axis=1)
        changed = False
        for job in np.argsort(-worth[self.rows, column], kind="stable"):
            new = column[job]
            if gain[job, new] <= 1e-12:
                break
            to, back = pool[job, new], pool[job, choice[job]]
            used[back] -= gpus[job, choice[job]]
            if used[to] + gpus[job, new] <= capacity[to]:
                choice[job], changed = new, True
            used[pool[job, choice[job]]] += gpus[job, choice[job]]
        return changed


def _milp(cost: Floats, gpus: Ints, pool: Ints, capacity: Ints, tuning: Tuning) -> tuple[Ints, float] | None:
    """Solve by HiGHS: return (choice, proven bound), or None if it found nothing within its limit of nodes."""
    # Imported here, since they take 50 MB, and most decisions don't need them.
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    jobs, columns = np.nonzero(np.isfinite(cost))
    n = len(jobs)
    one_each = sparse.csr_matrix((np.ones(n), (jobs, np.arange(n))), shape=(len(cost), n))
    room = sparse.csr_matrix(
        (gpus[jobs, columns].astype(float), (pool[jobs, columns], np.arange(n))), shape=(len(capacity), n)
    )
    result = milp(
        cost[jobs, columns],
        integrality=np.ones(n),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(one_each, 1, 1), LinearConstraint(room, ub=capacity.astype(float))],
        options={"mip_rel_gap": tuning.milp_gap / 2, "node_limit": tuning.milp_nodes},
    )
    if result.x is None:
        return None
    choice = np.zeros(len(cost), dtype=np.int64)
    taken = result.x > 0.5
    choice[jobs[taken]] = columns[taken]
    return choice, float(result.mip_dual_bound)
