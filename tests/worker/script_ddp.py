"""Trains on digits by a loop of its own with DistributedDataParallel; see adapted.py."""

import torch
import torch.nn.functional as F
from adapted import args, finish, network, pixels, rate, saw, test, train
from torch.utils.data import DataLoader


def accuracy_of(net):
    x, y, _ = test.tensors
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


def train_plainly(net, optimizer):
    loader, step = DataLoader(train, batch_size=64, shuffle=True), 0
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step / (args.epochs * len(loader))))
    for epoch in range(args.epochs):
        for x, y, index in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            saw(epoch, step, index, loss)
            optimizer.step()
            schedule.step()
            step += 1
    finish(net, args.epochs, step)


def train_with_sdk(net, optimizer):
    import schedulearn.worker.torch as worker

    run = worker.Run(batch_size=64, seed=args.seed)
    loader = run.loader(train)
    optimizer = run.optimizer(optimizer, net)
    steps = args.epochs * -(-len(train) // 64)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step / steps))
    for epoch in run.epochs(args.epochs, model=net, schedule=schedule):
        for x, y, index in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            saw(epoch, run.step, index, loss)
            optimizer.step()
            schedule.step()
        run.log(loss=loss.item(), accuracy=accuracy_of(net))
    return run


def main(wrap):
    net = network()
    if args.plain:
        train_plainly(net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))
        return
    torch.distributed.init_process_group("gloo")
    wrapped = wrap(net)
    run = train_with_sdk(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1, momentum=0.9))
    assert wrapped(pixels[:2]).shape == (2, 10)
    finish(wrapped, run.epoch, run.step)


if __name__ == "__main__":
    main(torch.nn.parallel.DistributedDataParallel)
