"""Conditions of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedulearn.metrics.model.goodput import KEEP_FACTOR, SAFE_EFFICIENCY
from schedulearn.scheduler.core.host_scaling import ScalingRule


@dataclass(frozen=True)
class Conditions:
    """Behaviour of the cluster. The defaults match this service; `POLLUX` matches what OSDI 2021 simulated."""

    interval: float = 60.0
    """Seconds between decisions."""
    on_events: bool = True
    """Whether arrivals, ends and new profiles also bring a decision, as in the service."""
    gap: float = 0.0
    """Minimum seconds between two decisions."""
    cold_start: float = 10.0
    """Seconds from a job's first GPUs to its first step."""
    stall_up: float = 5.0
    """Seconds without training when a job grows, moves or comes back."""
    stall_down: float = 1.0
    """Seconds without training when a job gives up some of its GPUs."""
    learn_after: float = 30.0
    """Seconds of training after which an allocation is measured."""
    family_memory: bool = True
    """Whether jobs of one application share what was learned."""
    alone_passes: int = 1
    """Minimum micro-steps of a batch above the initial one on a single GPU; AdaptDL makes two."""
    keep_factor: float = KEEP_FACTOR
    """A job changes its batch only for one that is better by more than this factor."""
    careful_batches: bool = True
    """Whether workers change batches by the SDK's rule (`metrics/model/batch_rule.py`); else at once to the best."""
    least_efficiency: float = SAFE_EFFICIENCY
    """For that rule: minimum worth of a sample in a larger batch, relative to one in the first."""
    sure_noise: float = 0.8
    """For that rule: share of the noise scale that workers are sure of, which is two standard errors less than its
    estimate. The value is a choice: simulated gradients have 0.6 to 0.99, the example `digits` 0.5 to 0.7."""
    batches_on_ticks: bool = False
    """Whether workers choose their batches only every `interval` and at the end of an epoch, not after each
    measurement."""
    lengths: str = "unknown"
    """`declared`: jobs report their work; `predicted`: it is the mean of the family; `unknown`."""
    length_error: float = 1.0
    """Declared work is wrong by up to this factor, either way."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """GPU type -> how many times as fast as the reference it computes; 1 where not named."""
    sharing: float = 1.0
    """Total speed of jobs that share a GPU, relative to one job alone."""
    interference: float = 0.0
    """Share of its pace that a job on several hosts loses while another such job is on one of them."""
    seed: int = 0
    scaling: bool = False
    """Whether hosts are switched off and on as the policy wants, or the jobs need."""
    least_hosts: int = 1
    most_hosts: int | None = None
    initial_hosts: int | None = None
    scale_target: float | None = None
    """The last four are those of `ScalingRule`."""
    always_on: tuple[str, ...] = ()
    """Machines that are never switched off."""
    scale_window: float = 600.0
    """Scale-down stabilization window, seconds."""
    boot: float = 180.0
    """Seconds from switching a host on until it is up."""

    @property
    def efficiency_needed(self) -> float:
        """Minimum efficiency of a batch, by the workers' rule."""
        return self.least_efficiency if self.careful_batches else 0.0

    @property
    def noise_believed(self) -> float:
        """Share of the noise scale that workers use."""
        return self.sure_noise if self.careful_batches else 1.0

    @property
    def scaling_rule(self) -> ScalingRule:
        return ScalingRule(self.least_hosts, self.most_hosts, self.initial_hosts, self.scale_target)


POLLUX = Conditions(
    on_events=False, cold_start=30.0, stall_up=30.0, stall_down=30.0, family_memory=False,
    alone_passes=2, keep_factor=1.0, batches_on_ticks=True, learn_after=0.0,
    careful_batches=False,
)  # fmt: skip
"""Pollux, OSDI 2021, section 5.3: a decision per minute, 30 seconds per restart, nothing known of new jobs."""
