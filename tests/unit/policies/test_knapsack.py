"""Knapsack solver against a proven optimum."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from schedulearn.scheduler.policies.goodput.knapsack import Assignment, assign
from schedulearn.scheduler.policies.goodput.tuning import Tuning

SIZES = np.array([0, 1, 2, 4, 8, 12, 16])


def instance(seed: int, jobs: int, pools: int, capacity: int) -> tuple[np.ndarray, ...]:
    """Return jobs of random weight and scaling. Some choices are not allowed. Waiting costs 100 times as much."""
    dice = np.random.default_rng(seed)
    sizes = np.concatenate([SIZES] + [SIZES[1:]] * (pools - 1))
    pool = np.concatenate([np.zeros(len(SIZES))] + [np.full(len(SIZES) - 1, p) for p in range(1, pools)])
    gpus = np.tile(sizes, (jobs, 1))
    speed = np.maximum(gpus, 1) ** dice.uniform(0.3, 1, (jobs, 1)) * (1 + pool) * dice.uniform(0.9, 1.1, gpus.shape)
    weight = dice.lognormal(0, 1, (jobs, 1))
    cost = np.where(gpus == 0, 100 * weight, weight / speed)
    cost[(dice.random(gpus.shape) < 0.1) & (gpus > 0)] = np.inf
    return cost, gpus, np.tile(pool, (jobs, 1)).astype(int), np.full(pools, capacity)


def proven(cost: np.ndarray, gpus: np.ndarray, pool: np.ndarray, capacity: np.ndarray) -> float:
    """Return a lower bound that HiGHS proves."""
    jobs, columns = np.nonzero(np.isfinite(cost))
    n = len(jobs)
    one = sparse.csr_matrix((np.ones(n), (jobs, np.arange(n))), shape=(len(cost), n))
    room = sparse.csr_matrix(
        (gpus[jobs, columns].astype(float), (pool[jobs, columns], np.arange(n))), shape=(len(capacity), n)
    )
    found = milp(
        cost[jobs, columns],
        integrality=np.ones(n),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(one, 1, 1), LinearConstraint(room, ub=capacity.astype(float))],
        options={"mip_rel_gap": 2e-3},
    )
    return float(found.mip_dual_bound)


def gap(found: Assignment) -> float:
    """Return the maximum excess of the cost over the optimum, as a share of the bound."""
    return (found.cost - found.bound) / max(abs(found.bound), 1e-12)


def check_lawful(found: Assignment, cost: np.ndarray, gpus: np.ndarray, pool: np.ndarray, capacity: np.ndarray) -> None:
    rows = np.arange(len(cost))
    assert np.isfinite(cost[rows, found.choice]).all()
    used = np.bincount(pool[rows, found.choice], weights=gpus[rows, found.choice], minlength=len(capacity))
    assert (used <= capacity).all()
    assert found.cost == pytest.approx(float(cost[rows, found.choice].sum()))


@pytest.mark.parametrize("pools", [1, 2, 3])
def test_the_cost_is_within_one_per_cent_of_the_proven_optimum(pools: int) -> None:
    dice = np.random.default_rng(pools)
    for seed in range(67):
        given = instance(seed, int(dice.integers(2, 40)), pools, int(dice.integers(3, 40)))
        found = assign(*given, Tuning())
        check_lawful(found, *given)
        if seed < 12 or gap(found) > 0.01:  # the bound itself is checked too
            assert found.bound <= found.cost <= 1.01 * proven(*given), seed


@pytest.mark.parametrize(("jobs", "pools", "capacity"), [(400, 1, 700), (400, 3, 200), (300, 3, 40), (60, 2, 100)])
def test_large_clusters_are_solved_by_prices_with_a_gap_that_is_known(jobs: int, pools: int, capacity: int) -> None:
    given = instance(1, jobs, pools, capacity)
    found = assign(*given, Tuning())
    check_lawful(found, *given)
    assert 0 <= gap(found) <= 0.01


def test_everybody_gets_the_cheapest_where_there_is_room() -> None:
    cost, gpus, pool, _ = instance(0, 5, 1, 0)
    found = assign(cost, gpus, pool, np.array([1000]), Tuning())
    assert found.choice.tolist() == cost.argmin(axis=1).tolist()
    assert gap(found) == 0


def test_a_job_that_can_not_wait_is_refused() -> None:
    cost, gpus, pool, capacity = instance(0, 3, 1, 8)
    cost[1, 0] = np.inf
    with pytest.raises(ValueError, match="takes no GPUs"):
        assign(cost, gpus, pool, capacity, Tuning())
