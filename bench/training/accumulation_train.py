"""Trains an example once, clipped, by plain PyTorch or by the SDK, and prints its final accuracy as JSON.

accumulation_train.py EXAMPLE MAX_LOCAL EPOCHS STOP_AT SEED

MAX_LOCAL 0: plain PyTorch in single precision, one pass a step. Else a job of the SDK in bfloat16 with a GradScaler,
in steps of several passes, which ends with a checkpoint after STOP_AT steps. Run by bench/training/accumulation.py.
"""

import json
import os
import sys

import accuracy_train as common
import torch
from torch.utils.data import DataLoader

import schedulearn.worker.torch as worker
from schedulearn.worker.batch import noise_meter

noise_meter.BUDGET = 0.005
OPTIMIZERS = {"digits": "momentum", "text": "adam"}
CLIP = 0.5
EXAMPLES = {"digits": common.Digits, "text": common.Text}


def main():
    name, max_local, epochs, stop_at, seed = sys.argv[1], *map(int, sys.argv[2:])
    torch.manual_seed(seed)
    example = EXAMPLES[name]()
    model = example.model()
    optimizer = common._optimizer(OPTIMIZERS[name], model.parameters())
    if max_local:
        run = worker.Run(common.BATCH, max_local=max_local, seed=seed)
        loader = run.loader(example.train)
        if run.workers.size > 1:
            common.hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = run.optimizer(optimizer, model)
        scaler = torch.amp.GradScaler("cpu", growth_interval=100)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1 - 0.95 * run.fraction)
        numbers = run.epochs(epochs, model=model, scaler=scaler, schedule=schedule)
    else:
        loader = DataLoader(example.train, common.BATCH, shuffle=True)
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        steps = epochs * len(loader)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - 0.95 * step / steps)
        numbers = range(epochs)
    for _ in numbers:
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=bool(max_local)):
                loss = example.loss(model, x, y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            if max_local and run.step >= stop_at:
                run.stopping = True
    model.eval()
    with torch.no_grad():
        accuracy = example.accuracy(model)
    if os.environ.get("HOROVOD_RANK", "0") == "0":
        print(json.dumps({"accuracy": accuracy}), flush=True)


main()
