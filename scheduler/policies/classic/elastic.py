"""Shared parts of the elastic policies.

Each policy is one rule that shares out a number of GPUs (`share_out`). Finding hosts for the shares and avoiding
useless restarts is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.policies.classic.queueing import Order, behind
from schedulearn.scheduler.policies.classic.rearranging import Rearrangement

_TINY = 1e-9


@dataclass(frozen=True)
class Damping:
    """Parameters of policies that resize. A resize or preemption costs a restart, so it must pay."""

    min_run: float = field(
        default=120.0,
        metadata={
            "doc": "minimum seconds that a job runs on an allocation, and on average per start, before it is resized "
            "or preempted"
        },
    )
    min_gain: float = field(
        default=0.1, metadata={"doc": "minimum gain in speed for which a running job grows, e.g. 0.1: 10 %"}
    )

    def __post_init__(self) -> None:
        if self.min_run < 0 or self.min_gain < 0:
            raise ValueError("min_run and min_gain must be at least 0")

    def settled(self, job: JobView) -> bool:
        """Return whether the job has run long enough to be restarted again.

        It must have run for `min_run` seconds on its current GPUs, and on average after each of its starts.
        """
        if job.held_seconds is not None and job.held_seconds < self.min_run:
            return False
        return job.run_seconds >= self.min_run * (job.restarts + 1)


@dataclass
class Claim:
    """Job that GPUs may be shared out to: a waiting job, or a running elastic one."""

    job: JobView
    sizes: list[int]
    """Numbers of GPUs that it may have, ascending: all up to a whole host, then whole hosts, and its own bounds. Sizes
    that make it no faster than a smaller one are left out."""
    speedups: list[float]
    """Speedup over one GPU with each of `sizes`: above 0, ascending."""
    step: int = -1
    """Index of its share in `sizes`; -1: none."""

    @property
    def share(self) -> int:
        """GPUs that it has been given; 0: none."""
        return self.sizes[self.step] if self.step >= 0 else 0

    @property
    def least(self) -> int:
        return self.sizes[0]

    @property
    def next_gpus(self) -> int | None:
        """Additional GPUs for the next larger size; None if there is none."""
        return self.sizes[self.step + 1] - self.share if self.step + 1 < len(self.sizes) else None

    @property
    def speedup(self) -> float:
        return self.speedups[self.step] if self.step >= 0 else 0.0

    @property
    def gain(self) -> float:
        """Increase of the speedup per additional GPU with the next larger size; 0 if there is none."""
        gpus = self.next_gpus
        return (self.speedups[self.step + 1] - self.speedup) / gpus if gpus else 0.0

    def speedup_of(self, gpus: int) -> float:
        """Return the speedup with any number of GPUs: that of the largest of `sizes` within it."""
        return max((s for k, s in zip(self.sizes, self.speedups, strict=True) if k <= gpus), default=0.0)


ShareOut = Callable[[list[Claim], int], None]
"""Function that sets `step` of each claim. The claims are in the policy's order. Their shares add up to at most the
number of GPUs."""


def allocate_shares(
    snapshot: Snapshot,
    order: Order,
    damping: Damping,
    share_out: ShareOut,
    holds_back: Callable[[JobView], bool] = lambda job: False,
) -> Plan:
    """Share out GPUs by `share_out` and find hosts for the shares.

    Hosts are found in `order`, for waiting jobs first, then for growing ones. Running jobs shrink or stop only when
    another job takes the GPUs at once, and only if they are `settled`. A job whose share fits on one host takes fewer
    GPUs rather than several hosts. If a waiting job that `holds_back` does not fit, those behind it wait too, and free
    GPUs stay free.
    """
    plan = Rearrangement(snapshot)
    reasons: dict[str, str] = {}
    claims = _claims_that_fit(snapshot, order, plan, reasons)
    share_out(claims, plan.room.free_gpus() + sum(job.gpus for job in plan.movable))

    running = [claim for claim in claims if claim.job.allocation]
    waiting = [claim for claim in claims if not claim.job.allocation]
    settled = [claim for claim in running if damping.settled(claim.job)]
    search = _Search(plan, [(c.job, c.share) for c in reversed(settled) if c.share < c.job.gpus])
    shareless = [claim for claim in waiting if not claim.share and not holds_back(claim.job)]
    blocker: JobView | None = None
    for claim in waiting:
        if blocker is not None:
            reasons[claim.job.id] = behind(order, blocker)
        elif (claim.share or holds_back(claim.job)) and not search.start(claim):
            reasons[claim.job.id] = plan.room.too_full_for(claim.least)
            blocker = claim.job if holds_back(claim.job) else None
    if blocker is not None:
        reasons |= {claim.job.id: behind(order, blocker) for claim in shareless}
        return plan.plan(reasons)
    for claim in settled:
        if claim.share > plan.held(claim.job):
            search.grow(claim, damping.min_gain)
    for claim in shareless:  # they have no share, but no other job could use these GPUs now
        if not search.start(claim):
            reasons[claim.job.id] = plan.room.too_full_for(claim.least)
    return plan.plan(reasons)


def _claims_that_fit(snapshot: Snapshot, order: Order, plan: Rearrangement, reasons: dict[str, str]) -> list[Claim]:
    """Return claims for those waiting or resizable jobs that the hosts could hold.

    For each other waiting job, the reason why it does not fit goes into `reasons`.
    """
    movable = {job.id for job in plan.movable}
    open_to_change = [j for j in sorted(snapshot.jobs, key=order.key) if j.id in movable or not j.allocation]
    claims = []
    for claim in _claims(open_to_change, max(1, plan.room.largest), plan.room.capacity):
        if (never := plan.room.too_small_for(claim.least)) is None:
            claims.append(claim)
        elif not claim.job.allocation:
            reasons[claim.job.id] = never
    return claims


class _Search:
    """Search for hosts that remembers sizes for which none were found, since none will be found later either."""

    def __init__(self, plan: Rearrangement, victims: Sequence[tuple[JobView, int]]) -> None:
        self._plan = plan
        self._victims = victims
        self._hopeless: dict[bool, float] = {}  # whether on several hosts -> minimum number of GPUs not found

    def start(self, claim: Claim) -> bool:
        """Give the job its share, else as much of it as one host has, else its minimum size; False if none fits."""
        job, wanted = claim.job, claim.share or claim.least
        if self._start(job, wanted, self._victims if claim.share else ()):
            return True
        if not job.elastic:
            return False
        if self._plan.start_smaller(job, claim.least, wanted):
            return True
        return 0 < claim.least < claim.share and self._start(job, claim.least, self._victims)

    def grow(self, claim: Claim, min_gain: float) -> None:
        enough = claim.speedup_of(claim.job.gpus) * (1 + min_gain)
        self._plan.grow(claim.job, claim.share, lambda gpus: claim.speedup_of(gpus) >= enough, self._victims)

    def _start(self, job: JobView, gpus: int, victims: Sequence[tuple[JobView, int]]) -> bool:
        several = gpus > self._plan.room.largest
        try_hard = gpus < self._hopeless.get(several, inf)
        if self._plan.start(job, gpus, victims if try_hard else ()):
            return True
        if victims and try_hard:
            self._hopeless[several] = gpus
        return False


def fill(claims: list[Claim], gpus: int) -> int:
    """Raise each claim in turn to the largest size that the GPUs allow; return the GPUs left."""
    for claim in claims:
        while claim.step >= 0 and (more := claim.next_gpus) is not None and more <= gpus:
            claim.step += 1
            gpus -= more
    return gpus


def give_least(claims: list[Claim], gpus: int, holds_back: Callable[[JobView], bool] = lambda job: False) -> int:
    """Give each claim its minimum size in order, as far as the GPUs go; return the GPUs left.

    The result is 0 if a claim that `holds_back` could not get its minimum size.
    """
    for claim in claims:
        if claim.least <= gpus:
            claim.step = 0
            gpus -= claim.least
        elif holds_back(claim.job):
            return 0
    return gpus


def _claims(jobs: Sequence[JobView], host_gpus: int, capacity: int) -> list[Claim]:
    tried = [_sizes(job, host_gpus, capacity) for job in jobs]
    speedups = _speedups(jobs, tried, host_gpus)
    return [_claim(*row) for row in zip(jobs, tried, speedups, strict=True)]


def _sizes(job: JobView, host_gpus: int, capacity: int) -> list[int]:
    if not job.elastic:
        return [job.required_gpus]
    most = max(job.min_gpus, min(job.max_gpus, capacity))
    ends = {job.min_gpus, most}
    return sorted(ends | {k for k in range(job.min_gpus, most + 1) if k <= host_gpus or k % host_gpus == 0})


def _claim(job: JobView, tried: list[int], speedups_tried: list[float]) -> Claim:
    if not job.elastic:
        return Claim(job, tried, [float(job.required_gpus)])
    sizes, speedups = [tried[0]], [0.0]
    for size, speedup in zip(tried, speedups_tried, strict=True):
        if size == tried[0]:
            speedups[0] = max(speedup, _TINY)
        elif speedup > speedups[-1] + _TINY:
            sizes.append(size)
            speedups.append(speedup)
    return Claim(job, sizes, speedups)


def _speedups(jobs: Sequence[JobView], tried: Sequence[list[int]], host_gpus: int) -> list[list[float]]:
    """Return the speedup of each job with each size tried: goodput(k) / goodput(1).

    The k GPUs are on as few hosts as hold them. Before its first profile, a job's speedup is linear up to
    `required_gpus`: without this optimism it would not be tried on more GPUs.
    """
    found = [[float(min(k, job.required_gpus)) for k in sizes] for job, sizes in zip(jobs, tried, strict=True)]
    profiled = [row for row, job in enumerate(jobs) if job.elastic and job.goodput is not None]
    if not profiled:
        return found
    # A goodput can only be made with NumPy loaded; a service without profiles starts without it.
    import numpy as np

    from schedulearn.metrics.model.goodput import goodput_table

    gpus = np.array(sorted({1}.union(*(tried[row] for row in profiled))))
    table = goodput_table([jobs[row].goodput for row in profiled], -(-gpus // host_gpus), gpus)
    for row, values in zip(profiled, table, strict=True):
        at_sizes = values[np.searchsorted(gpus, tried[row])]
        if values[0] > 0 and np.isfinite(at_sizes / values[0]).all():
            found[row] = (at_sizes / values[0]).tolist()
    return found
