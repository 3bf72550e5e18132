"""The plain price rule that the project began with, to compare with: what later ideas are worth, in this simulator.

Each job takes k = argmin (w + price k) / S(k), at the smallest price that fits; where one GPU each does not fit, the
lowest weights wait; what is left over goes where w d(log S) a GPU is largest.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.goodput.knapsack import Floats, Ints
from schedulearn.scheduler.policies.goodput.options import Options, build_options
from schedulearn.scheduler.policies.goodput.packing import pack

YOUNG_GPU_S, OLD_GPU_S = 2400.0, 36000.0
LASTS_S, PATIENCE = 60.0, 0.2  # an allocation lasts so long, and so much of the time for which the job has run
RESTART_S = 30.0


class PriceRule(Policy):
    """For elastic jobs and one type of GPU."""

    name: ClassVar[str] = "price-rule"
    resizes: ClassVar[bool] = True

    def allocate(self, snapshot: Snapshot) -> Plan:
        jobs = tuple(sorted(snapshot.jobs, key=lambda job: job.order))
        if not jobs:
            return Plan({})
        options = build_options(jobs, snapshot.hosts)
        choice = _choose(options, _weights(options), discount_restarts(options))
        wants = {
            job.id: options.want(row, int(column))
            for row, (job, column) in enumerate(zip(jobs, choice, strict=True))
            if column != options.wait
        }
        return Plan(pack(wants, jobs, snapshot.hosts))


def _weights(options: Options) -> Floats:
    """(J,): 1 on average. By the rank of the length where lengths are known, else by the service so far."""
    known = any(job.remaining is not None for job in options.jobs)
    attained = np.array([job.attained_gpu_seconds for job in options.jobs])
    if not known:
        weights = 1 / (np.minimum(attained, OLD_GPU_S) + YOUNG_GPU_S)
        return np.asarray(weights / weights.mean())
    guess = np.clip(attained, YOUNG_GPU_S, OLD_GPU_S)
    left = np.array([g if j.remaining is None else j.remaining for g, j in zip(guess, options.jobs, strict=True)])
    order, count = np.argsort(-left, kind="stable"), len(left)
    rank = np.arange(1, count + 1)
    shares = np.empty(count)
    shares[order] = (rank / count) ** 3 - ((rank - 1) / count) ** 3
    _, group = np.unique(left, return_inverse=True)
    weights = (np.bincount(group, weights=shares) / np.bincount(group))[group]
    return np.asarray(weights / weights.mean())


def discount_restarts(options: Options) -> Floats:
    """(J, C): S; less where the job would restart."""
    value = options.speedup.copy()
    value[:, options.wait] = 0.0
    for row, job in enumerate(options.jobs):
        if job.allocation:
            lasts = LASTS_S + PATIENCE * job.run_seconds
            value[row, : options.stay] *= lasts / (lasts + (job.resize_seconds or RESTART_S))
    return value


def _choose(options: Options, weight: Floats, value: Floats) -> Ints:
    """(J,): the column of each job."""
    room, rows = int(options.capacity.sum()), np.arange(len(value))
    allowed = value > 0
    inverse = np.where(allowed, 1 / np.where(allowed, value, 1.0), np.inf)
    weighted = weight[:, None] * inverse
    sized = np.where(allowed, options.size * np.where(allowed, inverse, 0.0), 0.0)

    def at(price: float) -> Ints:
        return np.asarray((weighted + price * sized).argmin(axis=1))

    def fits(price: float) -> bool:
        return int(options.gpus[rows, at(price)].sum()) <= room

    low, high = 0.0, 1.0
    while not fits(high) and high < 1e6:
        low, high = high, high * 4
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    choice = at(high)
    for row in np.argsort(weight, kind="stable"):  # the least first
        if int(options.gpus[rows, choice].sum()) <= room:
            break
        choice[row] = options.wait
    return _give_away(options, weight, value, choice, room)


def _give_away(options: Options, weight: Floats, value: Floats, choice: Ints, room: int) -> Ints:
    rows = np.arange(len(choice))
    running = value[rows, choice] > 0
    while True:
        free = room - int(options.gpus[rows, choice].sum())
        more = options.gpus - options.gpus[rows, choice][:, None]
        now = np.where(running, value[rows, choice], 1.0)[:, None]
        gain = np.where(running[:, None] & (more > 0) & (more <= free) & (value > now), value / now, 1.0)
        each = weight[:, None] * np.log(gain) / np.maximum(more, 1)
        row, column = np.unravel_index(int(each.argmax()), each.shape)
        if each[row, column] <= 0:
            return choice
        choice[row] = column
