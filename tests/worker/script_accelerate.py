"""Trains on digits by a loop with Accelerate; see adapted.py."""

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from adapted import args, finish, network, rate, saw, train
from script_ddp import accuracy_of
from torch.utils.data import DataLoader

accelerator = Accelerator(cpu=True)
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
steps = args.epochs * -(-len(train) // 64)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step / steps))
loader = DataLoader(train, batch_size=64, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
epochs, done = range(args.epochs), 0
if not args.plain:
    import schedulearn.worker.accelerate as worker

    run, loader = worker.adapt(accelerator, loader, seed=args.seed, model=model, optimizer=optimizer, schedule=schedule)
    epochs = run.epochs(args.epochs)
for epoch in epochs:
    for x, y, index in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        accelerator.backward(loss)
        done = done + 1 if args.plain else run.step + 1
        saw(epoch, done - 1, index, loss)
        optimizer.step()
        schedule.step()
    accelerator.log({"loss": loss.item(), "accuracy": accuracy_of(model)})
finish(accelerator.unwrap_model(model), args.epochs, done)
