"""What the goodput policy is to achieve: all that its helpers need to know of the metric and the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedulearn.scheduler.core.host_scaling import HostScaling
from schedulearn.scheduler.core.model import Basis, JobView, Metric

IN_PLACE_RUN = 5.0
"""So many times as long as a resize in place costs, a job keeps what it then has."""
LATER_GUESSED = 0.5
"""What a GPU costs later, at least, to a job that does not tell its length itself. Who seems to have long to go may end
at once."""
COST_PRICE = 0.5
"""Of a GPU for the metric `cost`, against the weight of the job that would have it."""


@dataclass(frozen=True)
class Objective:
    """Made by `GoodputPolicy.objective`."""

    priced: bool
    """Whether GPUs have a price, and jobs that will end soon come first, where that is known; else jobs are only
    weighed against each other."""
    price_floor: float
    """What a GPU costs even if nobody else wants it, against the weight of the job that would have it."""
    equal_weights: bool
    """The metrics as the thesis defines them: all jobs weigh alike."""
    use_efficiency: bool
    """False: jobs are judged, and choose their batch, by throughput alone."""
    hosts_by_need: bool
    """Whether as many hosts are wanted as the jobs use; else as many as `scaling` keeps."""
    slowdown: float
    base_s: float
    patience: float
    min_run: float
    later_price: float
    deadline_share: float
    """The last six are parameters of the policy, described there."""
    scaling: HostScaling

    @property
    def foresees(self) -> bool:
        """Whether what GPUs will cost later counts. Where they have a price of their own, that is most of it, and it
        does not fall."""
        return self.priced and self.price_floor == 0

    def price_floor_of(self, job: JobView) -> float:
        """`price_floor`, by the job's own metric if it has one."""
        if job.metric is None or self.equal_weights:
            return self.price_floor
        return COST_PRICE if job.metric == "cost" else 0.0

    def weighs_length_of(self, job: JobView) -> bool:
        """Whether the job comes the earlier the sooner it will end, where that is known."""
        return self.priced if job.metric is None else job.metric != "default"

    def later_prices(self, jobs: Sequence[JobView]) -> tuple[float, ...]:
        """Of today's price, what each job expects a GPU to cost when the crowd has gone: `later_price`, or more if its
        length is only guessed."""
        told = (job.remaining is not None and job.basis is not Basis.FAMILY for job in jobs)
        return tuple(self.later_price if each else max(self.later_price, LATER_GUESSED) for each in told)

    def uses_efficiency_for(self, metric: Metric | None) -> bool:
        """`use_efficiency`, by a job's own metric if it has one: as the thesis has it, `speed` looks at throughput
        alone."""
        if metric is None or not self.equal_weights:
            return self.use_efficiency
        return metric != "speed"

    def takes_spare_gpus(self, job: JobView) -> bool:
        """Whether GPUs that are left over go to it if it gains by them. At a price of their own they may stay idle."""
        return not self.equal_weights and self.price_floor_of(job) == 0

    def keeps(self, job: JobView) -> bool:
        """Whether a running job is to stay as it is, since it has not run long enough on what it holds."""
        return bool(job.allocation) and job.held_seconds is not None and job.held_seconds < self.least_run(job)

    def least_run(self, job: JobView) -> float:
        """Seconds that a job keeps what it holds: `min_run`, or less where it is resized in place, which costs little:
        until new workers have joined, and some times as long as that cost."""
        if not job.in_place:
            return self.min_run
        return min(self.min_run, job.join_seconds + IN_PLACE_RUN * job.restart_cost)
