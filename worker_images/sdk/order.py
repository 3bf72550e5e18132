"""Order of samples, and their distribution among workers.

The order is the same on all workers. Each sample comes once an epoch, for any number of workers. An epoch that takes
more than all samples goes through them again, in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Iterator

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Indices = npt.NDArray[np.int64]


ROUND = 2_654_435_761  # distance between the seeds of an epoch's rounds: far from those of other epochs


@dataclass(frozen=True)
class Pass:
    """Micro-step of one worker: one forward and one backward pass."""

    indices: Indices
    first: bool
    """Whether this is the first micro-step of its step."""
    last: bool
    passes: int
    weight: float
    """Factor of this micro-step's mean gradient.

    The sum over a step's micro-steps, averaged over the workers, then counts each sample equally. This holds even where
    micro-steps or workers have unequal shares."""
    samples: int
    """Samples of the whole step, over all workers and micro-steps."""


def permutation(seed: int, epoch: int, size: int, length: int | None = None) -> Indices:
    """Return the order of an epoch: all `size` indices once, or `length` indices.

    With `length` the indices are the first of as many rounds as needed, each in its own order."""
    rounds = 1 if length is None else max(1, -(-length // size))
    first = seed * 1_000_003 + epoch
    orders = [np.random.RandomState((first + each * ROUND) % (1 << 32)).permutation(size) for each in range(rounds)]
    return np.concatenate(orders)[:length].astype(np.int64)


def step_size(left: int, batch: int, least: int) -> int:
    """Return the samples of the next step.

    The last step takes what is left. No step has fewer than `least` samples."""
    return left if left - batch < least else batch


def steps(
    order: Indices,
    position: int,
    rank: int,
    workers: int,
    batch: int,
    passes: int,
    most: int | None = None,
    least: int | None = None,
) -> Iterator[Pass]:
    """Yield the micro-steps of worker `rank` from `position` of an epoch to its end.

    A step has `batch` samples over all workers, which need not be divisible by their number. `most`: maximum samples of
    a micro-step; the larger last step takes more micro-steps for it. `least`: minimum samples of the last step; None:
    one per worker. With 1, an epoch has as many steps on any number of workers."""
    while position < len(order):
        taken = step_size(len(order) - position, batch, workers if least is None else least)
        yield from _step(order[position : position + taken], rank, workers, passes, most)
        position += taken


def _step(samples: Indices, rank: int, workers: int, passes: int, most: int | None) -> Iterator[Pass]:
    taken = len(samples)
    mine = np.array_split(samples, workers)[rank]
    share = -(-taken // workers)  # of the worker with the maximum share
    passes = max(1, min(passes, share), -(-share // most) if most else 0)
    for index, part in enumerate(np.array_split(mine, passes)):
        weight = workers * len(part) / taken
        # A worker may have fewer samples than the others, or none after a resize near the end of an epoch. It takes
        # part with one sample of weight 0.
        yield Pass(part if len(part) else samples[:1], index == 0, index == passes - 1, passes, weight, taken)
