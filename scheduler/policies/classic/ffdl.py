"""Optimiser of FfDL, as a policy.

Source: Saxena et al., Effective elastic scaling of deep learning workloads, MASCOTS 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.elastic import Claim, Damping, allocate_shares, give_least
from schedulearn.scheduler.policies.classic.queueing import BY_SUBMISSION


@dataclass(frozen=True)
class FfDL(Damping, Policy):
    """The shares with the largest total speedup, by a dynamic programme over jobs: P(j, k) = max over g of
    speedup_j(g) + P(j - 1, k - g) (section V of the paper). Jobs are admitted in the order of submission while all
    admitted ones can have their least size, and stay until they end; there is no notion of length or fairness."""

    name: ClassVar[str] = "ffdl"
    resizes: ClassVar[bool] = True

    def allocate(self, snapshot: Snapshot) -> Plan:
        return allocate_shares(snapshot, BY_SUBMISSION, self, _share_out, lambda job: True)


def _share_out(claims: list[Claim], gpus: int) -> None:
    running = [claim for claim in claims if claim.job.allocation]
    waiting = [claim for claim in claims if not claim.job.allocation]
    left = give_least(running, gpus)
    for claim in waiting:
        if claim.least > left:
            break  # first in, first out
        claim.step = 0
        left -= claim.least
    maximise([claim for claim in claims if claim.step == 0], left)


def maximise(claims: list[Claim], extra: int) -> None:
    """Raise claims from their minimum size to the sizes with the maximum sum of speedups.

    These sizes take at most `extra` more GPUs. Among equal solutions, the one that gives later claims less is chosen.
    """
    import numpy as np  # here, so that a service with another policy starts without it

    best = np.zeros(extra + 1)  # best[k]: gain of the claims so far by k GPUs above their minimum
    choices = []
    for claim in claims:
        more = [size - claim.least for size in claim.sizes]
        now, choice = best.copy(), np.zeros(extra + 1, dtype=np.int16)
        for step in range(1, len(more)):
            if more[step] > extra:
                break
            tried = best[: extra + 1 - more[step]] + (claim.speedups[step] - claim.speedups[0])
            better = tried > now[more[step] :] + 1e-12
            now[more[step] :][better] = tried[better]
            choice[more[step] :][better] = step
        best = now
        choices.append(choice)
    left = extra
    for claim, choice in zip(reversed(claims), reversed(choices), strict=True):
        claim.step = int(choice[left])
        left -= claim.share - claim.least
