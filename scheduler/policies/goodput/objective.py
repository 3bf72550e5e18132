"""Objective of the goodput policy, derived from its metric and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedulearn.scheduler.core.host_scaling import HostScaling
from schedulearn.scheduler.core.model import Basis, JobView, Metric
from schedulearn.scheduler.policies.goodput.tuning import Tuning


@dataclass(frozen=True)
class GoodputObjective:
    """Objective of the goodput policy. `GoodputPolicy.objective` makes it."""

    priced: bool
    """Whether GPUs have a price, and jobs known to end soon come first. Otherwise jobs are only weighed against each
    other."""
    price_floor: float
    """Price of a GPU even if no other job wants it, relative to the weight of the job that would have it."""
    equal_weights: bool
    """Whether all jobs weigh the same, as in the thesis's definitions of the metrics."""
    use_efficiency: bool
    """False: jobs are judged, and choose their batch, by throughput alone."""
    hosts_by_need: bool
    """Whether the number of hosts follows what the jobs use; else it follows `scaling`."""
    slowdown: float
    base_s: float
    patience: float
    min_run: float
    later_price: float
    deadline_share: float
    overtaking: float
    """The last seven are parameters of the policy, described there."""
    scaling: HostScaling
    tuning: Tuning

    @property
    def foresees(self) -> bool:
        """Whether later prices of GPUs count. A price floor would be most of the price, and it does not fall."""
        return self.priced and self.price_floor == 0

    def price_floor_of(self, job: JobView) -> float:
        """`price_floor`, by the job's own metric if it has one."""
        if job.metric is None or self.equal_weights:
            return self.price_floor
        return self.tuning.cost_price if job.metric == "cost" else 0.0

    def weighs_length_of(self, job: JobView) -> bool:
        """Return whether the job comes earlier the less remaining time it has, where that is known."""
        return self.priced if job.metric is None else job.metric != "default"

    def later_prices(self, jobs: Sequence[JobView]) -> tuple[float, ...]:
        """Return the price of a GPU, relative to today's, that each job expects when the crowd has gone.

        It is `later_price`, or more if the job's run time is only guessed.
        """
        guessed = max(self.later_price, self.tuning.later_guessed)
        told = (job.remaining is not None and job.basis is not Basis.FAMILY for job in jobs)
        return tuple(self.later_price if each else guessed for each in told)

    def uses_efficiency_for(self, metric: Metric | None) -> bool:
        """Return `use_efficiency`, by a job's own metric if it has one. In the thesis, `speed` is throughput alone."""
        if metric is None or not self.equal_weights:
            return self.use_efficiency
        return metric != "speed"

    def takes_spare_gpus(self, job: JobView) -> bool:
        """Return whether the job may get left-over GPUs if it gains by them. With a price floor they may stay idle."""
        return not self.equal_weights and self.price_floor_of(job) == 0

    def keeps(self, job: JobView) -> bool:
        """Return whether a running job must stay as it is, since it has not run long enough on its current GPUs."""
        return bool(job.allocation) and job.held_seconds is not None and job.held_seconds < self.least_run(job)

    def least_run(self, job: JobView) -> float:
        """Return the minimum seconds that a job keeps its GPUs: `min_run`, or less if it is resized in place.

        A resize in place costs little. The minimum is then the time until new workers have joined, plus a multiple of
        that cost.
        """
        if not job.in_place:
            return self.min_run
        return min(self.min_run, job.join_seconds + self.tuning.in_place_run * job.restart_cost)
