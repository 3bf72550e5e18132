"""Communication between the workers of a job, besides gradients."""

from __future__ import annotations

from typing import Any, Callable, List

Finish = Callable[[], List[float]]


class Alone:
    """One process."""

    name = "alone"
    rank, size, local_rank = 0, 1, 0

    def sum(self, values: list[float]) -> Finish:
        """Start adding up the workers' `values`, elementwise. The returned function waits for the sums."""
        return lambda: values

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's `value` on all workers. It should be small: it is pickled."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """Return all workers' values, by rank, on all workers."""
        return [value]


class HorovodWorkers(Alone):
    """Workers that communicate by Horovod. `hvd` is the framework's Horovod module, initialized."""

    name = "horovod"

    def __init__(self, hvd: Any) -> None:
        self.hvd = hvd
        self.rank, self.size, self.local_rank = hvd.rank(), hvd.size(), hvd.local_rank()

    def broadcast(self, value: Any) -> Any:
        return self.hvd.broadcast_object(value, root_rank=0, name="schedulearn.object")

    def gather(self, value: Any) -> list[Any]:
        return list(self.hvd.allgather_object(value, name="schedulearn.gather"))
