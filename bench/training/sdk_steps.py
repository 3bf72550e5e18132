"""Steps of about 50 ms with and without the worker SDK, in turns, by Horovod workers; rank 0 prints the times of both
and their ratio: of each round the one block over the other, and the mean of the middle half of the rounds, since a
machine's pace changes within seconds by more than what is looked for. How far that can be trusted says the control: the
same for two blocks without the SDK.

Run by bench/training/sdk.py in the environment of local jobs.
"""

import json
import statistics
import time

import horovod.torch as hvd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import schedulearn.worker.torch as worker

STEP_S = 0.05
ROUNDS, BLOCK = 96, 8

hvd.init()
torch.set_num_threads(1)
data = TensorDataset(torch.randn(1 << 16, 256), torch.randint(10, (1 << 16,)))
spare = torch.randn(256, 256)


def model():
    torch.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(256, 10))  # half a million parameters, as 18 tensors


def work(net, optimizer, loader, repeats):
    """Yields the seconds of each step."""
    while True:
        began = time.perf_counter()
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            for _ in range(repeats):
                spare @ spare
            loss.backward()
            optimizer.step()
            yield time.perf_counter() - began
            began = time.perf_counter()


for _ in range(200):
    spare @ spare  # warms up
began = time.perf_counter()
for _ in range(200):
    spare @ spare
repeats = int(hvd.broadcast_object(max(1, round(0.85 * STEP_S / ((time.perf_counter() - began) / 200)))))

plain_net, sdk_net = model(), model()
plain_optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(plain_net.parameters(), lr=0.01),
    named_parameters=[(f"plain.{name}", p) for name, p in plain_net.named_parameters()],
)
sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
plain = work(plain_net, plain_optimizer, DataLoader(data, 32, sampler=sampler), repeats)

run = worker.Run(32 * hvd.size())
sdk_loader = run.loader(data)
sdk_optimizer = run.optimizer(torch.optim.SGD(sdk_net.parameters(), lr=0.01), sdk_net)
epochs = run.epochs(1, model=sdk_net)
next(epochs)
sdk = work(sdk_net, sdk_optimizer, sdk_loader, repeats)

times = {"plain": [], "sdk": [], "control": []}  # of each round, seconds of a step
order = [("plain", plain), ("sdk", sdk), ("control", plain)]
for round_number in range(ROUNDS + 2):
    for name, steps in order[:: 1 if round_number % 2 else -1]:
        block = [next(steps) for _ in range(BLOCK)]
        if round_number >= 2:
            times[name].append(statistics.fmean(block[1:]))  # the first of a block pays for the change


def middle(values):
    return statistics.fmean(sorted(values)[len(values) // 4 : len(values) * 3 // 4])


if hvd.rank() == 0:
    rounds = list(zip(times["plain"], times["sdk"], times["control"], strict=True))
    found = {name: middle(seconds) for name, seconds in times.items()}
    # The SDK's block lies between the two others: what drifts from one to the other cancels.
    found["ratio"] = middle([2 * sdk / (before + after) for before, sdk, after in rounds])
    found["control_ratio"] = middle([before / after for before, _, after in rounds])
    print(json.dumps(found), flush=True)
