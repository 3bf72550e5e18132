"""Communication between the workers of a PyTorch job, besides gradients.

It does not depend on how the workers were launched.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from typing import Any, Callable

import torch

from schedulearn.worker.workers import Alone, Finish, HorovodWorkers

SETTLE_S = 2.0  # maximum wait for messages under way when the process ends: the others may be gone


class TorchHorovodWorkers(HorovodWorkers):
    def __init__(self) -> None:
        import horovod.torch as hvd

        super().__init__(hvd)
        of = hvd.mpi_ops  # not what `pretend` says
        self.rank, self.size, self.local_rank = of.rank(), of.size(), of.local_rank()

    def sum(self, values: list[float]) -> Finish:
        tensor = torch.tensor(values, dtype=torch.float64)
        # Asynchronous, and small: Horovod sends it along with the gradients.
        handle = self.hvd.allreduce_async(tensor, name="schedulearn.control", op=self.hvd.Sum)
        return lambda: list(self.hvd.synchronize(handle).tolist())


def joined() -> TorchHorovodWorkers:
    """Join the workers that the current environment names, in place of the previous ones.

    It takes a fraction of a second."""
    import horovod.torch as hvd

    hvd.shutdown()
    hvd.init()
    return TorchHorovodWorkers()


def leave() -> None:
    """Leave the other workers, which go on without this one.

    All of them call this or `joined` at the same step."""
    import horovod.torch as hvd

    hvd.shutdown()


def pretend(rank: int, size: int) -> None:
    """Make Horovod report the future rank and size to a script that has not joined the others yet."""
    import horovod.torch as hvd

    hvd.rank, hvd.size = (lambda: rank), (lambda: size)


def pretend_no_more() -> None:
    import horovod.torch as hvd

    hvd.rank, hvd.size = hvd.mpi_ops.rank, hvd.mpi_ops.size


def end_when_others_are_lost(code: int) -> None:
    """Exit with `code` if the other workers are lost, to tell that from a failure of the script."""
    from horovod.common.exceptions import HorovodInternalError

    before = sys.excepthook

    def hook(kind: Any, error: Any, trace: Any) -> None:
        before(kind, error, trace)
        if issubclass(kind, HorovodInternalError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    sys.excepthook = hook


class TorchWorkers(Alone):
    name = "torchrun"

    def __init__(self) -> None:
        import torch.distributed as dist

        self.dist = dist
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        # A separate group: its messages don't delay gradients, and NCCL can't send what is in plain memory.
        self.group = dist.new_group(backend="gloo")
        self._message: Any = None
        """Newest message, which may be under way."""
        self._callbacks: weakref.WeakSet[Any] = weakref.WeakSet()
        """Callbacks that Gloo's threads hold."""
        atexit.register(self.settle)

    def settle(self) -> None:
        """Wait until no thread of Gloo needs Python any more.

        A thread that needs Python while Python ends is made to exit. This aborts the process: "terminate called without
        an active exception"."""
        until = time.monotonic() + SETTLE_S
        while self._callbacks or not (self._message is None or self._message.is_completed()):
            if time.monotonic() > until:
                return
            time.sleep(0.001)

    def average(self, tensor: Any, group: Any, then: Callable[[], None] | None = None) -> Any:
        """Return a future of the workers' mean of `tensor`, in its place.

        Another thread calls `then` before the future is done."""

        def averaged(future: Any) -> Any:
            if then is not None:
                then()
            return future.value()[0]

        self._callbacks.add(averaged)
        tensor.div_(group.size())
        return self.dist.all_reduce(tensor, group=group, async_op=True).get_future().then(averaged)

    def sum(self, values: list[float]) -> Finish:
        tensor = torch.tensor(values, dtype=torch.float64)
        self._message = work = self.dist.all_reduce(tensor, group=self.group, async_op=True)

        def finish() -> list[float]:
            work.wait()
            return list(tensor.tolist())

        return finish

    def broadcast(self, value: Any) -> Any:
        box = [value]
        self.dist.broadcast_object_list(box, src=0, group=self.group)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.size
        self.dist.all_gather_object(found, value, group=self.group)
        return found


def find_workers() -> Alone:
    """Return the workers by what the script has initialized: Horovod, torch.distributed, or neither."""
    hvd = sys.modules.get("horovod.torch")
    if hvd is not None and hvd.is_initialized():
        return TorchHorovodWorkers()
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        return TorchWorkers()
    return Alone()
