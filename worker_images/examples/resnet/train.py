"""ResNet-18 (He et al., 2016) on made-up 32x32 images of ten kinds, with torchrun and DistributedDataParallel."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class ResNet18(nn.Module):
    """`width` is 64 in the paper."""

    def __init__(self, width=64, classes=10):
        super().__init__()
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        blocks = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        for stage in range(4):
            stride = 1 if stage == 0 else 2
            blocks += [Block(widths[stage], widths[stage + 1], stride), Block(widths[stage + 1], widths[stage + 1], 1)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x):
        return self.head(self.blocks(x).mean(dim=(2, 3)))


def images(count, seed=0):
    """Noise over one of ten fixed patterns each: can be learned, but not at once."""
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randn(10, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(10, (count,), generator=generator)
    return TensorDataset(patterns[labels] + 2 * torch.randn(count, 3, 32, 32, generator=generator), labels)


def setup():
    """Meets the other workers; returns the device of this one."""
    cuda = torch.cuda.is_available()
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if cuda else "gloo")
    torch.manual_seed(0)
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        return torch.device("cuda")
    torch.set_num_threads(1)
    return torch.device("cpu")


def arguments():
    parser = argparse.ArgumentParser(description="ResNet-18 on made-up images")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="of all workers together")
    parser.add_argument("--max-batch", type=int, default=1024, help="with the SDK")
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--width", type=int, default=64)
    return parser.parse_args()


def main():
    args = arguments()
    device = setup()
    data = images(args.samples)
    sampler, size = None, 1
    model = ResNet18(args.width).to(device)
    if dist.is_initialized():
        size = dist.get_world_size()
        sampler = DistributedSampler(data)
        model = nn.parallel.DistributedDataParallel(model)
    loader = DataLoader(data, args.batch_size // size, sampler=sampler, shuffle=sampler is None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    for epoch in range(args.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
        if not dist.is_initialized() or dist.get_rank() == 0:
            print(f"epoch {epoch + 1}/{args.epochs}: loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
