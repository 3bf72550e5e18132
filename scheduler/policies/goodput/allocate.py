"""Decision of the goodput policy: costs of choices, and the best combination."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import accumulate
from math import ceil
from typing import NamedTuple

import numpy as np

from schedulearn.scheduler.core.model import Allocation, Explanation, HostView, JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.policies.goodput.admission import held_back
from schedulearn.scheduler.policies.goodput.deadlines import charge, lateness
from schedulearn.scheduler.policies.goodput.host_kinds import by_kind
from schedulearn.scheduler.policies.goodput.knapsack import Floats, Ints, assign
from schedulearn.scheduler.policies.goodput.objective import GoodputObjective
from schedulearn.scheduler.policies.goodput.options import Options, build_options
from schedulearn.scheduler.policies.goodput.packing import Want, pack
from schedulearn.scheduler.policies.goodput.precedence import claimants
from schedulearn.scheduler.policies.goodput.prices import (
    bounded_floor,
    hesrpt_weights,
    market_price,
    pool_prices,
    remaining_work,
    worth_of_work,
)
from schedulearn.scheduler.policies.goodput.restarts import discount_restarts, restarts_of, weighted_times
from schedulearn.scheduler.policies.goodput.spare_gpus import Takers, give_spare_gpus

_CLAIMS = 4


def decide(objective: GoodputObjective, snapshot: Snapshot) -> Plan:
    """Return the plan for `objective`, of at least one job and one host."""
    snapshot = by_kind(snapshot)
    jobs = tuple(sorted(snapshot.jobs, key=lambda job: job.order))
    held = held_back(objective, snapshot)
    tried = _claimed(objective, snapshot, jobs, held.reasons)
    if not held.reasons:
        return _plan(objective, snapshot, jobs, tried)
    admitted = {job.id for job in jobs if not job.allocation} - held.reasons.keys()
    passed_over = admitted - _got(tried)
    if passed_over and (others := held_back(objective, snapshot, passed_over)) != held:
        held = others
        tried = _claimed(objective, snapshot, jobs, held.reasons, tried)
    if len({host.gpu_type for host in snapshot.hosts}) > 1:
        # Jobs may have got another type than was assumed, and leave one free.
        started = tuple(replace(job, allocation=tried.allocations.get(job.id, {})) for job in snapshot.jobs)
        after = held_back(objective, replace(snapshot, jobs=started), admitted - _got(tried)).reasons
        if held.reasons.keys() - after.keys():
            reasons = {each: why for each, why in held.reasons.items() if each in after or each in held.stops}
            held = replace(held, reasons=reasons)
            tried = _claimed(objective, snapshot, jobs, held.reasons, tried)
    back, stops = dict(held.reasons), dict(held.stops)
    while in_vain := {job for job, other in stops.items() if not tried.allocations.get(other)}:
        back = {job: why for job, why in back.items() if job not in in_vain}
        stops = {job: other for job, other in stops.items() if job not in in_vain}
        tried = _claimed(objective, snapshot, jobs, back, tried)
    return _plan(objective, snapshot, jobs, tried)


class _Tried(NamedTuple):
    """Allocations without the jobs that are held back, and what they rest on."""

    back: Mapping[str, Explanation]
    """Jobs that are held back -> why."""
    first: frozenset[str]
    """Jobs that start in any case: they claim GPUs."""
    choosing: Choosing
    choice: Ints
    allocations: dict[str, Allocation]
    """GPUs of the jobs that get some."""
    speedup: dict[str, float]


def _claimed(
    objective: GoodputObjective,
    snapshot: Snapshot,
    jobs: tuple[JobView, ...],
    back: Mapping[str, Explanation],
    before: _Tried | None = None,
) -> _Tried:
    """Return allocations without the jobs that are held `back`, after the claims of others.

    The jobs that came first `before` still do."""
    tried = _try(objective, snapshot, jobs, back, frozenset() if before is None else before.first, before)
    for _ in range(_CLAIMS):
        # A job that claims GPUs may take those of another that must not wait either.
        if not (more := claimants(objective, snapshot, tried.allocations, back) - tried.first):
            break
        tried = _try(objective, snapshot, jobs, back, tried.first | more, tried)
    return tried


def _got(tried: _Tried) -> set[str]:
    return {job_id for job_id, allocation in tried.allocations.items() if allocation}


def _try(
    objective: GoodputObjective,
    snapshot: Snapshot,
    everybody: tuple[JobView, ...],
    back: Mapping[str, Explanation],
    first: frozenset[str],
    before: _Tried | None,
) -> _Tried:
    """Allocate GPUs. The choices of `before` are used again if the same jobs are held back."""
    jobs = tuple(job for job in everybody if job.id not in back)
    keeping = frozenset(job.id for job in jobs if objective.keeps(job))
    if before is not None and before.back.keys() == back.keys():
        choosing = before.choosing.claimed_by(first)
    else:
        choosing = _choosing(objective, snapshot, jobs, keeping, first)
    options = choosing.options
    choice = choosing.within(options.capacity)
    wants = {
        job.id: options.want(row, int(column))
        for row, (job, column) in enumerate(zip(jobs, choice, strict=True))
        if column != options.wait
    }
    allocations, speedup = _placed(choosing, snapshot, wants, choice, keeping, first)
    return _Tried(back, first, choosing, choice, allocations, speedup)


def _plan(objective: GoodputObjective, snapshot: Snapshot, everybody: tuple[JobView, ...], tried: _Tried) -> Plan:
    """Return the plan with these allocations, its reasons, and the number of hosts that it wants."""
    back, _, choosing, choice, allocations, speedup = tried
    options = choosing.options
    desired = None
    if snapshot.scales:
        if back:  # more hosts are worth what all jobs gain by them
            keeping = frozenset(job.id for job in everybody if job.id not in back and objective.keeps(job))
            choosing = _choosing(objective, snapshot, everybody, keeping, tried.first)
            choice = choosing.within(choosing.options.capacity)
        desired = _desired_hosts(choosing, snapshot, allocations, choice)
        if back:  # GPUs that wait for a reserved job look unused
            desired = max(desired, sum(1 for host in snapshot.hosts if host.open and host.gpus))
    why = ((job, _why(job, allocations, speedup[job.id], options)) for job in options.jobs)
    reasons = {job.id: each for job, each in why if each is not None}
    return Plan(
        allocations,
        desired_hosts=desired,
        utility=_utility(snapshot.hosts, allocations, speedup),
        reasons={**reasons, **back},
        review_at=_review_at(objective, snapshot, allocations),
    )


def _choosing(
    objective: GoodputObjective, snapshot: Snapshot, jobs: tuple[JobView, ...], keeping: Set[str], first: Set[str]
) -> Choosing:
    return Choosing(objective, build_options(jobs, snapshot.hosts, objective, keeping), snapshot.now, first)


def _placed(
    choosing: Choosing, snapshot: Snapshot, wants: Mapping[str, Want], choice: Ints, keeping: Set[str], first: Set[str]
) -> tuple[dict[str, Allocation], dict[str, float]]:
    """Return (the allocation of each job that gets one, the speedup of each job).

    Sizes are chosen before hosts, so jobs may have to leave their hosts for each other. If some do, a second plan
    leaves them as they are, and the better plan is used. Often another job can have the GPUs at once, and no job has to
    move.
    """
    objective, options = choosing.objective, choosing.options
    jobs, stays = options.jobs, options.speedup[:, options.stay] > 0
    ids, rows = [job.id for job in jobs], np.arange(len(jobs))
    able = [row for row, job in enumerate(jobs) if objective.takes_spare_gpus(job) and job.id not in keeping]
    takers = Takers(jobs, choosing.weights, options.types, options.one_host, choosing.restarts)
    growing = {job.id for job in jobs if job.in_place and job.elastic and objective.takes_spare_gpus(job)}

    def place(wants: Mapping[str, Want], *, clears: bool) -> tuple[dict[str, Allocation], dict[str, float]]:
        allocations = pack(wants, jobs, snapshot.hosts, keeping, clears=clears, growing=growing)
        speedup = dict(zip(ids, options.speedup[rows, choice].tolist(), strict=True))
        speedup |= give_spare_gpus(allocations, takers, able, snapshot.hosts)
        return allocations, speedup

    found = place(wants, clears=True)
    leaves = {
        job.id: options.want(row, options.stay)
        for row, job in enumerate(jobs)
        if job.allocation and stays[row] and found[0].get(job.id, {}).keys() != job.allocation.keys()
        # For the others, the choice of sizes has already counted the restart.
        if job.in_place or (job.id in wants and wants[job.id].stays)
    }
    if not leaves:
        return found
    other = place({**wants, **leaves}, clears=False)
    if any(job_id in found[0] and job_id not in other[0] for job_id in first):
        return found
    differ = [row for row in range(len(jobs)) if found[0].get(ids[row]) != other[0].get(ids[row])]
    if not differ:
        return found
    plans = found[0], other[0]
    times = weighted_times(options, differ, plans, choosing.weights, choosing.restarts, snapshot.hosts)
    return found if times[0] < times[1] else other


def _utility(hosts: Sequence[HostView], allocations: Mapping[str, Allocation], speedup: Mapping[str, float]) -> float:
    """Return the sum of the jobs' speedups over the number of GPUs that may be used.

    These are the GPUs of open hosts, and those that jobs still have on other hosts, such as one being drained.
    """
    usable = {host.id: host.gpus for host in hosts if host.open}
    elsewhere = sum(n for held in allocations.values() for host, n in held.items() if host not in usable)
    return float(sum(speedup[job_id] for job_id in allocations)) / max(1, sum(usable.values()) + elsewhere)


class Choosing:
    """Choices of all jobs, for any number of GPUs.

    `base` is the cost of a choice itself, `gpu_seconds` the factor of the price of a GPU. Both are per unit of work, or
    per second if prices are foreseen.
    """

    def __init__(
        self, objective: GoodputObjective, options: Options, now: float, first: Set[str] = frozenset()
    ) -> None:
        self.objective, self.options, self.now = objective, options, now
        self._later = np.array(objective.later_prices(options.jobs))
        self.weights = _weights(objective, options, now, self._later)
        self.restarts = restarts_of(objective, options.jobs)
        self._value = value = discount_restarts(objective, options, self.restarts)
        self._allowed = allowed = value > 0
        self._base = np.where(allowed, self.weights[:, None] / np.where(allowed, value, 1.0), np.inf)
        self._size = options.charged if objective.foresees else options.size.astype(float)
        self._gpu_seconds = np.where(allowed, self._size / np.where(allowed, value, 1.0), 0.0)
        self._stays = np.array([not job.elastic or objective.keeps(job) for job in options.jobs])
        self._stays &= options.speedup[:, options.stay] > 0
        self._first = np.array([job.id in first for job in options.jobs])
        self._costs: dict[tuple[int, ...], Floats] = {}
        """Number of GPUs of each type -> costs."""

    def claimed_by(self, first: Set[str]) -> Choosing:
        """Return these choices with other jobs that come first."""
        other = copy(self)
        other._first = np.array([job.id in first for job in self.options.jobs])
        return other

    def within(self, room: Ints) -> Ints:
        """Return the column of each job, (J,), with `room` GPUs of each type."""
        options, tuning, key = self.options, self.objective.tuning, tuple(room.tolist())
        if key not in self._costs:
            self._costs[key] = self._cost(room)
        cost = self._costs[key].copy()
        pinned = max(tuning.pinned, 2.0 * len(cost) * float(cost[np.isfinite(cost)].max()))
        cost[self._first, options.wait] = pinned
        cost[self._stays, options.wait] = pinned * len(cost)
        return assign(cost, options.gpus, options.pool, room, tuning).choice

    def _cost(self, room: Ints) -> Floats:
        """Return the cost of each column of each job, (J, C), with `room` GPUs of each type."""
        objective, options, weight, value = self.objective, self.options, self.weights[:, None], self._value
        tuning = objective.tuning
        base, gpu_seconds, by_worth = self._base, self._gpu_seconds, objective.foresees
        market = market_price(base, gpu_seconds, options, room, by_worth) if objective.priced else 0.0
        floor = bounded_floor(objective, options, base, gpu_seconds, market, weight) * weight
        if objective.foresees:
            worth = worth_of_work(options, weight, market, self._later, floor)
            base, gpu_seconds = np.where(self._allowed, -worth * value, np.inf), self._size
            price = np.maximum(market_price(base, gpu_seconds, options, room, by_worth) * tuning.slack, floor)
            held_up = worth + price
            if len(options.types) > 1 and price.any():
                taking = base.copy()
                taking[:, options.wait] = 0.0
                start = float(price[0, 0]) * options.speedups.worth
                by_type = pool_prices(taking, options.gpus, options.pool, room, start, tuning) * tuning.slack
                gpu_seconds = options.size * np.maximum(by_type[options.pool], floor)
                price = np.ones_like(weight)
        else:
            price = np.maximum(market * tuning.slack, floor)
            held_up = weight * (1 + price)
        cost: Floats = base + price * gpu_seconds
        cost[:, options.wait] = tuning.waiting * held_up[:, 0] / np.maximum(value[:, options.wait], 1e-6)
        charge(cost, held_up, lateness(objective, options, self.now, room), options.wait, tuning)
        return cost


def _weights(objective: GoodputObjective, options: Options, now: float, later: Floats) -> Floats:
    """Return the cost per second of delaying each job, (J,), 1 on average. `later` (J,): the prices they expect."""
    jobs, tuning = options.jobs, objective.tuning
    attained = np.array([job.attained_gpu_seconds for job in jobs])
    # A job that has run for long will run on for long: the less service a job has had, the sooner it ends. The square
    # root makes this guess weigh less than knowledge.
    weights = (np.minimum(attained, tuning.old_gpu_s) + tuning.young_gpu_s) ** -0.5
    weights /= weights.mean()
    by_length = np.array([objective.weighs_length_of(job) for job in jobs])
    left = remaining_work(jobs, tuning)
    if by_length.any() and any(job.remaining is not None for job in jobs):
        # heSRPT assumes that no other jobs arrive, and so starves long jobs.
        shortest = hesrpt_weights(left, tuning.hesrpt_speedup) * len(jobs)
        shortest = shortest * (1 - tuning.equal_of_hesrpt) + tuning.equal_of_hesrpt
        weights = np.where(by_length, shortest, weights)
    last = np.flatnonzero((left == left.max()) & by_length)
    if len(last) == 1:  # it ends last in any case
        weights[last] = np.maximum(weights[last], tuning.last_weight * later[last])
    if objective.foresees:
        weights = weights / weights.mean() * (1 - tuning.equal_share) + tuning.equal_share
    if objective.equal_weights:
        weights = np.ones(len(jobs))
    waited = np.array([job.waited(now) for job in jobs])
    urgency = np.array([job.weight * tuning.priority_factor ** ((job.priority - 50) / 50) for job in jobs])
    first = 1 - 1e-9 * np.arange(len(jobs))  # of equal jobs, the earliest one
    weights = weights / weights.mean() * urgency * (1 + waited / tuning.ageing_s) * first
    return np.asarray(weights / weights.mean())


def _review_at(objective: GoodputObjective, snapshot: Snapshot, allocations: Mapping[str, Allocation]) -> float | None:
    """Return when the first job may be resized, if a waiting job or an idle GPU needs that; else None."""
    soon = [objective.least_run(job) - (job.held_seconds or 0.0) for job in snapshot.jobs if objective.keeps(job)]
    if not soon:
        return None
    idle = sum(host.gpus for host in snapshot.hosts if host.open) > sum(sum(a.values()) for a in allocations.values())
    waiting = len(allocations) < len(snapshot.jobs)
    return snapshot.now + max(objective.tuning.look_again_s, min(soon)) if idle or waiting else None


def _desired_hosts(choosing: Choosing, snapshot: Snapshot, allocations: Mapping[str, Allocation], choice: Ints) -> int:
    objective, options = choosing.objective, choosing.options
    open_hosts = [host for host in snapshot.hosts if host.open and host.gpus]
    parked = [host for host in snapshot.hosts if host.parked_gpus]
    width = max(1.0, options.total / max(1, len(open_hosts)))
    with_parked = list(accumulate((host.parked_gpus for host in parked), initial=options.total))

    def hosts_of(gpus: int) -> int:
        """Return how many hosts have `gpus`: those that are on, by mean size, then powered-down ones in order."""
        if gpus <= options.total:
            return ceil(gpus / width)
        return len(open_hosts) + min(bisect_left(with_parked, gpus), len(parked))

    # A job that is larger than all hosts that are on wakes the hosts that it needs.
    needs = [job.needed_gpus for job in options.jobs if job.id not in allocations]
    least = max([hosts_of(need) for need in needs if options.total < need <= with_parked[-1]], default=1)
    if objective.hosts_by_need:
        used = len({host for allocation in allocations.values() for host in allocation})
        if parked and open_hosts:
            more = [sum(host.parked_gpus for host in parked if host.gpu_type == kind) for kind in options.types]
            picked = choosing.within(options.capacity + np.array(more))
            sizes = options.size[np.arange(len(picked)), picked]
            used = max(used, hosts_of(int(sizes[picked != options.wait].sum())))
        return max(least, used)

    @cache
    def utility(hosts: int) -> float:
        if hosts == len(open_hosts):
            picked = choice
        else:
            share = hosts / max(1, len(open_hosts))
            picked = choosing.within(np.floor(options.capacity * share).astype(np.int64))
        total = options.total * hosts / max(1, len(open_hosts))
        return float(options.speedup[np.arange(len(picked)), picked].sum() / max(total, 1e-9))

    return max(least, objective.scaling.desired(snapshot.hosts, utility))


def _why(job: JobView, allocations: Mapping[str, Allocation], speedup: float, options: Options) -> Explanation | None:
    """Explain why a job waits or changes; None if it stays as it is."""
    new, old = allocations.get(job.id, {}), dict(job.allocation)
    if new == old and new:
        return None
    total = options.total
    if not new and old and not job.elastic:
        return None  # its host is crowded or closing; it runs on there
    if not new:
        need = job.needed_gpus
        if need > total:
            sentence = f"It needs {gpu_count(need)}; the usable hosts have {total} in total."
            return Explanation("unsatisfiable_now", sentence)
        what = "It releases its GPUs" if old else f"It waits for {gpu_count(need)}"
        return Explanation(
            "preempted" if old else "waiting_for_gpus",
            f"{what}: {len(options.jobs)} jobs compete for {gpu_count(total)}, and others have more weight or gain "
            "more.",
        )
    if not old:
        return None
    before, after = sum(old.values()), sum(new.values())
    cost = f"at the cost of a restart of about {max(1.0, job.restart_cost):.0f} s"
    if after > before:
        faster = f"{speedup:.2f} times as fast as on one GPU"
        return Explanation("grows", f"Grows from {before} to {gpu_count(after)}, {faster}, {cost}.")
    if after < before:
        return Explanation(
            "shrinks", f"Gives {before - after} of {gpu_count(before)} to jobs that gain more from them, {cost}."
        )
    return Explanation("moves", f"Moves to {', '.join(sorted(new))} so that another job fits on whole hosts, {cost}.")
