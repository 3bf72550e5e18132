"""The example `digits` with the worker SDK, on so many samples, with the device of `device.py`."""

import time

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from device import Device
from options import read_options
from torch.utils.data import Subset

args = read_options("digits")

from train import Net, evaluate, load_data  # noqa: E402

import schedulearn.worker.torch as worker  # noqa: E402


def main():
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    train, test = load_data()
    run = worker.Run(args.batch_size, min_local=4)
    device = Device(hvd.local_rank())
    loader = run.loader(Subset(train, range(min(args.samples, len(train)))))
    model = Net(image_size=8)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), model)
    for epoch in run.epochs(args.epochs, model=model):
        began = time.time()
        model.train()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            device.work(len(images))
            loss.backward()
            optimizer.step()
        accuracy = evaluate(model, test, torch.device("cpu"))
        run.log(loss=loss.item(), accuracy=accuracy)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1} began {began} ended {time.time()} workers {hvd.size()}", flush=True)
    if hvd.rank() == 0:
        print(f"final test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
