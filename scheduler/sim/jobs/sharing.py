"""Slowdown of jobs that run beside each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.jobs.training import Training


def paces(trainings: Collection[Training], gpus_of: Mapping[str, int], conditions: Conditions) -> dict[str, float]:
    """Return job -> its pace beside the others.

    Jobs that share GPUs share their throughput. Jobs on several hosts may slow each other down. Since it is not known
    which GPUs of a host are shared, all jobs of the host count alike. `gpus_of`: hosts whose GPUs are shared.
    """
    running = [training for training in trainings if training.allocation and not training.suspended]
    held: dict[str, int] = {}
    spanning: dict[str, int] = {}
    for training in running:
        for host, gpus in training.allocation.items():
            held[host] = held.get(host, 0) + gpus
            spanning[host] = spanning.get(host, 0) + (len(training.allocation) > 1)
    found = {}
    for training in running:
        crowd = max(held[host] / max(1, gpus_of.get(host, held[host])) for host in training.allocation)
        pace = conditions.sharing / crowd if crowd > 1 else 1.0
        if len(training.allocation) > 1 and any(spanning[host] > 1 for host in training.allocation):
            pace *= 1 - conditions.interference
        found[training.job.id] = pace
    return found
