"""Proof that Horovod works here: run by two workers, who add up their ranks. Fails if they do not meet."""

import horovod.torch as hvd
import torch

hvd.init()
total = hvd.allreduce(torch.tensor(float(hvd.rank() + 1)), op=hvd.Sum).item()
expected = hvd.size() * (hvd.size() + 1) / 2
if hvd.size() < 2 or total != expected:
    raise SystemExit(f"rank {hvd.rank()} of {hvd.size()}: the sum is {total}, not {expected}")
