"""One training for bench/training/floors.py: `train` returns how well it has learnt by when, as a dictionary.

One process stands for all workers: it takes their samples together, measures the gradient of each worker's share, and
reckons the time of a step on as many GPUs. All is reckoned in steps and samples, so a seed gives the same on each run.
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch.utils.data import Subset, TensorDataset

import schedulearn.worker.torch as worker
from schedulearn.metrics.model.step_time import StepTimeModel
from schedulearn.worker.batch import choice
from schedulearn.worker.torch.noise import TorchNoiseMeter

ROOT = Path(__file__).parents[2]
BATCH = 16
LARGEST = 16 * BATCH
MODEL = StepTimeModel(0.01, 1e-5, 0.0, 0.0, 0.0, 0.0, 1.0)
"""Of a GPU to which a larger batch is always worth it: what holds the batch back is the rule alone."""
ANSWER_STEPS = 20
"""Between two answers of the service."""
MEASURED_STEPS = 4
"""Between two measurements of the noise."""
MARKS = 20
"""How often a training is judged."""


class Digits:
    """Digits that were turned, moved, resized and dirtied: more than can be learnt by heart."""

    epochs = 2
    rates: ClassVar = {"sgd": 0.3, "momentum": 0.03, "adamw": 3e-3}

    def __init__(self) -> None:
        self._example = _example("digits")
        train, test = self._example.load_data()
        self.train, self.test = _distorted(train, 20, seed=0), _distorted(test, 8, seed=1)

    def model(self) -> Any:
        return self._example.Net(image_size=8)

    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y)

    def judge(self, model: Any) -> tuple[float, float]:
        """Loss and accuracy on what it was not trained on."""
        x, y = self.test
        found = model(x)
        return F.cross_entropy(found, y).item(), (found.argmax(-1) == y).float().mean().item()


class Text:
    """The letters of this project's pages; judged by a tenth of them, from all over the text."""

    epochs = 1
    rates: ClassVar = {"sgd": 0.5, "momentum": 0.1, "adamw": 3e-3}
    width, layers, samples = 32, 2, 24_000

    def __init__(self) -> None:
        self._example = _example("text")
        text = "".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))
        self._alphabet = sorted(set(text))
        code = {letter: number for number, letter in enumerate(self._alphabet)}
        letters = torch.tensor([code[letter] for letter in text])
        pieces = letters[: len(letters) // PIECE * PIECE].view(-1, PIECE)
        for_test = torch.arange(len(pieces)) % 10 == 9
        windows = pieces[~for_test].unfold(1, self._example.CONTEXT + 1, 1)
        count = windows.shape[0] * windows.shape[1]
        chosen = torch.randperm(count, generator=torch.Generator().manual_seed(0))[: self.samples]
        self.train = _pairs(windows[chosen // windows.shape[1], chosen % windows.shape[1]])
        self.test = _pairs(pieces[for_test].unfold(1, self._example.CONTEXT + 1, 64).flatten(0, 1)[:256])

    def model(self) -> Any:
        return self._example.Transformer(len(self._alphabet), self.width, self.layers)

    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x).flatten(0, -2), y.flatten())

    def judge(self, model: Any) -> tuple[float, float]:
        x, y = self.test
        found = model(x)
        return F.cross_entropy(found.flatten(0, -2), y.flatten()).item(), (found.argmax(-1) == y).float().mean().item()


class LargeText(Text):
    """For a GPU."""

    width, layers, samples = 192, 4, 48_000
    rates: ClassVar = {"sgd": 0.3, "momentum": 0.05, "adamw": 1e-3}


PIECE = 500
"""Letters that are trained on or judged by together."""
EXAMPLES: dict[str, Any] = {"digits": Digits, "text": Text, "large-text": LargeText}
_made: dict[tuple[str, str], Any] = {}


def _example(name: str) -> Any:
    """Its training script, as a module of its own: each is a `train.py`."""
    horovod = types.ModuleType("horovod.torch")  # they import it, and call it only when they run by themselves
    horovod.is_initialized, horovod.torch = lambda: False, horovod  # type: ignore[attr-defined]
    for each in ("horovod", "horovod.torch"):
        sys.modules.setdefault(each, horovod)
    module = types.ModuleType(f"{name}_train")
    module.__file__ = str(ROOT / "worker_images/examples" / name / "train.py")
    exec(compile(Path(module.__file__).read_text(), module.__file__, "exec"), module.__dict__)
    return module


def _distorted(images: Any, copies: int, seed: int) -> tuple[Any, Any]:
    pixels, labels = images.tensors
    made = torch.Generator().manual_seed(seed)
    pixels, labels = pixels.repeat(copies, 1, 1, 1), labels.repeat(copies)
    count = len(pixels)
    turn = (torch.rand(count, generator=made) - 0.5) * 0.6
    size = 0.85 + 0.4 * torch.rand(count, generator=made)
    moved = (torch.rand(count, 2, generator=made) - 0.5) * 0.5
    rows = torch.stack([torch.cos(turn) * size, -torch.sin(turn) * size, moved[:, 0]], 1)
    columns = torch.stack([torch.sin(turn) * size, torch.cos(turn) * size, moved[:, 1]], 1)
    grid = F.affine_grid(torch.stack([rows, columns], 1), list(pixels.shape), align_corners=False)
    pixels = F.grid_sample(pixels, grid, align_corners=False)
    return pixels + 0.2 * torch.randn(pixels.shape, generator=made), labels


def _pairs(windows: Any) -> tuple[Any, Any]:
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


class Service:
    """What a run hears from the service: a new answer every ANSWER_STEPS steps."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self._asked = -1
        self.told: Any = None

    @property
    def answer(self) -> Any:
        asked = self._run.step // ANSWER_STEPS
        if asked > self._asked:
            self._asked = asked
            self.told = {"models": {"gpu": vars(MODEL)}, "gpu_type": "gpu", "use_efficiency": True}
        return self.told

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass


class NoiseOfWorkers(TorchNoiseMeter):
    """Of the workers that this process stands for."""

    def __init__(self, optimizer: Any, workers: int) -> None:
        super().__init__(BATCH, optimizer)
        self._workers = workers

    def pace(self, cost: float, step: float, workers: int) -> None:
        """By steps: when it measures must not depend on the time."""
        if self.measuring:
            self._every = MEASURED_STEPS
            self._wait = MEASURED_STEPS if self._workers > 1 else 2 * MEASURED_STEPS
        self._wait -= 1

    def backward(self, example: Any, model: Any, x: Any, y: Any) -> float:
        """Leaves the mean gradient of all samples, and measures those of each worker's share."""
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        shares = self._workers if self.measuring else 1
        sums, loss = [torch.zeros_like(parameter) for parameter in parameters], 0.0
        for part_x, part_y in zip(x.tensor_split(shares), y.tensor_split(shares), strict=True):
            share, weight = example.loss(model, part_x, part_y), len(part_x) / len(x)
            gradients = torch.autograd.grad(share, parameters)
            if shares > 1:
                self.local_sqr += float(self.norms(list(self.conditioned(parameters, gradients))))
            for total, gradient in zip(sums, gradients, strict=True):
                total.add_(gradient, alpha=weight)
            loss += share.item() * weight
        for parameter, total in zip(parameters, sums, strict=True):
            parameter.grad = total
        return loss

    def _pair(self, gradients: Any, batch: int) -> None:
        if self._workers == 1:
            super()._pair(gradients, batch)
            return
        local = self.local_sqr / self._workers
        self._took(self.noise.update(local, self.total_sqr, self._workers, batch, self._steps))


def train(
    name: str, optimizer_name: str, workers: int, floor: float | None, seed: int, device: str, scale: float
) -> dict[str, Any]:
    """`floor`: the least efficiency; None: the first batch stays. `scale`: of the samples, for a quick look."""
    torch.set_num_threads(1)
    os.environ["SCHEDULEARN_JOB_ID"] = "bench"
    if (name, device) not in _made:
        example = EXAMPLES[name]()
        example.train = TensorDataset(*(each.to(device) for each in example.train))
        example.test = tuple(each.to(device) for each in example.test)
        _made[name, device] = example
    example = _made[name, device]
    choice.SAFE_EFFICIENCY = floor or 0.0
    torch.manual_seed(seed)
    run = worker.Run(BATCH, LARGEST if floor is not None else BATCH, seed=seed)
    run._reporter = Service(run)  # type: ignore[assignment]
    run.batch.resize(workers)
    data = Subset(example.train, range(int(scale * len(example.train)))) if scale < 1 else example.train
    loader, model = run.loader(data), example.model().to(device)
    parameters = model.parameters()
    if optimizer_name == "adamw":
        made: Any = torch.optim.AdamW(parameters, lr=example.rates["adamw"])
    else:
        momentum = 0.9 if optimizer_name == "momentum" else 0.0
        made = torch.optim.SGD(parameters, lr=example.rates[optimizer_name], momentum=momentum)
    optimizer = run.optimizer(made, model)
    meter = NoiseOfWorkers(made, workers)
    assert run.instruments is not None
    run.instruments.meter = meter
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1 - 0.95 * run.fraction)
    seconds, served, batches, course = 0.0, 0, [], []
    for _ in run.epochs(example.epochs, model=model, schedule=schedule):
        for x, y in loader:
            model.train()
            loss = meter.backward(example, model, x, y)
            optimizer.step()
            schedule.step()
            seconds += float(MODEL.iter_time(1, workers, -(-len(x) // workers)))
            served += len(x)
            if not batches or batches[-1][1] != run.batch.total:
                batches.append((round(run.progress / example.epochs, 4), run.batch.total))
            if run.step % 50 == 0:
                run.log(loss=loss)
            if run.fraction * MARKS >= len(course) + 1 and len(course) + 1 < MARKS:
                course.append(_mark(example, model, run, seconds, meter))
    course.append(_mark(example, model, run, seconds, meter))
    return {
        "gpu_seconds": seconds, "steps": run.step, "samples": served, "loss": course[-1]["loss"],
        "accuracy": course[-1]["accuracy"], "retreats": run.guard.state()["retreats"], "batches": batches,
        "course": course,
    }  # fmt: skip


def _mark(example: Any, model: Any, run: Any, seconds: float, meter: NoiseOfWorkers) -> dict[str, Any]:
    model.eval()
    with torch.no_grad():
        loss, accuracy = example.judge(model)
    noise = meter.noise
    return {
        "fraction": round(run.fraction, 4), "gpu_seconds": round(seconds, 3), "loss": round(loss, 5),
        "accuracy": round(accuracy, 5), "batch": run.batch.total, "phi": noise.phi, "sure_phi": noise.sure_phi,
    }  # fmt: skip
