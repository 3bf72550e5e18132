"""Pollux's own allocation, a genetic algorithm (Qiao et al., OSDI 2021, section 4.2 and its artifact), to compare with.

Population 100, 100 generations of NSGA-II (Deb et al., 2002), started from the population before. Two objectives: the
power mean (p = -1) of the jobs' speedups against a fair share, times what a restart leaves of each, and the cluster's
utility; the state that is best in the first one is taken. At most one job that spans hosts on any host.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy

RESTART_S = 30.0
POPULATION = 100
GENERATIONS = 100
FLOOR = 1e-3  # added to every speedup, so that a job that gets nothing costs much but not all

States = npt.NDArray[np.int64]  # (population, jobs, hosts): GPUs
Floats = npt.NDArray[np.float64]


class Pollux(Policy):
    """Unlike the policies of the project it has a memory: the last population. One object for one simulation."""

    name: ClassVar[str] = "pollux"
    resizes: ClassVar[bool] = True

    def __init__(self, seed: int = 0) -> None:
        self.dice = np.random.default_rng(seed)
        self.before: tuple[list[str], States] | None = None

    def allocate(self, snapshot: Snapshot) -> Plan:
        # The artifact's order, which decides who keeps a place that two would have: the least served first.
        jobs = sorted(snapshot.jobs, key=lambda job: (job.attained_gpu_seconds, job.order))
        hosts = list(snapshot.hosts)
        if not jobs:
            return Plan({})
        capacity = np.array([host.gpus for host in hosts])
        base = np.array([[job.allocation.get(host.id, 0) for host in hosts] for job in jobs])
        problem = _Problem(jobs, capacity, base, snapshot.now, self.dice)
        states = problem.repair(self._carry_over(jobs, base))
        states, values, rank, crowding = survivors(states, problem.objectives(states))
        for _ in range(GENERATIONS):
            parents = self._tournaments(rank, crowding)
            children = problem.repair(problem.mutate(problem.cross(states[parents])))
            merged = np.concatenate([states, children])
            values = np.concatenate([values, problem.objectives(children)])
            states, values, rank, crowding = survivors(merged, values)
        self.before = ([job.id for job in jobs], states)
        chosen = states[values[:, 0].argmin()]
        return Plan(
            {
                job.id: {host.id: int(n) for host, n in zip(hosts, row, strict=True) if n}
                for job, row in zip(jobs, chosen, strict=True)
            }
        )

    def _carry_over(self, jobs: list[JobView], base: States) -> States:
        if self.before is None or self.before[1].shape[2] != base.shape[1]:
            return base[None]
        ids, before = self.before
        states = np.zeros((len(before), *base.shape), dtype=np.int64)
        row_of = {name: row for row, name in enumerate(ids)}
        for index, job in enumerate(jobs):
            if job.id in row_of:
                states[:, index] = before[:, row_of[job.id]]
        return states

    def _tournaments(self, rank: States, crowding: Floats) -> States:
        """(2, POPULATION / 2): indices of the winners of tournaments of two, by front and then by crowding."""
        one, other = self.dice.integers(0, len(rank), size=(2, 2, POPULATION // 2))
        better = (rank[one] < rank[other]) | ((rank[one] == rank[other]) & (crowding[one] >= crowding[other]))
        return np.asarray(np.where(better, one, other))


def survivors(states: States, values: Floats) -> tuple[States, Floats, States, Floats]:
    """NSGA-II's choice of the next population: whole fronts, the last one by crowding distance. Equal states count
    once. Returns the states, their objectives (to be minimised), their fronts and crowding distances."""
    _, first = np.unique(states.reshape(len(states), -1), axis=0, return_index=True)
    states, values = states[np.sort(first)], values[np.sort(first)]
    no_worse = (values[:, None] <= values[None]).all(axis=2)
    beats = no_worse & np.any(values[:, None] < values[None], axis=2)
    rank = np.full(len(states), -1)
    front = 0
    while (rank < 0).any() and (rank >= 0).sum() < POPULATION:
        left = rank < 0
        rank[left & ~beats[left].any(axis=0)] = front
        front += 1
    crowding = np.zeros(len(states))
    for number in range(front):
        members = np.flatnonzero(rank == number)
        for column in values.T:
            order = members[np.argsort(column[members], kind="stable")]
            span = max(column[order[-1]] - column[order[0]], 1e-12)
            crowding[order[[0, -1]]] = np.inf
            crowding[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / span
    ranked = np.flatnonzero(rank >= 0)
    keep = ranked[np.lexsort((-crowding[ranked], rank[ranked]))][:POPULATION]
    return states[keep], values[keep], rank[keep], crowding[keep]


class _Problem:
    def __init__(
        self, jobs: list[JobView], capacity: States, base: States, now: float, dice: np.random.Generator
    ) -> None:
        self.capacity, self.base, self.dice = capacity, base, dice
        self.most = np.array([job.max_gpus for job in jobs])
        width, total = int(capacity.max()), int(capacity.sum())
        share = -(-total // len(jobs))
        self.speedups = np.zeros((len(jobs), len(capacity) + 1, total + 1))  # by hosts and GPUs
        nodes, gpus = np.meshgrid(np.arange(len(capacity) + 1), np.arange(total + 1), indexing="ij")
        possible = (nodes >= 1) & (gpus >= nodes) & (gpus <= nodes * width)
        for index, job in enumerate(jobs):
            usable = possible & (gpus <= job.max_gpus)
            if job.goodput is None:
                self.speedups[index][usable] = gpus[usable] / share
            else:
                fair = float(job.goodput(-(-share // width), share))
                self.speedups[index][usable] = job.goodput(nodes[usable], gpus[usable]) / fair
        age = np.array([now - job.submitted_at for job in jobs])
        restarts = np.array([job.restarts for job in jobs])
        self.restart_factor = np.maximum(age - restarts * RESTART_S, 0.0) / (age + RESTART_S)

    def objectives(self, states: States) -> Floats:
        """(population, 2): fitness and utility, negative."""
        nodes, gpus = np.count_nonzero(states, axis=2), states.sum(axis=2)
        speedup = self.speedups[np.arange(states.shape[1])[None, :], nodes, gpus]
        active = ((states.sum(axis=1) > 0) * self.capacity).sum(axis=1)
        utility = speedup.sum(axis=1) / np.maximum(active, 1)
        after = speedup * np.where((states != self.base).any(axis=2), self.restart_factor, 1.0)
        fitness = 1.0 / np.mean(1.0 / (after + FLOOR), axis=1)
        return -np.stack([fitness, utility], axis=1)

    def cross(self, parents: States) -> States:
        """Of each pair two children, which swap their rows behind one point."""
        first, second = parents
        point = self.dice.integers(0, first.shape[1], size=(len(first), 1))
        mask = (np.arange(first.shape[1]) < point)[:, :, None]
        return np.concatenate([np.where(mask, first, second), np.where(mask, second, first)])

    def mutate(self, states: States) -> States:
        """A tenth of the rows go back to what they hold, a tenth lose some, and hosts with free GPUs give them away."""
        dice = self.dice
        states = np.where(dice.random((*states.shape[:2], 1)) < 0.1, self.base, states)
        losing = np.where(dice.random((*states.shape[:2], 1)) < 0.1, 0.1, 0.0)
        states[dice.random(states.shape) < losing] = 0
        free = np.broadcast_to((states.sum(axis=1) < self.capacity)[:, None, :], states.shape)
        present = free & (states > 0)
        anybody = free / states.shape[1]
        present_share = present / np.maximum(present.sum(axis=1, keepdims=True), 1)
        chance = anybody + present_share - anybody * present_share
        grown = dice.integers(states, np.broadcast_to(np.maximum(states, self.capacity) + 1, states.shape))
        return np.where(dice.random(states.shape) < chance, grown, states)

    def repair(self, states: States) -> States:
        """At most one job that spans hosts on each host, within each job's limit, and within capacity."""
        spanning = (states > 0) & (np.count_nonzero(states, axis=2) > 1)[:, :, None]
        states = np.where(spanning & (spanning.cumsum(axis=1) > 1), 0, states)
        order = np.argsort(self.dice.random(states.shape), axis=2)
        shuffled = np.take_along_axis(states, order, axis=2)
        within = np.diff(np.minimum(shuffled.cumsum(axis=2), self.most[None, :, None]), axis=2, prepend=0)
        np.put_along_axis(states, order, within, axis=2)
        return np.asarray(np.diff(np.minimum(states.cumsum(axis=1), self.capacity), axis=1, prepend=0))
