"""ResNet-18 of train.py with Schedulearn's worker SDK, under torchrun."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from train import ResNet18, arguments, images, setup

import schedulearn.worker.torch as worker


def main():
    args = arguments()
    device = setup()
    run = worker.Run(args.batch_size, args.max_batch, min_local=4)
    loader = run.loader(images(args.samples))
    model = ResNet18(args.width).to(device)
    if dist.is_initialized():
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    optimizer = run.optimizer(optimizer, model)
    for epoch in run.epochs(args.epochs, model=model):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
        run.log(loss=loss.item())
        if run.workers.rank == 0:
            print(f"epoch {epoch + 1}/{args.epochs}: loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
