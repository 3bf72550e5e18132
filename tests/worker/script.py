"""Trains on real digits with the SDK, and writes down which sample each worker saw in which step: what tests look at.

script.py horovod|torchrun OUT [--epochs N] [--max-batch M] [--pause S] [--seed S]

It pauses after each step, until there is a file `hurry` in OUT.
"""

import argparse
import json
import os
import time

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import schedulearn.worker.torch as worker

parser = argparse.ArgumentParser()
parser.add_argument("kind")
parser.add_argument("out")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--max-batch", type=int)
parser.add_argument("--max-local", type=int)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--pause-per-sample", type=float, default=0.0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--num-workers", type=int, default=0, help="processes of each loader")
parser.add_argument("--ballast", type=int, default=0, help="MB more in each checkpoint")
args = parser.parse_args()

torch.set_num_threads(1)
rank = 0
if args.kind == "horovod":
    import horovod.torch as hvd

    hvd.init()
    rank = hvd.rank()
elif args.kind == "torchrun":
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
torch.manual_seed(args.seed)

digits = load_digits()
pixels = torch.from_numpy(digits.images).float().flatten(1) / 16
labels = torch.from_numpy(digits.target).long()
train = TensorDataset(pixels[:1437], labels[:1437], torch.arange(1437))


class Ballast:
    def state_dict(self):
        return {"ballast": torch.zeros(args.ballast << 18)}

    def load_state_dict(self, state):
        assert len(state["ballast"]) == args.ballast << 18


model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
net = nn.parallel.DistributedDataParallel(model) if args.kind == "torchrun" else model

run = worker.Run(args.batch, args.max_batch, max_local=args.max_local, seed=args.seed)
loader = run.loader(train, num_workers=args.num_workers)
optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=args.momentum), net)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: max(0.05, 1 - run.fraction))
attempt = os.environ.get("SCHEDULEARN_ATTEMPT", "0")
with open(os.path.join(args.out, f"seen-{attempt}-{rank}.jsonl"), "a", buffering=1) as seen:
    for epoch in run.epochs(args.epochs, model=model, schedule=schedule, ballast=Ballast()):
        for x, y, index in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            schedule.step()
            if not os.path.exists(os.path.join(args.out, "hurry")):
                time.sleep(args.pause + args.pause_per_sample * len(x))  # a slower machine
            line = {"epoch": epoch, "step": run.step, "seen": index.tolist(), "loss": loss.item(), "at": time.time()}
            line.update({"size": run.workers.size, "weight": run.current.weight, "total": run.batch.total})
            seen.write(json.dumps(line) + "\n")
        model.eval()
        with torch.no_grad():
            accuracy = (model(pixels[1437:]).argmax(1) == labels[1437:]).float().mean().item()
        model.train()
        run.log(loss=loss.item(), accuracy=accuracy)
        if rank == 0:
            weights = sum(p.abs().sum().item() for p in model.parameters())
            print(f"epoch {epoch} accuracy {accuracy:.4f} weights {weights:.6f}", flush=True)
if rank == 0:
    print(f"final accuracy {accuracy:.4f}", flush=True)
