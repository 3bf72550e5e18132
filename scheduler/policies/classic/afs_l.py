"""AFS-L policy: apathetic future share, with job lengths.

Source: Hwang et al., Elastic Resource Sharing for Distributed Deep Learning, NSDI 2021, section 4.2 and algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.policies.classic.elastic import Claim, Damping, allocate_shares
from schedulearn.scheduler.policies.classic.queueing import BY_SUBMISSION
from schedulearn.scheduler.policies.classic.rearranging import length


@dataclass(frozen=True)
class AfsL(Damping, Policy):
    """Each next GPU goes to the job that saves more time by it, until all are given out.

    Two jobs are compared as if their shares stayed the same until the shorter one, a, ends. The GPU goes to the longer
    one, b, only if (p_b' - p_b) / p_b' > (p_a' - p_a) / p_a. Here p is the speedup now, and p' that with the next GPU.
    The shorter job is the one with less remaining work per speedup. A job without a GPU counts as the longer one. If
    neither job has a GPU, the one with less work comes first. A tie goes to the shorter job. Short jobs therefore get
    their GPUs first; among equally long jobs, those that scale better do. Remaining work is estimated as in `srtf`.
    """

    name: ClassVar[str] = "afs-l"
    resizes: ClassVar[bool] = True

    def allocate(self, snapshot: Snapshot) -> Plan:
        return allocate_shares(snapshot, BY_SUBMISSION, self, _share_out)


def _share_out(claims: list[Claim], gpus: int) -> None:
    """Share out GPUs by a knock-out tournament.

    A step changes one claim, so only the matches of that claim are played again.
    """
    rounds: list[list[Claim | None]] = [list(claims)]
    while len(rounds[-1]) > 1:
        last = rounds[-1]
        rounds.append([winner(*last[i : i + 2]) if i + 1 < len(last) else last[i] for i in range(0, len(last), 2)])
    place = {id(claim): index for index, claim in enumerate(claims)}
    while gpus > 0 and (best := rounds[-1][0] if claims else None) is not None:
        index = place[id(best)]
        more = best.next_gpus
        if more is not None and more <= gpus:
            best.step += 1
            gpus -= more
        else:
            rounds[0][index] = None  # it can't use any more, or there are too few for its next size
        for level, above in pairwise(rounds):
            index //= 2
            pair = level[2 * index : 2 * index + 2]
            above[index] = winner(*pair) if len(pair) == 2 else pair[0]


def winner(one: Claim | None, other: Claim | None) -> Claim | None:
    """Return the claim that gets the next GPU. None stands for no claim."""
    if one is None or other is None:
        return other if one is None else one
    if one.step < 0 and other.step < 0:
        return one if length(one.job) <= length(other.job) else other
    if one.step < 0 or other.step < 0:  # a job without a GPU never ends
        shorter, longer = (other, one) if one.step < 0 else (one, other)
    else:
        first = length(one.job) / one.speedup <= length(other.job) / other.speedup
        shorter, longer = (one, other) if first else (other, one)
    return longer if longer.gain / _next_speedup(longer) > shorter.gain / shorter.speedup else shorter


def _next_speedup(claim: Claim) -> float:
    return claim.speedups[min(claim.step + 1, len(claim.speedups) - 1)]
