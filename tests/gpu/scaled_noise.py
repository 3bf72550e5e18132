"""The gradient noise of two workers of DistributedDataParallel, with and without a gradient scaler: both must agree."""

import json
import os

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import schedulearn.worker.torch as worker
from schedulearn.worker import instruments
from schedulearn.worker.torch.noise import TorchNoiseMeter

os.environ["SCHEDULEARN_JOB_ID"] = "j"
torch.distributed.init_process_group("gloo")
TorchNoiseMeter.due = property(lambda self: True)  # type: ignore[assignment]  # each step, whatever it costs
instruments.QUICK_S = 0.0  # else the last step's measurement comes too late, or not, by how busy this machine is
data = TensorDataset(torch.randn(640, 8, generator=torch.Generator().manual_seed(1)), torch.arange(640) % 2)


def noise(scaled: bool) -> list[float]:
    torch.manual_seed(0)
    model = nn.Linear(8, 2)
    net = nn.parallel.DistributedDataParallel(model)
    run = worker.Run(32)
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1), net)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000, enabled=scaled)
    loader = run.loader(data)
    for _ in run.epochs(2, model=model):
        for x, y in loader:
            optimizer.zero_grad()
            scaler.scale(F.cross_entropy(net(x), y)).backward()
            scaler.step(optimizer)
            scaler.update()
    found = run.instruments.meter.noise
    return [found.measured, found.var_mean / found.sqr_mean]


plain, scaled = noise(False), noise(True)
if torch.distributed.get_rank() == 0:
    print("found " + json.dumps({"plain": plain, "scaled": scaled}), flush=True)
torch.distributed.destroy_process_group()
