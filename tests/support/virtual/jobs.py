"""What the jobs of a run do: how long they take, and how their commands end."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

from clusters import spec

from schedulearn.scheduler.specs.job import JobSpec


@dataclass(frozen=True)
class Plan:
    seconds: float
    failures: int
    """So many attempts fail first."""
    max_restarts: int
    hangs: int = 0
    """So many attempts do nothing, and never end."""


@dataclass
class Workload:
    rng: random.Random
    plans: dict[str, Plan] = field(default_factory=dict)
    """By job."""
    exits: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Job -> attempt and exit code of each command that ended by itself."""
    hung: dict[str, set[int]] = field(default_factory=dict)
    """Job -> attempts that do nothing."""
    gpu_failures: set[str] = field(default_factory=set)
    """Jobs of which a command failed because its GPU did."""

    def plan(self, job_id: str) -> Plan:
        return self.plans.get(job_id, Plan(5.0, 0, 0))

    def make(self, number: int, most_gpus: int) -> tuple[JobSpec, Plan]:
        rng = self.rng
        plan = Plan(rng.uniform(0.5, 30), rng.choice([0, 0, 0, 0, 1, 2]), rng.choice([0, 1, 2]))
        gpus = rng.choice([0, 1, 1, 1, 2, 2, 3, 4])
        fields: dict[str, Any] = {"max_restarts": plan.max_restarts, "priority": rng.choice([10, 50, 90])}
        if gpus > 0 and rng.random() < 0.3:
            fields |= {"elastic": True, "min_gpus": 1, "max_gpus": most_gpus, "grace_period": 5}
        if rng.random() < 0.1:
            fields["max_duration"] = rng.uniform(5, 20)
        dice = random.Random(f"hangs {plan.seconds}")  # of their own: what the others decide is as it was before hangs
        if gpus > 0 and dice.random() < 0.1:
            fields["on_hang"] = dice.choice(["restart", "end"])
            plan = replace(plan, hangs=dice.choice([0, 1, 2, 5]))
        return spec(f"job-{number}", min(gpus, most_gpus), **fields), plan

    def seconds(self, job_id: str, attempt: int) -> float:
        hung = self.hung.setdefault(job_id, set())
        if attempt in hung or len(hung) < self.plan(job_id).hangs:
            hung.add(attempt)
            return math.inf
        return self.plan(job_id).seconds

    def exit_code(self, job_id: str, attempt: int) -> int:
        failed = sum(1 for _, code in self.exits.get(job_id, []) if code)
        return 1 if failed < self.plan(job_id).failures else 0

    def note_exit(self, job_id: str, attempt: int, code: int) -> None:
        self.exits.setdefault(job_id, []).append((attempt, code))

    def note_gpu_failure(self, job_id: str) -> None:
        self.gpu_failures.add(job_id)
