"""A policy whose one parameter is the number of GPUs of each elastic job: how tests resize a job while it trains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from schedulearn.scheduler.core.model import Plan, Snapshot


@dataclass(frozen=True)
class Sized:
    """Every job gets `gpus` GPUs, in order of submission, of the first hosts that have some left."""

    name: ClassVar[str] = "sized"
    gpus: int = field(default=1, metadata={"doc": "GPUs of each elastic job"})

    def allocate(self, snapshot: Snapshot) -> Plan:
        free, plan = {host.id: host.gpus for host in snapshot.hosts}, {}
        for job in sorted(snapshot.jobs, key=lambda job: job.order):
            wanted = max(job.min_gpus, min(self.gpus, job.max_gpus)) if job.elastic else job.required_gpus
            if wanted > sum(free.values()):
                continue
            taken: dict[str, int] = {}
            for host, gpus in free.items():
                if part := min(gpus, wanted - sum(taken.values())):
                    taken[host] = part
            for host, part in taken.items():
                free[host] -= part
            plan[job.id] = taken
        return Plan(plan)
