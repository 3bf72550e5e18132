"""Handwritten digits: a small convolutional network, trained by one or more workers with Horovod.

Alone:          python examples/digits/train.py
Two workers:    horovodrun -np 2 -H localhost:2 python examples/digits/train.py

The data are scikit-learn's 1797 real digits of 8x8 pixels, which need no download; or MNIST, where the environment
variable MNIST_PATH names its file `mnist.npz` (arrays x_train, y_train, x_test, y_test). The script is the same with a
GPU and without one. What makes an ordinary PyTorch script a distributed one is marked by (1) to (6).
"""

import argparse
import os
import socket
import time
from pathlib import Path

import horovod.torch as hvd
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    args = parse_args()

    # (1) Meet the other workers. Each is a process of its own, with a rank from 0 to size - 1.
    hvd.init()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", hvd.local_rank())  # one GPU a worker
        torch.cuda.set_device(device)
    else:
        # Workers on one machine share its cores: more threads than cores only wait for each other.
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // hvd.local_size()))
    torch.manual_seed(args.seed)
    print(
        f"worker {hvd.rank()} of {hvd.size()} on {socket.gethostname()}, device {device}, "
        f"NVIDIA_VISIBLE_DEVICES={os.environ.get('NVIDIA_VISIBLE_DEVICES', '')}",
        flush=True,
    )

    # (2) Share out the data: a sampler with the same seed everywhere gives each rank its own part, anew each epoch.
    train, test = load_data()
    sampler = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank(), seed=args.seed)
    loader = DataLoader(train, batch_size=args.batch_size, sampler=sampler)

    # (3) N workers take N batches a step, so the step may be N times as long. OneCycleLR warms up to it.
    model = Net(image_size=train.tensors[0].shape[-1]).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr * hvd.size(), total_steps=args.epochs * len(loader)
    )

    # (4) Start everywhere from the same weights: rank 0's.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    # (5) Average the gradients of all workers in each step.
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    for epoch in range(1, args.epochs + 1):
        started = time.perf_counter()
        sampler.set_epoch(epoch)
        loss = train_epoch(model, loader, optimizer, schedule, device)
        seconds = time.perf_counter() - started
        accuracy = evaluate(model, test, device)
        # (6) One voice for all.
        if hvd.rank() == 0:
            print(
                f"epoch {epoch}/{args.epochs}: loss {loss:.4f}, test accuracy {accuracy:.4f}, "
                f"{len(train) / seconds:.0f} samples/s",
                flush=True,
            )
    if hvd.rank() == 0:
        print(f"final test accuracy {accuracy:.4f}", flush=True)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32, help="of each worker")
    parser.add_argument("--lr", type=float, default=0.05, help="for one worker; N workers take N times as much")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.epochs < 1:
        parser.error("--epochs must be at least 1")
    return args


class Net(nn.Module):
    """Two convolutions, two dense layers; for square grey images of an even side (digits 8, MNIST 28)."""

    def __init__(self, image_size):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.dense1 = nn.Linear(32 * (image_size // 2) ** 2, 64)
        self.dense2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = F.max_pool2d(x, 2).flatten(1)
        x = F.dropout(x, p=0.25, training=self.training)
        return self.dense2(F.relu(self.dense1(x)))


def load_data():
    """Train and test set, pixels scaled to 0..1. The same split in every worker."""
    mnist = Path(os.environ.get("MNIST_PATH", "mnist.npz"))
    if mnist.is_file():
        with np.load(mnist) as data:
            x_train, y_train, x_test, y_test = (data[name] for name in ("x_train", "y_train", "x_test", "y_test"))
        brightest = 255
    else:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        digits = load_digits()
        x_train, x_test, y_train, y_test = train_test_split(
            digits.images, digits.target, test_size=0.2, stratify=digits.target, random_state=0
        )
        brightest = 16

    def dataset(images, labels):
        pixels = torch.from_numpy(images).float().unsqueeze(1) / brightest  # (samples, 1 channel, rows, columns)
        return TensorDataset(pixels, torch.from_numpy(labels).long())

    return dataset(x_train, y_train), dataset(x_test, y_test)


def train_epoch(model, loader, optimizer, schedule, device):
    """One pass over this worker's part of the data; returns the mean loss over all workers."""
    model.train()
    total = torch.zeros((), device=device)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.detach()
    return hvd.allreduce(total / len(loader), name="loss").item()


@torch.no_grad()
def evaluate(model, test, device):
    """Fraction of the test set that is right. Each worker judges every size-th image; the counts are added up."""
    model.eval()
    part = range(hvd.rank(), len(test), hvd.size())
    correct = torch.zeros((), device=device)
    for images, labels in DataLoader(test, batch_size=256, sampler=part):
        predictions = model(images.to(device)).argmax(dim=1)
        correct += (predictions == labels.to(device)).sum()
    return hvd.allreduce(correct, op=hvd.Sum, name="correct").item() / len(test)


if __name__ == "__main__":
    main()
