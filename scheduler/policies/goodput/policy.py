"""Goodput policy: GPUs for the maximum gain of the cluster as a whole.

It chooses the number and type of each job's GPUs. S(k) is a job's goodput on k GPUs over that on one (Pollux, OSDI
2021). w is its weight, by the metric. Delaying a job costs w per second, and a GPU costs its price p per second. A unit
of its work on k GPUs therefore costs (w + p k) / S(k).

Under `cost`, each job takes its cheapest k, and p is the lowest price at which all jobs fit, or more. That lowest price
is what a GPU is worth to the jobs that would otherwise have it.

Under `speed`, prices are expected to fall: a crowd of jobs ends, and long jobs had better do more of their work after
that. P is the mean price that a job will see in its life. V, the minimum of (w + P k) / S(k), is what a unit of work is
worth to the job. It takes the k that gains most today, V S(k) - p k. With P = p that would be the cheapest k again.
Each type of GPU has its own price there.

`default` knows no prices. `knapsack.assign` then makes the choice exact within each type's GPUs.

A change of a running job must pay for its restart. For every choice but the present one, S is multiplied by
T / (T + restart). T is how long the choice is expected to last, at most the time that the job has left. A job that has
just got its allocation keeps it for `min_run` seconds, or less where it is resized in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from schedulearn.scheduler.core.host_scaling import HostScaling
from schedulearn.scheduler.core.model import Explanation, Metric, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.goodput.objective import GoodputObjective
from schedulearn.scheduler.policies.goodput.tuning import Tuning


@dataclass(frozen=True)
class GoodputPolicy(Policy):
    """Pollux-style goodput scheduling of elastic jobs; rigid ones get what they require or wait."""

    name: ClassVar[str] = "goodput"
    metrics: ClassVar[tuple[str, ...]] = (
        "default", "speed", "cost", "balanced", "thesis-default", "thesis-speed", "thesis-cost",
    )  # fmt: skip
    resizes: ClassVar[bool] = True
    tuning: ClassVar[Tuning] = Tuning()

    metric: str = "default"
    base_s: float = field(default=60.0, metadata={"doc": "minimum seconds that a new allocation is expected to last"})
    patience: float = field(
        default=0.5,
        metadata={"doc": "added to `base_s`: this share of how long the job's allocations have lasted so far"},
    )
    min_run: float = field(
        default=30.0, metadata={"doc": "minimum seconds on an allocation before a job is resized or stopped again"}
    )
    frugality: float = field(default=0.5, metadata={"doc": "metric `balanced`: 0 is `speed`, 1 is `cost`"})
    slowdown: float = field(
        default=1.6,
        metadata={
            "doc": "metrics `cost` and `balanced`: maximum ratio of the jobs' total time to that at the price which "
            "other jobs would pay for GPUs; where no other job needs them, half of that excess"
        },
    )
    later_price: float = field(
        default=0.2,
        metadata={
            "doc": "expected price of a GPU once fewer jobs compete for GPUs, relative to the current price (metric "
            "`speed`; at least 0.5 for "
            "a job that does not report its run time). At 1 long jobs don't wait for cheaper GPUs: the last job ends "
            "sooner, but the mean job later"
        },
    )
    deadline_share: float = field(
        default=0.5,
        metadata={
            "doc": "maximum share of all GPUs reserved for jobs that would otherwise miss their deadline; 0: "
            "deadlines are ignored"
        },
    )
    overtaking: float = field(
        default=0.4,
        metadata={
            "doc": "maximum share of all GPUs for rigid jobs that were submitted after the oldest waiting one; beyond "
            "it, that one starts next. 0: strict order of submission"
        },
    )
    low_utility: float = field(
        default=0.35, metadata={"doc": "hosts are powered down until the others' GPUs are used this well"}
    )
    high_utility: float = field(
        default=0.0,
        metadata={"doc": "hosts are powered up above this use; 0: 0.65, or 0.8 with `cost` and `thesis-cost`"},
    )

    def __post_init__(self) -> None:
        if not 0 < self.low_utility < self.scaling.high <= 1:
            raise ValueError(
                f"low_utility ({self.low_utility}) must be above 0 and below high_utility ({self.scaling.high}), and "
                "that at most 1"
            )
        if not self.slowdown >= 1:
            raise ValueError(f"slowdown must be at least 1, not {self.slowdown}")
        if self.base_s < 0 or self.patience < 0 or self.min_run < 0:
            raise ValueError("base_s, patience and min_run must be at least 0")
        if not 0 <= self.frugality <= 1:
            raise ValueError(f"frugality must be 0 to 1, not {self.frugality}")
        if not 0 <= self.later_price <= 1:
            raise ValueError(f"later_price must be 0 to 1, not {self.later_price}")
        if not 0 <= self.overtaking <= 1:
            raise ValueError(f"overtaking must be 0 to 1, not {self.overtaking}")
        if not 0 <= self.deadline_share <= 1:
            raise ValueError(f"deadline_share must be 0 to 1, not {self.deadline_share}")

    @property
    def use_efficiency(self) -> bool:
        return self.metric != "thesis-speed"

    def uses_efficiency_for(self, metric: Metric | None) -> bool:
        return self.objective.uses_efficiency_for(metric)

    @property
    def scaling(self) -> HostScaling:
        of_cost = self.metric in ("cost", "thesis-cost")
        high = self.tuning.high_utility_of_cost if of_cost else self.tuning.high_utility
        return HostScaling(self.low_utility, self.high_utility or high)

    @property
    def objective(self) -> GoodputObjective:
        """Objective that follows from the metric and the parameters."""
        share = {"cost": 1.0, "balanced": self.frugality}.get(self.metric, 0.0)
        return GoodputObjective(
            priced=self.metric in ("speed", "cost", "balanced"),
            price_floor=self.tuning.cost_price * share,
            equal_weights=self.metric.startswith("thesis-"),
            use_efficiency=self.use_efficiency,
            hosts_by_need=self.metric == "cost",
            slowdown=self.slowdown,
            base_s=self.base_s,
            patience=self.patience,
            min_run=self.min_run,
            later_price=self.later_price,
            overtaking=self.overtaking,
            deadline_share=0.0 if self.metric.startswith("thesis-") else self.deadline_share,
            scaling=self.scaling,
            tuning=self.tuning,
        )

    def allocate(self, snapshot: Snapshot) -> Plan:
        if not snapshot.jobs or not snapshot.hosts:
            waiting = {job.id for job in snapshot.jobs if not job.allocation}
            nobody = dict.fromkeys(waiting, Explanation("unsatisfiable_now", "No host answers."))
            return Plan({}, reasons=nobody, desired_hosts=self.scaling.desired(snapshot.hosts, lambda hosts: 0.0))
        # Imported here, so that a service without jobs does not load NumPy.
        from schedulearn.scheduler.policies.goodput.allocate import decide

        return decide(self.objective, snapshot)
