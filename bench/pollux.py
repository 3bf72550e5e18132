"""Pollux's own allocation, a genetic algorithm (Qiao et al., OSDI 2021, section 4.2 and its artifact), to compare with.

Population 100, 100 generations, started from the population before; fitness is the power mean (p = -1) of the jobs'
speedups against a fair share, times what a restart leaves of each. At most one job that spans hosts on any host.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from schedulearn.scheduler.domain import JobView, Plan, Snapshot

RESTART_S = 30.0
POPULATION = 100
GENERATIONS = 100
FLOOR = 1e-3  # the speedup of a job that gets nothing

States = npt.NDArray[np.int64]  # (population, jobs, hosts): GPUs


class Pollux:
    """Unlike the policies of the project it has a memory: the last population. One object for one simulation."""

    name: ClassVar[str] = "pollux"
    resizes: ClassVar[bool] = True

    def __init__(self, seed: int = 0) -> None:
        self.dice = np.random.default_rng(seed)
        self.before: tuple[list[str], States] | None = None

    def allocate(self, snapshot: Snapshot) -> Plan:
        jobs = sorted(snapshot.jobs, key=lambda job: job.order)
        hosts = list(snapshot.hosts)
        if not jobs:
            return Plan({})
        capacity = np.array([host.gpus for host in hosts])
        base = np.array([[job.allocation.get(host.id, 0) for host in hosts] for job in jobs])
        problem = _Problem(jobs, capacity, base, snapshot.now, self.dice)
        states = problem.repair(self._carry_over(jobs, base))
        fitness = problem.fitness(states)
        for _ in range(GENERATIONS):
            children = problem.repair(problem.mutate(problem.cross(states, fitness)))
            states = np.concatenate([states, children])
            fitness = np.concatenate([fitness, problem.fitness(children)])
            best = np.argsort(-fitness, kind="stable")
            _, first = np.unique(states[best].reshape(len(states), -1), axis=0, return_index=True)
            keep = best[np.sort(first)][:POPULATION]
            states, fitness = states[keep], fitness[keep]
        self.before = ([job.id for job in jobs], states)
        chosen = states[0]
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
        states = np.repeat(base[None], len(before) + 1, axis=0)
        row_of = {name: row for row, name in enumerate(ids)}
        for index, job in enumerate(jobs):
            if job.id in row_of:
                states[1:, index] = before[:, row_of[job.id]]
        return states


class _Problem:
    def __init__(
        self, jobs: list[JobView], capacity: States, base: States, now: float, dice: np.random.Generator
    ) -> None:
        self.capacity, self.base, self.dice = capacity, base, dice
        self.most = np.array([job.max_gpus for job in jobs])
        width = int(capacity.max())
        total = int(capacity.sum())
        share = max(1, total // len(jobs))
        self.tables = np.zeros((len(jobs), len(capacity) + 1, total + 1))  # speedup by hosts and GPUs
        nodes, gpus = np.meshgrid(np.arange(len(capacity) + 1), np.arange(total + 1), indexing="ij")
        possible = (nodes >= 1) & (gpus >= nodes) & (gpus <= nodes * width)
        for index, job in enumerate(jobs):
            usable = possible & (gpus <= job.max_gpus)
            if job.goodput is None:
                self.tables[index][usable] = gpus[usable] / share
            else:
                fair = float(job.goodput(-(-share // width), share))
                self.tables[index][usable] = job.goodput(nodes[usable], gpus[usable]) / fair
        age = np.array([now - job.submitted_at for job in jobs])
        restarts = np.array([job.restarts for job in jobs])
        self.restart_factor = np.maximum(age - restarts * RESTART_S, 0.0) / (age + RESTART_S)
        self.restarts_count = base.any(axis=1)

    def fitness(self, states: States) -> npt.NDArray[np.float64]:
        nodes, gpus = np.count_nonzero(states, axis=2), states.sum(axis=2)
        rows = np.arange(states.shape[1])[None, :]
        speedup = self.tables[rows, nodes, gpus]
        changed = (states != self.base).any(axis=2) & self.restarts_count
        speedup = np.where(changed, speedup * self.restart_factor, speedup)
        return np.asarray(1.0 / np.mean(1.0 / np.maximum(speedup, FLOOR), axis=1))

    def cross(self, states: States, fitness: npt.NDArray[np.float64]) -> States:
        """Parents win tournaments of two; a child has each job's row from one of its two."""
        draw = self.dice.integers(0, len(states), size=(2, 2, POPULATION))
        winner = np.where(fitness[draw[0]] >= fitness[draw[1]], draw[0], draw[1])
        mask = self.dice.random((POPULATION, states.shape[1])) < 0.5
        return np.where(mask[:, :, None], states[winner[0]], states[winner[1]])

    def mutate(self, states: States) -> States:
        """Each job's number on a host becomes a random one, with such chance that it happens once a job."""
        chance = self.dice.random(states.shape) < 1.0 / states.shape[2]
        random = self.dice.integers(0, self.capacity + 1, size=states.shape)
        return np.where(chance, random, states)

    def repair(self, states: States) -> States:
        """Within capacity, within each job's limit, and at most one job that spans hosts on each host."""
        states = states.copy()
        spans = np.count_nonzero(states, axis=2) > 1
        # Of the spanning jobs on a host, one at random stays.
        there = (states > 0) & spans[:, :, None]
        order = np.where(there, self.dice.random(states.shape), -1.0)
        lucky = order == order.max(axis=1, keepdims=True)
        states[there & ~lucky] = 0
        # Over a job's limit: hosts in random order are cut.
        states = self._cut(states, np.broadcast_to(self.most[None, :], states.shape[:2]), axis=2)
        return self._cut(states, np.broadcast_to(self.capacity[None, :], (len(states), states.shape[2])), axis=1)

    def _cut(self, states: States, limit: Any, axis: int) -> States:
        """Cuts numbers along `axis`, in random order, so that their sum is at most `limit`."""
        order = np.argsort(self.dice.random(states.shape), axis=axis)
        ordered = np.take_along_axis(states, order, axis=axis)
        before = np.cumsum(ordered, axis=axis) - ordered
        kept = np.clip(np.expand_dims(limit, axis) - before, 0, ordered)
        out = np.empty_like(states)
        np.put_along_axis(out, order, kept, axis=axis)
        return out
