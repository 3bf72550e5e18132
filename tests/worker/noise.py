"""Compares the SDK's noise scale with one from each sample's own gradient, at fixed weights. Prints both as JSON.

noise.py horovod|torchrun|alone BATCH
"""

import json
import sys

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import schedulearn.worker.torch as worker
from schedulearn.worker.batch import noise_meter

noise_meter.BUDGET = 1e9  # measure every step: time is not what this is about
kind, batch = sys.argv[1], int(sys.argv[2])
if kind == "horovod":
    import horovod.torch as hvd

    hvd.init()
elif kind == "torchrun":
    torch.distributed.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(0)
digits = load_digits()
data = TensorDataset(torch.from_numpy(digits.images).float().flatten(1) / 16, torch.from_numpy(digits.target).long())
model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
warm = torch.optim.SGD(model.parameters(), lr=0.1)
for start in range(0, 1600, 32):  # not at the very beginning, where all gradients agree
    warm.zero_grad()
    F.cross_entropy(model(data[start : start + 32][0]), data[start : start + 32][1]).backward()
    warm.step()

net = nn.parallel.DistributedDataParallel(model) if kind == "torchrun" else model
run = worker.Run(batch)
loader = run.loader(data)
optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.0), net)
for _ in run.epochs(12):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

if run.workers.rank == 0:
    x, y = data.tensors
    gradients = []
    for index in range(len(x)):
        parts = torch.autograd.grad(
            F.cross_entropy(model(x[index : index + 1]), y[index : index + 1]), model.parameters()
        )
        gradients.append(torch.cat([part.flatten() for part in parts]))
    every = torch.stack(gradients).double()
    mean = every.mean(0)
    offline = ((every - mean).pow(2).sum(1).mean() / mean.pow(2).sum()).item()
    print(json.dumps({"measured": run.instruments.meter.phi, "offline": offline, "workers": run.workers.size}))
