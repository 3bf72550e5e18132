"""Trains an example with the SDK several times and prints a JSON line for each: how well it has learnt, and how.

accuracy_train.py EXAMPLE OPTIMIZER MAX_BATCH EPOCHS SEED...

Run by bench/training/accuracy.py in the environment of local jobs, alone or as one of several Horovod workers. The
service's answers come every few steps, with the step-time model of a GPU to which a larger batch is always worth it:
what holds the batch back is the SDK alone. All is reckoned in steps, so a seed gives the same on each run.
"""

import importlib
import json
import os
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.data import Subset

import schedulearn.worker.torch as worker
from schedulearn.metrics.model.step_time import StepTimeModel
from schedulearn.worker.batch import noise_meter

BATCH = 64
REPORT_STEPS = 20
MODEL = StepTimeModel(0.01, 1e-5, 0.0, 0.0, 0.0, 0.0, 1.0)
RATES = {"sgd": 0.1, "momentum": 0.05, "adam": 1e-3}

if "HOROVOD_RANK" in os.environ:
    import horovod.torch as hvd

    hvd.init()
noise_meter.BUDGET = 1e9  # measure every step: when it measures must not depend on the time
torch.set_num_threads(1)


class Service:
    """What a run hears from the service: a new answer every REPORT_STEPS steps."""

    def __init__(self, run):
        self._run = run
        self._asked = -1
        self._answer = None

    @property
    def answer(self):
        asked = self._run.step // REPORT_STEPS
        if asked > self._asked:
            self._asked = asked
            self._answer = {"models": {"gpu": vars(MODEL)}, "gpu_type": "gpu", "use_efficiency": True}
        return self._answer

    def start(self):
        pass

    def close(self):
        pass


class Digits:
    def __init__(self):
        self._example = _example("digits")
        self.train, self.test = self._example.load_data()

    def model(self):
        return self._example.Net(image_size=8)

    def loss(self, model, x, y):
        return F.cross_entropy(model(x), y)

    def accuracy(self, model):
        x, y = self.test.tensors
        return (model(x).argmax(1) == y).float().mean().item()


class Text:
    """Every second stretch of the text; judged by the letters that follow, over the whole text."""

    def __init__(self):
        self._example = _example("text")
        self._letters = self._example.Letters()
        self.train = Subset(self._letters, range(0, len(self._letters), 2))

    def model(self):
        return self._example.Transformer(len(self._letters.alphabet))

    def loss(self, model, x, y):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    def accuracy(self, model):
        x, y = map(torch.stack, zip(*(self._letters[i] for i in range(0, len(self._letters), 48)), strict=False))
        return (model(x).argmax(2) == y).float().mean().item()


class Resnet:
    def __init__(self):
        self._example = _example("resnet")
        self.train, self.test = self._example.images(2048), self._example.images(1024, seed=1)

    def model(self):
        return self._example.ResNet18(width=4)

    loss, accuracy = Digits.loss, Digits.accuracy


def _example(name):
    folder = Path(__file__).parents[2] / "worker_images/examples" / name
    sys.path.insert(0, str(folder))
    return importlib.import_module("train")


def _optimizer(name, parameters):
    if name == "adam":
        return torch.optim.Adam(parameters, lr=RATES[name])
    return torch.optim.SGD(parameters, lr=RATES[name], momentum=0.9 if name == "momentum" else 0.0)


def train(example, optimizer_name, max_batch, epochs, seed):
    torch.manual_seed(seed)
    scaling = {"scaling": "sqrt"} if optimizer_name == "adam" else {}
    run = worker.Run(BATCH, max_batch, seed=seed, **scaling)
    run._reporter = Service(run)
    loader = run.loader(example.train)
    model = example.model()
    if run.workers.size > 1:
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = run.optimizer(_optimizer(optimizer_name, model.parameters()), model)
    seconds, served, batches, course = 0.0, 0, [], []
    for _ in run.epochs(epochs, model=model):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = example.loss(model, x, y)
            loss.backward()
            optimizer.step()
            seconds += float(MODEL.iter_time(1, run.workers.size, len(x)))
            served += run.current.samples
            if not batches or batches[-1][1] != run.batch.total:
                batches.append((run.step, run.batch.total, run.batch.why))
        run.log(loss=loss.item())
        model.eval()
        with torch.no_grad():
            course.append((round(loss.item(), 4), round(example.accuracy(model), 4)))
    return {
        "seed": seed, "accuracy": course[-1][1], "gpu_seconds": seconds, "batches": batches, "course": course,
        "retreats": run.guard.state()["retreats"], "passes": served / len(example.train) / epochs,
    }  # fmt: skip


if __name__ == "__main__":
    name, optimizer, max_batch, epochs, *seeds = sys.argv[1:]
    chosen = {"digits": Digits, "text": Text, "resnet": Resnet}[name]()
    for seed in seeds:
        found = train(chosen, optimizer, int(max_batch), int(epochs), int(seed))
        if os.environ.get("HOROVOD_RANK", "0") == "0":
            print(json.dumps(found), flush=True)
