"""Trains one of the models with the SDK, or without it, and prints as JSON what it saw. Run by the checks.

train.py MODEL --batch N [--steps N] [--variant plain|bf16|fp16|channels-last|compile|graph] [--device cuda|cpu] ...
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import nullcontext

import torch
from torch.utils.data import Dataset

import schedulearn.worker.torch as worker
from bench.gpu.models import WORKLOADS
from bench.gpu.models import loss as loss_of
from bench.gpu.variants import VARIANTS
from schedulearn.worker.batch import noise_meter
from schedulearn.worker.torch.memory import GpuMemory

WARM_UP = 10
"""Steps that don't count: libraries choose their kernels, and a model is compiled."""


class Samples(Dataset):
    """`count` samples that are made once, handed out again and again."""

    def __init__(self, model: str, count: int, kept: int) -> None:
        self.data, self.labels = WORKLOADS[model].data(min(count, kept))
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.data[index % len(self.data)], self.labels[index % len(self.data)]


class Ballast:
    """So many more bytes in each checkpoint."""

    def __init__(self, size: int, device: str) -> None:
        self.tensor = torch.zeros(size // 4, device=device)

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"ballast": self.tensor}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.tensor.copy_(state["ballast"])


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=WORKLOADS)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--variant", choices=VARIANTS, default="plain")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, help="end after so long, in place of --steps")
    parser.add_argument("--ballast", type=int, default=0, help="bytes more in each checkpoint")
    parser.add_argument("--grow", type=int, help="after the training: passes of 16, 32 and so many samples, plainly")
    parser.add_argument("--noise", action="store_true", help="measure each step, at fixed weights, and compare offline")
    return parser.parse_args()


class Graph:
    """The step of one batch, recorded once, as PyTorch's documentation does it: a warm-up on a stream of its own."""

    def __init__(self, step, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y, self.step = x.clone(), y.clone(), step
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step(self.x, self.y)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = step(self.x, self.y)

    def replay(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss


class Training:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.cuda = args, args.device == "cuda"
        if not self.cuda:
            torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = WORKLOADS[args.model].make().to(args.device)
        if args.variant == "channels-last":
            self.model = self.model.to(memory_format=torch.channels_last)
        self.net = torch.compile(self.model) if args.variant == "compile" else self.model
        self.scaler = torch.amp.GradScaler(args.device, enabled=args.variant == "fp16")
        precision = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(args.variant)
        self.cast = torch.autocast(args.device, precision) if precision is not None else nullcontext()
        self.run = worker.Run(args.batch)
        count = args.batch * args.steps
        self.data = Samples(args.model, count, kept=count if args.noise else max(64, 4 * args.batch))
        self.loader = self.run.loader(self.data, pin_memory=self.cuda)
        plain = torch.optim.SGD(self.model.parameters(), lr=0.0 if args.noise else 0.01)
        self.optimizer = self.run.optimizer(plain, self.net)
        self.graph: Graph | None = None
        self.losses: list[torch.Tensor] = []
        self.warm_at: float | None = None

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=self.args.variant != "graph")
        with self.cast:
            loss = loss_of(self.net(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def take(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """One step, with its copies to the GPU."""
        device = self.args.device
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        if self.args.variant == "channels-last":
            x = x.to(memory_format=torch.channels_last)
        if self.args.variant == "graph" and self.graph is None:
            self.graph = Graph(self.step, x, y)
        loss = self.graph.replay(x, y) if self.graph is not None else self.step(x, y)
        self.losses.append(loss.detach().clone())
        if len(self.losses) == WARM_UP:
            self.wait()
            self.warm_at = time.perf_counter()
        if len(self.losses) == 1 or len(self.losses) % 100 == 0:
            print(f"step {len(self.losses)}", flush=True)

    def train(self) -> None:
        limit = self.args.seconds
        states = {"model": self.model, "ballast": Ballast(self.args.ballast, self.args.device)}
        started = time.monotonic()
        for _ in self.run.epochs(1 if limit is None else 1_000_000, **states):
            for x, y in self.loader:
                self.take(x, y)
            if limit is not None and time.monotonic() - started > limit:
                break
        self.wait()
        self.warm_until = time.perf_counter()
        self.seconds = time.monotonic() - started

    def pace_s(self) -> float:
        """Seconds of a step, data included, over all after the first few. Nobody waits for the GPU in between, so that
        data are fetched while it computes, as in any training."""
        steps = len(self.losses) - WARM_UP
        if self.warm_at is None or steps < 1:
            return self.seconds / max(1, len(self.losses))
        return (self.warm_until - self.warm_at) / steps

    def grow(self, samples: int) -> None:
        """Passes of 16, 32 and `samples`, and what the SDK says of the last if its memory runs out."""
        memory = GpuMemory()
        for count in (16, 32, samples):
            memory.begin(self.args.device, count)
            try:
                x, y = (part.to(self.args.device) for part in WORKLOADS[self.args.model].data(count))
                loss_of(self.model(x), y).backward()
                memory.end()
            except RuntimeError as error:
                print(f"schedulearn: {memory.explain(error)}", flush=True)
                return
            self.model.zero_grad()
            del x, y
        print(f"fitted {samples}", flush=True)

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def found(self) -> dict[str, object]:
        found: dict[str, object] = {
            "losses": [float(loss) for loss in self.losses[:200]], "steps": len(self.losses), "seconds": self.seconds,
            "pace_s": self.pace_s(),
        }  # fmt: skip
        if self.run.instruments is not None:
            list(self.run.instruments.step_times(None, 1, 0.0))
            told = self.run._measurements.take()["observations"]
            noise = self.run.instruments.meter.noise
            found["told"] = [(each["atomic_batch"], each["iter_time"]) for each in told]
            found["noise"] = noise.var_mean / noise.sqr_mean * self.args.batch if noise.sqr_mean > 0 else None
        if self.args.noise:
            found["offline"] = offline_noise(self.model, self.data, self.args.batch, self.args.device)
        return found


def offline_noise(model: torch.nn.Module, data: Samples, batch: int, device: str) -> float:
    """In samples, from the gradients of many batches at fixed weights: var of one sample over |mean|^2."""
    total, squares, count = None, 0.0, 0
    for start in range(0, len(data.data) - batch + 1, batch):
        model.zero_grad()
        part = slice(start, start + batch)
        loss_of(model(data.data[part].to(device)), data.labels[part].to(device)).backward()
        gradient = torch.cat([p.grad.double().flatten() for p in model.parameters()])
        total = gradient if total is None else total + gradient
        squares += float(gradient.square().sum())
        count += 1
    mean_sqr = float((total / count).square().sum())
    variance = (squares / count - mean_sqr) * count / (count - 1)  # of the gradient of a batch
    return batch * variance / (mean_sqr - variance / count)


if __name__ == "__main__":
    given = options()
    if given.noise:
        noise_meter.BUDGET = 1e9  # each step is measured: time is not what this is about
    training = Training(given)
    training.train()
    if given.grow:
        training.grow(given.grow)
    print("found " + json.dumps(training.found()), flush=True)
