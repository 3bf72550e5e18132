"""Proof that Horovod works here: run by two workers, who add up their ranks. Fails if they do not meet.

check.py torch|tensorflow|mxnet
"""

import importlib
import sys

framework = sys.argv[1]
hvd = importlib.import_module("horovod." + framework)
hvd.init()
mine = float(hvd.rank() + 1)
if framework == "torch":
    import torch

    total = hvd.allreduce(torch.tensor(mine), op=hvd.Sum).item()
elif framework == "tensorflow":
    import tensorflow

    total = hvd.allreduce(tensorflow.constant(mine), op=hvd.Sum).numpy()
else:
    import mxnet

    total = hvd.allreduce(mxnet.nd.array([mine]), op=hvd.Sum).asscalar()
expected = hvd.size() * (hvd.size() + 1) / 2
if hvd.size() < 2 or total != expected:
    raise SystemExit(f"rank {hvd.rank()} of {hvd.size()}: the sum is {total}, not {expected}")
