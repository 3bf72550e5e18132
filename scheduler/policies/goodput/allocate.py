"""How the goodput policy decides: what each job may choose from, what each choice costs, and the best of all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from schedulearn.metrics.model.goodput import goodput_table
from schedulearn.scheduler.core.model import Allocation, Explanation, HostView, JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.policies.goodput.knapsack import Floats, Ints, assign
from schedulearn.scheduler.policies.goodput.leftovers import give_leftovers
from schedulearn.scheduler.policies.goodput.packing import Want, pack, stays_possible
from schedulearn.scheduler.policies.goodput.prices import (
    OLD_GPU_S,
    SLACK,
    YOUNG_GPU_S,
    bounded_floor,
    hesrpt_weights,
    left,
    market_price,
    worth_of_work,
)

if TYPE_CHECKING:
    from schedulearn.metrics.model.goodput import GoodputFunction
    from schedulearn.scheduler.policies.goodput.policy import Goodput

WAITING = 1e3  # what it costs to hold a job up altogether, against running it on one GPU
PINNED = 1e9  # at least: to stop a job that must stay as it is costs more than whatever it keeps others from
ENDING_S = 0.1  # a job that should have ended still takes so long: it must go on somewhere
LOOK_AGAIN_S = 1.0  # so that time goes on between two looks, however a clock rounds
AGEING_S = 3600.0  # a job that has waited for so long counts twice
ALIKE = (
    0.5  # share of weight that knows no length and no service, where GPUs have a price: that tells jobs apart as well
)
ARRIVING = 0.2  # the same of heSRPT's, which supposes that nobody else comes, and so starves long jobs


@dataclass(frozen=True)
class Options:
    """What there is to choose from: J jobs, C choices each. The last two columns are to wait and to stay."""

    jobs: tuple[JobView, ...]
    types: tuple[str, ...]
    gpus: Ints
    """(J, C): GPUs of open hosts that a choice takes."""
    size: Ints
    """(J, C): GPUs that the job would have."""
    pool: Ints
    """(J, C): index into `types`."""
    speedup: Floats
    """(J, C): S, 0 where not allowed."""
    capacity: Ints
    """(P,): GPUs of open hosts by type, less what rigid jobs hold."""
    total: int
    """GPUs of open hosts."""

    @property
    def stay(self) -> int:
        return int(self.gpus.shape[1]) - 1

    @property
    def wait(self) -> int:
        return int(self.gpus.shape[1]) - 2

    def want(self, row: int, column: int) -> Want:
        return Want(int(self.size[row, column]), self.types[self.pool[row, column]], column == self.stay)


def decide(policy: Goodput, snapshot: Snapshot) -> Plan:
    """The plan of `policy`, which holds the metric and the parameters."""
    jobs = tuple(sorted(snapshot.jobs, key=lambda job: job.order))
    if not jobs or not snapshot.hosts:
        nobody = {job.id: Explanation("unsatisfiable_now", "No host answers.") for job in jobs if not job.allocation}
        return Plan({}, reasons=nobody, desired_hosts=policy.scaling.desired(snapshot.hosts, lambda hosts: 0.0))
    keeping = frozenset(job.id for job in jobs if policy.keeps(job))
    options = build_options(jobs, snapshot.hosts, policy.use_efficiency, policy.price_floor > 0, keeping)
    choice = choose(policy, options, snapshot.now)
    wants = {
        job.id: options.want(row, int(column))
        for row, (job, column) in enumerate(zip(jobs, choice, strict=True))
        if column != options.wait
    }
    allocations = pack(wants, jobs, snapshot.hosts, keeping)
    rows = np.arange(len(jobs))
    speedup = dict(zip((job.id for job in jobs), options.speedup[rows, choice], strict=True))
    if policy.fills:
        speedup |= give_leftovers(
            allocations,
            [job for job in jobs if job.id not in keeping],
            snapshot.hosts,
            lambda job: job.goodput if policy.use_efficiency else _throughput_only(job.goodput),
            dict(zip(speedup, _weights(policy, options, snapshot.now).tolist(), strict=True)),
            lambda some, speedups: restart_share(policy, some, speedups),
        )
    return Plan(
        allocations,
        desired_hosts=_desired_hosts(policy, snapshot, options, allocations, choice),
        utility=_utility(snapshot.hosts, allocations, speedup),
        reasons={j.id: why for j in jobs if (why := _why(j, allocations, speedup[j.id], options)) is not None},
        review_at=_review_at(policy, snapshot, allocations),
    )


def _utility(hosts: Sequence[HostView], allocations: Mapping[str, Allocation], speedup: Mapping[str, float]) -> float:
    """The jobs' speedups over the GPUs that may be used: those of open hosts, and those that jobs still have on others,
    such as a host that is drained."""
    usable = {host.id: host.gpus for host in hosts if host.open}
    elsewhere = sum(n for held in allocations.values() for host, n in held.items() if host not in usable)
    return float(sum(speedup[job_id] for job_id in allocations)) / max(1, sum(usable.values()) + elsewhere)


def choose(policy: Goodput, options: Options, now: float, capacity: Ints | None = None) -> Ints:
    """(J,): the column of each job."""
    room = options.capacity if capacity is None else capacity
    weight = _weights(policy, options, now)[:, None]
    value = _discount_restarts(policy, options)
    allowed = value > 0
    base = np.where(allowed, weight / np.where(allowed, value, 1.0), np.inf)
    each = np.where(allowed, options.size / np.where(allowed, value, 1.0), 0.0)
    market = market_price(base, each, options, room) if policy.priced else 0.0
    if policy.foresees:
        worth = worth_of_work(options, weight, market)
        base, each = np.where(allowed, -worth * value, np.inf), options.size.astype(float)
        price = np.full_like(weight, market_price(base, each, options, room) * SLACK)
        held_up = worth + price
    else:
        price = np.maximum(market * SLACK, bounded_floor(policy, options, base, each, market, weight) * weight)
        held_up = weight * (1 + price)
    cost = base + price * each
    stays = np.array([not job.elastic or policy.keeps(job) for job in options.jobs])
    stays &= options.speedup[:, options.stay] > 0
    cost[:, options.wait] = WAITING * held_up[:, 0] / np.maximum(value[:, options.wait], 1e-6)
    pinned = max(PINNED, 2.0 * len(cost) * float(cost[np.isfinite(cost)].max()))
    cost[stays, options.wait] = pinned
    return assign(cost, options.gpus, options.pool, room).choice


def _weights(policy: Goodput, options: Options, now: float) -> Floats:
    """(J,): what holding up each job costs a second, 1 on average."""
    jobs = options.jobs
    attained = np.array([job.attained_gpu_seconds for job in jobs])
    # Who has run for long will run on for long: the less service a job has had, the sooner it ends. By the square root,
    # since a guess should not weigh like knowledge.
    weights = (np.minimum(attained, OLD_GPU_S) + YOUNG_GPU_S) ** -0.5
    if policy.by_length and any(job.remaining is not None for job in jobs):
        weights = hesrpt_weights(left(jobs)) * len(jobs) * (1 - ARRIVING) + ARRIVING
    if policy.foresees:
        weights = weights / weights.mean() * (1 - ALIKE) + ALIKE
    if policy.literal:
        weights = np.ones(len(jobs))
    waited = np.array([max(0.0, now - job.submitted_at - job.run_seconds) for job in jobs])
    urgency = np.array([job.weight * 4.0 ** ((job.priority - 50) / 50) for job in jobs])
    first = 1 - 1e-9 * np.arange(len(jobs))  # of equals, whoever came first
    weights = weights / weights.mean() * urgency * (1 + waited / AGEING_S) * first
    return np.asarray(weights / weights.mean())


def _discount_restarts(policy: Goodput, options: Options) -> Floats:
    """S, less for every choice but the present one of a job that runs: the restart must pay within the time that an
    allocation lasts, or until the job ends. In the column to wait: 1, or what being stopped leaves."""
    value = options.speedup.copy()
    value[:, options.wait] = 1.0
    sizes = value[:, : options.stay]
    sizes *= restart_share(policy, options.jobs, sizes)
    keep = np.array([policy.keeps(job) for job in options.jobs]) & (value[:, options.stay] > 0)
    sizes[keep] = 0.0
    return value


def restart_share(policy: Goodput, jobs: Sequence[JobView], speedup: Floats) -> Floats:
    """What is left of each `speedup` (J, any) if a running job must restart for it."""
    restart = np.array([job.restart_cost for job in jobs])[:, None]
    lasted = np.array([policy.base_s + policy.patience * job.run_seconds / (1 + job.restarts) for job in jobs])
    to_do = np.array([np.inf if job.remaining is None else job.remaining for job in jobs])[:, None]
    lasts = np.minimum(lasted[:, None], np.maximum(to_do / np.maximum(speedup, 1.0), ENDING_S))
    runs = np.array([bool(job.allocation) for job in jobs])[:, None]
    return np.where(runs, lasts / np.maximum(lasts + restart, 1e-9), 1.0)


def _review_at(policy: Goodput, snapshot: Snapshot, allocations: Mapping[str, Allocation]) -> float | None:
    """When the first job has run long enough to be resized, if somebody waits for that: a job, or an idle GPU."""
    soon = [policy.min_run - (job.held_seconds or 0.0) for job in snapshot.jobs if policy.keeps(job)]
    if not soon:
        return None
    idle = sum(host.gpus for host in snapshot.hosts if host.open) > sum(sum(a.values()) for a in allocations.values())
    waiting = len(allocations) < len(snapshot.jobs)
    return snapshot.now + max(LOOK_AGAIN_S, min(soon)) if idle or waiting else None


def _desired_hosts(
    policy: Goodput, snapshot: Snapshot, options: Options, allocations: Mapping[str, Allocation], choice: Ints
) -> int:
    open_hosts = [host for host in snapshot.hosts if host.open and host.gpus]
    parked = [host for host in snapshot.hosts if host.parked_gpus]
    width = max(1.0, options.total / max(1, len(open_hosts)))
    # A job that is larger than all that is on wakes what it needs.
    needs = [job.min_gpus if job.elastic else job.required_gpus for job in options.jobs if job.id not in allocations]
    could = options.total + sum(host.parked_gpus for host in parked)
    least = max([ceil(need / width) for need in needs if options.total < need <= could], default=1)
    if policy.metric == "cost":
        used = len({host for allocation in allocations.values() for host in allocation})
        if parked and open_hosts:
            more = [sum(host.parked_gpus for host in parked if host.gpu_type == kind) for kind in options.types]
            picked = choose(policy, options, snapshot.now, options.capacity + np.array(more))
            sizes = options.size[np.arange(len(picked)), picked]
            used = max(used, ceil(int(sizes[picked != options.wait].sum()) / width))
        return max(least, used)

    def utility(hosts: int) -> float:
        if hosts == len(open_hosts):
            picked = choice
        else:
            share = hosts / max(1, len(open_hosts))
            picked = choose(policy, options, snapshot.now, np.floor(options.capacity * share).astype(np.int64))
        total = options.total * hosts / max(1, len(open_hosts))
        return float(options.speedup[np.arange(len(picked)), picked].sum() / max(total, 1e-9))

    return max(least, policy.scaling.desired(snapshot.hosts, utility))


def build_options(
    jobs: tuple[JobView, ...],
    hosts: tuple[HostView, ...],
    use_efficiency: bool = True,
    try_two: bool = False,
    keeping: Set[str] = frozenset(),
) -> Options:
    """Sizes 1, 2, 4, ... within a host, then whole hosts; what bounds and rigid jobs ask for; to wait; to stay.
    `try_two`: jobs that were measured on one GPU alone count as twice as fast on two. `keeping`: elastic jobs that are
    not to be changed either."""
    types = tuple(sorted({host.gpu_type for host in hosts}))
    index = {gpu_type: p for p, gpu_type in enumerate(types)}
    open_hosts = {host.id: host for host in hosts if host.open and host.gpus}
    capacity = np.array([sum(h.gpus for h in open_hosts.values() if h.gpu_type == t) for t in types], dtype=np.int64)
    low = np.array([job.min_gpus if job.elastic else job.required_gpus for job in jobs])[:, None]
    high = np.array([job.max_gpus if job.elastic else job.required_gpus for job in jobs])[:, None]
    most = np.minimum(capacity, high.max())
    blocks = [
        _sizes(max((h.gpus for h in open_hosts.values() if h.gpu_type == t), default=0), int(most[p]), low)
        for p, t in enumerate(types)
    ]
    listed = np.concatenate([*blocks, [0, 0]]).astype(np.int64)
    pools = np.concatenate([np.full(len(b), p) for p, b in enumerate(blocks)] + [[0, 0]]).astype(np.int64)
    count, columns = len(jobs), len(listed)
    size, pool = np.tile(listed, (count, 1)), np.tile(pools, (count, 1))
    gpus = size.copy()
    speedup = np.zeros((count, columns))
    functions = [job.goodput if use_efficiency else _throughput_only(job.goodput) for job in jobs]
    blind = np.array([f is None for f in functions])
    widths = [max((h.gpus for h in open_hosts.values() if h.gpu_type == t), default=1) for t in types]
    width_of = np.concatenate([np.full(len(b), widths[p]) for p, b in enumerate(blocks)])
    # One GPU of each type comes first: what speedups are measured by.
    with_one = np.concatenate([np.ones(len(types)), listed[:-2]]).astype(np.int64)
    nodes = np.concatenate([np.ones(len(types)), -(-listed[:-2] // width_of)]).astype(np.int64)
    kinds = [*types, *(types[p] for p in pools[:-2])] if len(types) > 1 else None
    table = goodput_table(functions, nodes, with_one, kinds)
    one = np.where(table[:, : len(types)] > 0, table[:, : len(types)], np.inf).min(axis=1)
    unit = np.where(blind | ~np.isfinite(one), 1.0, one)
    speedup[:, :-2] = np.where(blind[:, None], listed[:-2], table[:, len(types) :]) / unit[:, None]
    # Of one GPU alone nobody learns how a job scales, and at a price the cautious fit of one batch would keep it there.
    untried = np.array([try_two and job.goodput is not None and job.profiled_gpus == 1 for job in jobs])[:, None]
    speedup[:, :-2] = np.where(untried & (listed[:-2] == 2), np.maximum(speedup[:, :-2], 2.0), speedup[:, :-2])
    speedup[(size < low) | (size > high)] = 0.0
    able = stays_possible(jobs, hosts)
    type_of = {host.id: host.gpu_type for host in hosts}
    place = {(int(k), int(p)): c for c, (k, p) in enumerate(zip(listed[:-2], pools[:-2], strict=True))}
    for row, job in enumerate(jobs):
        if job.allocation and not job.elastic:
            speedup[row, :-2] = 0.0  # it may neither move nor change
        if job.id not in able:
            continue
        kind = min(type_of[host] for host in job.allocation)
        size[row, -1] = job.gpus
        if job.elastic and job.id not in keeping:
            gpus[row, -1] = sum(n for host, n in job.allocation.items() if host in open_hosts)
        else:  # not to be moved: what it holds is not there for others, whichever types that is
            for host, n in job.allocation.items():
                capacity[index[type_of[host]]] -= n if host in open_hosts else 0
        pool[row, -1] = index[kind]
        packed = (-(-job.gpus // widths[index[kind]]), job.gpus, index[kind])
        if functions[row] is None:
            speedup[row, -1] = job.gpus
        elif packed[0] == len(job.allocation) and packed[1:] in place:
            speedup[row, -1] = table[row, len(types) + place[packed[1:]]] / unit[row]
        else:
            here = functions[row](np.array([len(job.allocation)]), np.array([job.gpus]), kind if kinds else None)  # type: ignore[misc]
            speedup[row, -1] = float(here[0]) / unit[row]
        speedup[row, -1] = max(speedup[row, -1], 1e-6)
    total = sum(host.gpus for host in open_hosts.values())
    return Options(jobs, types, gpus, size, pool, speedup, capacity, total)


def _sizes(width: int, most: int, least: Ints) -> Ints:
    """Sizes worth looking at on hosts of `width` GPUs, `most` in all: finer where they are small. Those that some job
    has at `least` are among them."""
    sizes = {int(size) for size in np.unique(least) if 1 <= size <= most}
    k = 1
    while k < width:
        sizes.add(k)
        k *= 2
    hosts, step = 1, 1
    while width and hosts * width <= most:
        sizes.add(hosts * width)
        step = 1 if hosts < 8 else 2 if hosts < 16 else max(4, hosts // 5)
        hosts += step
    return np.array(sorted(sizes), dtype=np.int64)


def _throughput_only(function: GoodputFunction | None) -> GoodputFunction | None:
    alone = getattr(function, "without_efficiency", None)
    return alone() if alone is not None else function


def _why(job: JobView, allocations: Mapping[str, Allocation], speedup: float, options: Options) -> Explanation | None:
    """Why a job waits or changes; None if it stays as it is."""
    new, old = allocations.get(job.id, {}), dict(job.allocation)
    if new == old and new:
        return None
    total = options.total
    if not new and old and not job.elastic:
        return None  # its host is crowded or closing; it runs on there
    if not new:
        need = job.min_gpus if job.elastic else job.required_gpus
        if need > total:
            sentence = f"It needs {gpu_count(need)}; the hosts that may be used have {total} in all."
            return Explanation("unsatisfiable_now", sentence)
        what = "It gives its GPUs up to jobs of more weight" if old else f"It waits for {gpu_count(need)}"
        return Explanation(
            "preempted" if old else "waiting_for_gpus",
            f"{what}: {len(options.jobs)} jobs share {gpu_count(total)}, and its weight is among the lowest.",
        )
    if not old:
        return None
    before, after = sum(old.values()), sum(new.values())
    cost = f"for a restart of about {max(1.0, job.restart_cost):.0f} s"
    if after > before:
        faster = f"{speedup:.2f} times as fast as on one"
        return Explanation("grows", f"Grows from {before} to {gpu_count(after)}, {faster}, {cost}.")
    if after < before:
        return Explanation(
            "shrinks", f"Gives {before - after} of {gpu_count(before)} to jobs that gain more by them, {cost}."
        )
    return Explanation("moves", f"Moves to {', '.join(sorted(new))} so that another job fits on whole hosts, {cost}.")
