"""The models whose step times are measured: ResNet-18 and -50, a GPT of 124 million parameters, ViT-B/16. In plain
PyTorch, with made-up data of the sizes that they are trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

Batch = tuple[torch.Tensor, torch.Tensor]


class Bottleneck(nn.Module):
    """Two convolutions (expansion 1), or three of which the last widens (expansion 4)."""

    def __init__(self, before: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        after = width * expansion
        kernels = [(before, width, 3, stride), (width, after, 3, 1)]
        if expansion > 1:
            kernels = [(before, width, 1, 1), (width, width, 3, stride), (width, after, 1, 1)]
        layers: list[nn.Module] = []
        for source, target, size, step in kernels:
            convolution = nn.Conv2d(source, target, size, step, size // 2, bias=False)
            layers += [convolution, nn.BatchNorm2d(target), nn.ReLU()]
        self.path = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.path(x) + self.shortcut(x))


def resnet(blocks: tuple[int, ...], expansion: int, width: int = 64, classes: int = 1000) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    before = width
    for stage, count in enumerate(blocks):
        for index in range(count):
            stride = 2 if index == 0 and stage > 0 else 1
            layers.append(Bottleneck(before, width << stage, stride, expansion))
            before = (width << stage) * expansion
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        samples, length, width = x.shape
        parts = self.project(x).view(samples, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=self.causal)
        return self.out(seen.transpose(1, 2).reshape(samples, length, width))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.after(x))


class Gpt(nn.Module):
    """By default GPT-2 of 124 million parameters: input and output share their embedding."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 50257, length: int = 1024):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(length, width))
        self.layers = nn.Sequential(*(Layer(width, heads, causal=True) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.norm(self.layers(self.words(x) + self.places[: x.shape[1]]))
        return F.linear(found, self.words.weight)


class Vit(nn.Module):
    """By default ViT-B/16."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, size: int = 224, classes: int = 1000):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.places = nn.Parameter(torch.zeros(1 + (size // 16) ** 2, width))
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.layers = nn.Sequential(*(Layer(width, heads, causal=False) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), patches], 1) + self.places
        return self.head(self.layers(x)[:, 0])


def _images(count: int, size: int = 224, classes: int = 1000) -> Batch:
    return torch.randn(count, 3, size, size), torch.randint(classes, (count,))


def _words(count: int, length: int = 1024, words: int = 50257) -> Batch:
    return torch.randint(words, (count, length)), torch.randint(words, (count, length))


def loss(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross entropy over the last axis: along any other, PyTorch's softmax has little to do at once where samples are
    few. With that, a step of GPT took 86 ms and 5 ms a sample on an H200."""
    return F.cross_entropy(output.flatten(0, -2), labels.flatten())


@dataclass(frozen=True)
class Workload:
    make: Callable[[], nn.Module]
    data: Callable[[int], Batch]
    batches: tuple[int, ...]
    """Samples of one pass, to be tried in this order until memory runs out."""
    total_steps: int
    """Of a whole training at the smallest batch, for the simulator: ImageNet's 90 epochs; 10 billion words."""


WORKLOADS = {
    "resnet18": Workload(lambda: resnet((2, 2, 2, 2), 1), _images, (16, 32, 64, 128, 256, 512, 1024), 7_206_000),
    "resnet50": Workload(lambda: resnet((3, 4, 6, 3), 4), _images, (16, 32, 64, 128, 256, 512), 7_206_000),
    "gpt124m": Workload(Gpt, _words, (1, 2, 4, 8, 16, 32), 9_765_000),
    "vit-b16": Workload(Vit, _images, (8, 16, 32, 64, 128, 256, 512), 14_412_000),
    # For machines without a GPU, and for tests of what measures: no figure of it says anything about one.
    "tiny": Workload(
        lambda: resnet((1, 1), 1, width=16, classes=10), lambda count: _images(count, 32, 10), (4, 8, 16, 32), 10_000
    ),
}
