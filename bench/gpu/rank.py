"""One rank of NCCL: adds up tensors of several sizes, and prints what that took. Run by the checks, or by torchrun.

rank.py horovod|torch
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import torch

SIZES = (1 << 20, 1 << 28)
"""Bytes."""
REPEATS = 20


def horovod() -> tuple[int, int, Callable[[torch.Tensor], torch.Tensor]]:
    import horovod.torch as hvd

    hvd.init()
    if not hvd.nccl_built():
        sys.exit("Horovod was built without NCCL")
    torch.cuda.set_device(hvd.local_rank())
    return hvd.rank(), hvd.size(), lambda tensor: hvd.allreduce(tensor, op=hvd.Sum, name="x")


def plain() -> tuple[int, int, Callable[[torch.Tensor], torch.Tensor]]:
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl")

    def add(tensor: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(tensor)
        return tensor

    return dist.get_rank(), dist.get_world_size(), add


def main(how: str) -> None:
    rank, size, add = {"horovod": horovod, "torch": plain}[how]()
    seconds = []
    for count in SIZES:
        ones = torch.ones(count // 4, device="cuda")
        right = bool((add(ones.clone()) == size).all())
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(REPEATS):
            add(ones)
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - began) / REPEATS)
    if rank == 0:
        print("found " + json.dumps({"right": right, "ranks": size, "sizes": SIZES, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
