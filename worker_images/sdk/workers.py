"""The workers of one job: what they tell each other besides gradients, whichever framework they use."""

from __future__ import annotations

from typing import Any, Callable, List

Finish = Callable[[], List[float]]


class Alone:
    """One process."""

    name = "alone"
    rank, size, local_rank = 0, 1, 0

    def sum(self, values: list[float]) -> Finish:
        """Starts adding up the workers' `values`, elementwise. The result waits for the sums."""
        return lambda: values

    def broadcast(self, value: Any) -> Any:
        """Rank 0's `value`, everywhere. Small ones: it is pickled."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """All workers' values, by rank, everywhere."""
        return [value]


class HorovodWorkers(Alone):
    """`hvd` is the framework's part of Horovod, initialised."""

    name = "horovod"

    def __init__(self, hvd: Any) -> None:
        self.hvd = hvd
        self.rank, self.size, self.local_rank = hvd.rank(), hvd.size(), hvd.local_rank()

    def broadcast(self, value: Any) -> Any:
        return self.hvd.broadcast_object(value, root_rank=0, name="schedulearn.object")

    def gather(self, value: Any) -> list[Any]:
        return list(self.hvd.allgather_object(value, name="schedulearn.gather"))
