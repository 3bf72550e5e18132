"""What the queueing policies share: the room left on each host, and serving a queue in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from schedulearn.scheduler.domain import Allocation, JobView, Plan, Snapshot, Why


@dataclass(frozen=True)
class Sharing:
    """The parameters of policies that may put several jobs on a GPU, as the original Schedulearn did."""

    backfill: bool = field(default=False, metadata={"doc": "let later jobs that fit pass one that waits"})
    jobs_per_gpu: int = field(default=1, metadata={"doc": "how many jobs may share one GPU (1 to 16)"})
    max_utilization: float = field(
        default=90.0, metadata={"doc": "share a GPU that has a job only below this utilisation, in per cent"}
    )

    def __post_init__(self) -> None:
        if not 1 <= self.jobs_per_gpu <= 16:
            raise ValueError(f"jobs_per_gpu must be 1 to 16, not {self.jobs_per_gpu}")
        if not 0 < self.max_utilization <= 100:
            raise ValueError(f"max_utilization must be above 0 and at most 100 per cent, not {self.max_utilization}")

    def room(self, snapshot: Snapshot) -> Room:
        return Room(snapshot, self.jobs_per_gpu, self.max_utilization)


class Room:
    """Free room on each host while a plan is being made. A job's GPUs are distinct, so a host that shares its GPUs
    still has room for at most `gpus` of one job."""

    def __init__(self, snapshot: Snapshot, jobs_per_gpu: int = 1, max_utilization: float = 100.0) -> None:
        self.jobs_per_gpu = jobs_per_gpu
        self.max_utilization = max_utilization
        self._free: dict[str, list[int]] = {}  # host -> free slots of each of its GPUs
        self.largest = max((host.gpus for host in snapshot.hosts if host.open), default=0)
        held: dict[str, int] = {}
        for job in snapshot.jobs:
            for host_id, gpus in job.allocation.items():
                held[host_id] = held.get(host_id, 0) + gpus
        for host in snapshot.hosts:
            jobs = list(host.gpu_jobs) or _spread(held.get(host.id, 0), host.gpus)
            busy = list(host.gpu_utilization) or [0.0] * host.gpus
            self._free[host.id] = [
                0 if not host.open or (n and u >= max_utilization) else max(0, jobs_per_gpu - n)
                for n, u in zip(jobs, busy, strict=False)
            ]

        self._open = {host_id: sum(1 for slots in free if slots > 0) for host_id, free in self._free.items()}

    def fits(self, host_id: str, gpus: int) -> bool:
        return self._open[host_id] >= gpus

    def first_host(self, gpus: int) -> str | None:
        """The first host in order with `gpus` GPUs that could take a job."""
        return next((host_id for host_id, free in self._open.items() if free >= gpus), None)

    def take(self, host_id: str, gpus: int) -> None:
        """Takes one slot on each of the `gpus` emptiest GPUs (as placement does)."""
        free = self._free[host_id]
        for index in sorted(range(len(free)), key=lambda i: (-free[i], i))[:gpus]:
            free[index] -= 1
            self._open[host_id] -= free[index] == 0

    def free_gpus(self) -> int:
        """GPUs, over all hosts, that could take a job."""
        return sum(self._open.values())


def _spread(held: int, gpus: int) -> list[int]:
    """`held` jobs laid over `gpus` GPUs as evenly as they go."""
    if not gpus:
        return []
    each, rest = divmod(held, gpus)
    return [each + (index < rest) for index in range(gpus)]


def keep_running(snapshot: Snapshot, jobs_per_gpu: int = 1) -> dict[str, Allocation]:
    """What running jobs hold, as far as their hosts are still there and have the room; oldest first."""
    left = {host.id: host.gpus * jobs_per_gpu for host in snapshot.hosts}
    width = {host.id: host.gpus for host in snapshot.hosts}
    kept: dict[str, Allocation] = {}
    for job in sorted(snapshot.jobs, key=lambda job: job.order):
        if job.allocation and all(
            left.get(host, 0) >= gpus and width.get(host, 0) >= gpus for host, gpus in job.allocation.items()
        ):
            kept[job.id] = dict(job.allocation)
            for host, gpus in job.allocation.items():
                left[host] -= gpus
    return kept


@dataclass(frozen=True)
class Order:
    """Who comes first: `key` sorts waiting jobs, `words` tell people what it goes by."""

    key: Callable[[JobView], Any]
    words: str


BY_SUBMISSION = Order(lambda job: job.order, "in order of submission")


def serve_in_order(
    snapshot: Snapshot,
    room: Room,
    choose_host: Callable[[int], str | None],
    *,
    backfill: bool,
    order: Order = BY_SUBMISSION,
) -> Plan:
    """Running jobs stay; waiting ones get `required_gpus` on the host chosen, in their order.

    A job that no host could ever hold is passed over, since it would block the queue for good.
    """
    allocations = keep_running(snapshot, room.jobs_per_gpu)
    reasons: dict[str, str] = {}
    first_waiting: JobView | None = None
    for job in sorted((job for job in snapshot.jobs if not job.allocation), key=order.key):
        if job.required_gpus > room.largest:
            reasons[job.id] = Why(
                "unsatisfiable_now",
                f"It needs {job.required_gpus} GPUs on one host; the largest host that may be used has {room.largest}.",
            )
            continue
        if first_waiting is not None and not backfill:
            reasons[job.id] = Why(
                "behind_others",
                f"Jobs start {order.words}: it waits behind {first_waiting.id}, "
                f"which needs {first_waiting.required_gpus} GPUs.",
            )
            continue
        host = choose_host(job.required_gpus)
        if host is None:
            first_waiting = first_waiting or job
            reasons[job.id] = Why(
                "waiting_for_gpus",
                f"It needs {job.required_gpus} GPUs on one host; {room.free_gpus()} are free in all, "
                "and no host has that many free.",
            )
            continue
        room.take(host, job.required_gpus)
        allocations[job.id] = {host: job.required_gpus}
    return Plan(allocations, reasons=reasons, jobs_per_gpu=room.jobs_per_gpu, max_utilization=room.max_utilization)
