"""Goodput: useful training progress a second, throughput x statistical efficiency (Pollux, OSDI 2021, eq. 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class GoodputFunction(Protocol):
    """The best goodput of one job, over its batch sizes, for each of a number of allocations."""

    def __call__(
        self, num_nodes: npt.ArrayLike, num_gpus: npt.ArrayLike, gpu_type: str | None = None
    ) -> npt.NDArray[np.float64]:
        """`num_nodes` and `num_gpus`: arrays of equal shape. Returns samples a second, of the same shape."""
        ...
