"""The example `digits` with the worker SDK, whose workers meet by Horovod, by torchrun, or not at all."""

import sys
import time

import torch
import torch.nn.functional as F
from device import Device
from options import read_options
from torch import nn

strategy = sys.argv.pop(1)
args = read_options("digits")

from train import Net, load_data  # noqa: E402  (it imports Horovod)

import schedulearn.worker.torch as worker  # noqa: E402


def main():
    if strategy == "torchrun":
        torch.distributed.init_process_group("gloo")
        rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    else:
        import horovod.torch as hvd

        hvd.init()
        rank, size = hvd.rank(), hvd.size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    run = worker.Run(args.batch_size, min_local=4)
    device = Device(rank)
    loader = run.loader(torch.utils.data.Subset(load_data()[0], range(args.samples)))
    model = Net(image_size=8)
    net = nn.parallel.DistributedDataParallel(model) if strategy == "torchrun" else model
    if strategy != "torchrun":
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), net)
    for epoch in run.epochs(args.epochs, model=model):
        began = time.time()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images), labels)
            device.work(len(images))
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch + 1} began {began} ended {time.time()} workers {size}", flush=True)
    if strategy == "torchrun":
        torch.distributed.destroy_process_group()  # PyTorch asks for it


if __name__ == "__main__":
    main()
