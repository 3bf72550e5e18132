"""A policy whose one parameter is the number of GPUs of each elastic job: how tests resize a job while it trains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from schedulearn.scheduler.core.model import Plan, Snapshot


@dataclass(frozen=True)
class Sized:
    """Every job gets `gpus` GPUs of the first host, in order of submission."""

    name: ClassVar[str] = "sized"
    gpus: int = field(default=1, metadata={"doc": "GPUs of each elastic job"})

    def allocate(self, snapshot: Snapshot) -> Plan:
        if not snapshot.hosts:  # the engine does not answer
            return Plan({})
        host, plan = snapshot.hosts[0], {}
        free = host.gpus
        for job in sorted(snapshot.jobs, key=lambda job: job.order):
            wanted = max(job.min_gpus, min(self.gpus, job.max_gpus)) if job.elastic else job.required_gpus
            if wanted <= free:
                plan[job.id] = {host.id: wanted}
                free -= wanted
        return Plan(plan)
