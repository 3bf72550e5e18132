"""Which samples come when, and to which worker: the same everywhere, each once an epoch, for any number of workers. An
epoch that takes more than all samples goes through them again, in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Iterator

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Indices = npt.NDArray[np.int64]


ROUND = 2_654_435_761  # between the seeds of an epoch's rounds: far from those of other epochs


@dataclass(frozen=True)
class Pass:
    """What one worker computes in one forward and backward pass."""

    indices: Indices
    first: bool
    """Of the passes of a step."""
    last: bool
    passes: int
    weight: float
    """Factor of this pass's mean gradient. The sum over a step's passes, averaged over the workers, then counts each
    sample the same, also where passes or workers have unequal shares."""
    samples: int
    """Of the whole step, over all workers and passes."""


def permutation(seed: int, epoch: int, size: int, length: int | None = None) -> Indices:
    """The order of an epoch: all `size` indices once, or the first `length` of as many rounds as that takes, each in an
    order of its own."""
    rounds = 1 if length is None else max(1, -(-length // size))
    first = seed * 1_000_003 + epoch
    orders = [np.random.RandomState((first + each * ROUND) % (1 << 32)).permutation(size) for each in range(rounds)]
    return np.concatenate(orders)[:length].astype(np.int64)


def step_size(left: int, batch: int, workers: int) -> int:
    """Samples of the next step. The last one takes what is left; less than a sample a worker never is."""
    return left if left - batch < workers else batch


def steps(
    order: Indices, position: int, rank: int, workers: int, batch: int, passes: int, most: int | None = None
) -> Iterator[Pass]:
    """The passes of worker `rank` from `position` of an epoch to its end, in steps of `batch` samples over all workers,
    which need not divide by their number. `most`: samples of a pass; the larger last step takes more passes for it."""
    while position < len(order):
        taken = step_size(len(order) - position, batch, workers)
        yield from _step(order[position : position + taken], rank, workers, passes, most)
        position += taken


def _step(samples: Indices, rank: int, workers: int, passes: int, most: int | None) -> Iterator[Pass]:
    taken = len(samples)
    mine = np.array_split(samples, workers)[rank]
    share = -(-taken // workers)  # of the worker that has most
    passes = max(1, min(passes, share), -(-share // most) if most else 0)
    for index, part in enumerate(np.array_split(mine, passes)):
        weight = workers * len(part) / taken
        # A worker that has fewer than the others, or none after a resize near the end of an epoch, joins in for them.
        yield Pass(part if len(part) else samples[:1], index == 0, index == passes - 1, passes, weight, taken)
