"""The network of the thesis on digits of 28 x 28 pixels: scikit-learn's, enlarged, or MNIST where MNIST_PATH names it.

Two convolutions of 32 and 64, dense layers of 9216 x 128 and 128 x 10, Adadelta with a learning rate of 0.7 that falls
by 0.7 an epoch, as in PyTorch's example of MNIST on which the thesis rests.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[3] / "worker_images/examples/digits"))

from train import load_data

import schedulearn.worker.torch as worker

SIDE = 28


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.dense1, self.dense2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = self.dropout1(x).flatten(1)
        return self.dense2(self.dropout2(F.relu(self.dense1(x))))


def enlarged(data, most):
    images, labels = data.tensors
    if images.shape[-1] != SIDE:
        images = F.interpolate(images, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
    return TensorDataset(images[:most], labels[:most])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-batch", type=int, default=128)
    parser.add_argument("--samples", type=int, default=1_000_000, help="at most, of an epoch")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    train, test = (enlarged(data, args.samples) for data in load_data())
    run = worker.Run(args.batch_size, args.max_batch, min_local=4, seed=args.seed)
    loader = run.loader(train)
    model = Net()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = run.optimizer(torch.optim.Adadelta(model.parameters(), lr=0.7), model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 0.7 ** int(run.progress))
    for epoch in run.epochs(args.epochs, model=model, schedule=schedule):
        began = time.time()
        model.train()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            schedule.step()
        run.log(loss=loss.item())
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1} began {began} ended {time.time()} workers {hvd.size()}", flush=True)
    model.eval()
    with torch.no_grad():
        right = sum(
            (model(x).argmax(1) == y).sum().item() for x, y in zip(*(t.split(256) for t in test.tensors), strict=True)
        )
    accuracy = right / len(test)
    run.log(accuracy=accuracy)
    if hvd.rank() == 0:
        print(f"final test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
