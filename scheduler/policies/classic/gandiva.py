"""Time slicing, as in Gandiva (Xiao et al., OSDI 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import floor
from typing import ClassVar

from schedulearn.scheduler.core.model import Explanation, JobView, Plan, Snapshot, gpu_count
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.queueing import BY_SUBMISSION, Room, fixed_size, keep_running


@dataclass(frozen=True)
class Gandiva(Policy):
    """Time slicing only: jobs that find no free GPU share those of others and take turns (sections 3.2 and 4 of the
    paper: suspend-resume, over-subscription, round robin). Gandiva's packing, migration and resizing are not part of
    it.

    All jobs give early feedback instead of waiting in a queue. All jobs keep their size, rigid ones too. A paused job
    keeps its process, and its memory on the GPU.

    Jobs start in the order of submission: on free GPUs if there are enough, else on the host whose GPUs have the fewest
    jobs. Jobs that share GPUs, directly or through others, form a ring. In each `quantum` of the clock, the next job of
    the ring goes first, and jobs that fit beside it run as well. With n jobs in a ring, each one runs at least every
    nth quantum. A job that starts on shared GPUs waits for its first turn.
    """

    name: ClassVar[str] = "gandiva"

    quantum: float = field(default=60.0, metadata={"doc": "length of a time slice, seconds (at least 1)"})
    jobs_per_gpu: int = field(
        default=2, metadata={"doc": "maximum jobs that take turns on one GPU (1 to 16); all of them stay in its memory"}
    )

    def __post_init__(self) -> None:
        if self.quantum < 1:
            raise ValueError(f"quantum must be at least 1 second, not {self.quantum}")
        if not 1 <= self.jobs_per_gpu <= 16:
            raise ValueError(f"jobs_per_gpu must be 1 to 16, not {self.jobs_per_gpu}")

    @property
    def shares_gpus(self) -> bool:
        return self.jobs_per_gpu > 1

    def allocate(self, snapshot: Snapshot) -> Plan:
        allocations = keep_running(snapshot, self.jobs_per_gpu)
        turn = floor(snapshot.now / self.quantum)
        suspended = _pausing(snapshot, set(allocations), turn)
        reasons: dict[str, str] = {}
        free, shared = Room(snapshot), Room(snapshot, self.jobs_per_gpu)
        for job in sorted((job for job in snapshot.jobs if not job.allocation), key=lambda job: job.order):
            gpus = fixed_size(job)
            if (never := shared.too_small_for(gpus)) is not None:
                reasons[job.id] = never
                continue
            shared.serve(job)
            if gpus > free.largest:
                alone, beside = free.span(gpus), shared.span(gpus)
            else:
                first, emptiest = free.first_host(gpus), shared.least_shared_host(gpus)
                alone = {first: gpus} if first is not None else None
                beside = {emptiest: gpus} if emptiest is not None else None
            place = alone or beside
            if place is None:
                few = f"It needs {gpu_count(gpus)}; too few GPUs have fewer than {self.jobs_per_gpu} jobs."
                reasons[job.id] = shared.too_little_memory(gpus) or Explanation("waiting_for_gpus", few)
                continue
            allocations[job.id] = place
            if alone is None:
                suspended.add(job.id)
            for host_id, count in place.items():
                free.take(host_id, count)
                shared.take(host_id, count)
        for job_id in suspended:
            reasons[job_id] = Explanation(
                "time_slice", f"It shares its GPUs and waits for its time slice of {self.quantum:g} s."
            )
        review_at = (turn + 1) * self.quantum if suspended else None
        return Plan(
            allocations,
            reasons=reasons,
            jobs_per_gpu=self.jobs_per_gpu,
            suspended=frozenset(suspended),
            review_at=review_at,
        )


def _pausing(snapshot: Snapshot, kept: set[str], turn: int) -> set[str]:
    """Return the `kept` jobs that pause in this time slice."""
    held = snapshot.held_gpus()
    jobs = [job for job in sorted(snapshot.jobs, key=BY_SUBMISSION.key) if job.id in kept]
    on: dict[tuple[str, int], list[JobView]] = {}
    for job in jobs:
        for gpu in held[job.id]:
            on.setdefault(gpu, []).append(job)
    pausing: set[str] = set()
    seen: set[str] = set()
    for job in jobs:
        if job.id in seen:
            continue
        ring, reach = [], [job]
        seen.add(job.id)
        while reach:
            member = reach.pop()
            ring.append(member)
            for gpu in held[member.id]:
                for other in on[gpu]:
                    if other.id not in seen:
                        seen.add(other.id)
                        reach.append(other)
        ring.sort(key=BY_SUBMISSION.key)
        first = turn % len(ring)
        busy: set[tuple[str, int]] = set()
        for member in ring[first:] + ring[:first]:
            if busy & held[member.id]:
                pausing.add(member.id)
            else:
                busy |= held[member.id]
    return pausing
