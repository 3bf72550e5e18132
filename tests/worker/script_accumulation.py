"""Trains by the SDK in steps of several passes, and by plain PyTorch in steps of one. Prints by how much they differ.

script_accumulation.py horovod|torchrun|alone MAX_LOCAL BATCH SAMPLES [CASE...]

A body is the same for both. What it does between `backward` and `step` is what such steps used to get wrong.
"""

import json
import sys
import types

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import schedulearn.worker.torch as worker
from schedulearn.worker.order import permutation, step_size

kind, chosen = sys.argv[1], sys.argv[5:]
MAX_LOCAL, BATCH, SAMPLES = map(int, sys.argv[2:5])
EPOCHS = 2
if kind == "horovod":
    import horovod.torch as hvd

    hvd.init()
elif kind == "torchrun":
    torch.distributed.init_process_group("gloo")
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
digits = load_digits()
data = TensorDataset(
    torch.from_numpy(digits.images[:SAMPLES]).flatten(1) / 16,
    torch.from_numpy(digits.target[:SAMPLES]).long(),
    torch.arange(SAMPLES),
)


class Silent:
    """A reporter: with one, the run keeps what is logged."""

    answer = None

    def start(self): ...
    def close(self): ...


class Average:
    """A script's own moving average of weights."""

    def __init__(self, model):
        self._model = model
        self.shadow = [p.detach().clone() for p in model.parameters()]

    def update(self):
        for mean, parameter in zip(self.shadow, self._model.parameters(), strict=True):
            mean.lerp_(parameter.detach(), 0.1)

    def state_dict(self):
        return {"shadow": self.shadow}

    def load_state_dict(self, state):
        for mean, saved in zip(self.shadow, state["shadow"], strict=True):
            mean.copy_(saved)


class Case:
    """`run`: None for plain PyTorch. `result`: what both must agree on."""

    options = types.MappingProxyType({})  # of Horovod's optimizer
    unused = False
    wrapped = 0

    def __init__(self, run=None):
        torch.manual_seed(0)
        self.run = run
        self.states, self.norms = {}, []
        self.model = self.make_model()
        self.net = self.on_all(self.model)
        self.optimizers = self.make_optimizers()
        self.begin()

    def make_model(self):
        return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))

    def make_optimizers(self):
        return [self.average(torch.optim.SGD(self.model.parameters(), lr=0.5, momentum=0.9), self.net)]

    def on_all(self, model):
        if self.run is None or kind != "torchrun":
            return model
        return nn.parallel.DistributedDataParallel(model, find_unused_parameters=self.unused)

    def average(self, optimizer, net):
        if self.run is None:
            return optimizer
        self.wrapped += 1
        names = [(f"{self.wrapped}.{name}", parameter) for name, parameter in net.named_parameters()]
        options = {"named_parameters": names, **self.options} if kind == "horovod" else {}
        return self.run.optimizer(optimizer, net, **options)

    def begin(self): ...

    def body(self, x, y, index):
        self.zero_grad()
        F.cross_entropy(self.net(x), y).backward()
        self.before_step()
        for optimizer in self.optimizers:
            optimizer.step()
        self.after_step()

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def before_step(self): ...
    def after_step(self): ...

    def log(self, norm):
        if self.run is None or (self.run.env is None and self.run.is_last_pass):
            self.norms.append(float(norm))
        elif self.run.env is not None:
            self.run.log(norm=float(norm))

    def result(self):
        if self.run is not None and self.run.env is not None:
            self.norms = [each["value"] for each in self.run._measurements.take()["metrics"]]
        return [*(p.detach() for p in self.model.parameters()), torch.tensor(self.norms)]


class Plain(Case):
    def before_step(self):
        self.log(torch.stack([p.grad.norm() for p in self.model.parameters()]).norm())


class ClipByNorm(Case):
    def before_step(self):
        self.log(nn.utils.clip_grad_norm_(self.model.parameters(), 0.5))


class ClipByValue(Case):
    def before_step(self):
        nn.utils.clip_grad_value_(self.model.parameters(), 0.01)
        self.log(self.model[0].weight.grad.norm())


class Scaler(Case):
    """The scale grows every third step; one sample overflows."""

    factor = float("inf")

    def begin(self):
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3)

    def body(self, x, y, index):
        self.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        if 17 in index:
            loss = loss * self.factor
        self.scaler.scale(loss).backward()
        for optimizer in self.optimizers:
            self.scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        self.log(norm.nan_to_num(-1.0, -1.0, -1.0))

    def result(self):
        return [*super().result(), torch.tensor([self.scaler.get_scale()])]


class ScalerAlone(Scaler):
    """Nothing between `backward` and `scaler.step`."""

    def body(self, x, y, index):
        self.zero_grad()
        self.scaler.scale(F.cross_entropy(self.net(x), y)).backward()
        self.scaler.step(self.optimizers[0])
        self.scaler.update()


class Averages(Case):
    """Averages of the weights, PyTorch's and the script's own, and a schedule, after each pass."""

    def begin(self):
        self.mine = Average(self.model)
        self.swa = torch.optim.swa_utils.AveragedModel(
            self.model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        )
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizers[0], 0.9)
        self.states = {"mine": self.mine, "swa": self.swa, "schedule": self.schedule}

    def after_step(self):
        self.mine.update()
        self.swa.update_parameters(self.model)
        self.schedule.step()

    def result(self):
        rate = torch.tensor([self.optimizers[0].param_groups[0]["lr"], float(self.schedule.last_epoch)])
        return [*super().result(), *self.mine.shadow, *(p.detach() for p in self.swa.parameters()), rate]


class Optimizers(Case):
    """One for the body, one for the head."""

    def make_optimizers(self):
        body, head = self.model[0].parameters(), self.model[2].parameters()
        return [
            self.average(torch.optim.SGD(body, lr=0.5, momentum=0.9), self.net),
            self.average(torch.optim.Adam(head, lr=0.01), self.net),
        ]

    def before_step(self):
        self.log(nn.utils.clip_grad_norm_(self.model.parameters(), 0.5))


class ScalerOfTwo(Optimizers, Scaler):
    """For both optimizers; the loss of one step is not a number."""

    factor = float("nan")


class Penalty(ClipByNorm):
    """Second derivatives: the gradient by the input is part of the loss."""

    def body(self, x, y, index):
        self.zero_grad()
        x = x.clone().requires_grad_()
        losses = F.cross_entropy(self.net(x), y, reduction="none")
        [by_input] = torch.autograd.grad(losses.sum(), x, create_graph=True)
        (losses.mean() + 0.1 * by_input.square().sum(1).mean()).backward()
        self.before_step()
        self.optimizers[0].step()


class ZeroAfter(ClipByNorm):
    """Gradients are zeroed after the step, by the model."""

    def zero_grad(self): ...

    def after_step(self):
        self.model.zero_grad(set_to_none=False)


class Losses(ClipByNorm):
    """Two losses, each with its own backward."""

    options = types.MappingProxyType({"backward_passes_per_step": 2})

    def body(self, x, y, index):
        self.zero_grad()
        F.cross_entropy(self.net(x), y).backward()
        (0.01 * self.net(x).square().mean()).backward()
        self.before_step()
        self.optimizers[0].step()


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.one, self.other = nn.Linear(64, 32), nn.Linear(32, 10), nn.Linear(32, 10)

    def forward(self, x, goes_other):
        hidden = torch.tanh(self.body(x))
        out = self.one(hidden)
        if goes_other.any():
            out = torch.where(goes_other[:, None], self.other(hidden), out)
        return out


class Unused(ClipByNorm):
    """Many passes leave a head without a gradient."""

    unused = True

    def make_model(self):
        return TwoHeads()

    def make_optimizers(self):  # without momentum: Horovod moves what has no gradient by it, PyTorch alone does not
        return [self.average(torch.optim.SGD(self.model.parameters(), lr=0.5), self.net)]

    def body(self, x, y, index):
        self.zero_grad()
        F.cross_entropy(self.net(x, index % 11 == 0), y).backward()
        self.before_step()
        self.optimizers[0].step()


class Recomputed(nn.Sequential):
    def forward(self, x):
        for layer in self:
            x = torch.utils.checkpoint.checkpoint(layer, x.requires_grad_(), use_reentrant=True)
        return x


class Checkpointed(ClipByNorm):
    """Each layer has a backward of its own, inside of the one that the script calls."""

    def make_model(self):
        return Recomputed(*super().make_model())


class Sparse(Case):
    """Sparse gradients; not with torchrun, which averages none by a hook."""

    def make_model(self):
        return nn.Sequential(nn.Embedding(17, 10, sparse=True), nn.Linear(10, 10))

    def make_optimizers(self):
        return [self.average(torch.optim.SGD(self.model.parameters(), lr=0.5), self.net)]

    def body(self, x, y, index):
        self.zero_grad()
        F.cross_entropy(self.net((x * 16).long()).mean(1), y).backward()
        self.optimizers[0].step()


class Closure(Case):
    def body(self, x, y, index):
        def closure():
            self.zero_grad()
            loss = F.cross_entropy(self.net(x), y)
            loss.backward()
            return loss

        self.optimizers[0].step(closure)


class Adversaries(Case):
    """The generator's loss leaves gradients in the critic, which are zeroed before the critic's own backward. The
    critic's learning rate is 0: in steps of several passes, all see the weights from before the step."""

    def make_optimizers(self):
        torch.manual_seed(1)
        self.generator = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 64))
        self.generator_net = self.on_all(self.generator)
        return [
            self.average(torch.optim.SGD(self.generator.parameters(), lr=0.5), self.generator_net),
            self.average(torch.optim.SGD(self.model.parameters(), lr=0.0), self.net),
        ]

    def body(self, x, y, index):
        generating, judging = self.optimizers
        self.generator.zero_grad()
        F.cross_entropy(self.net(self.generator_net(x)), y).backward()
        generating.step()
        judging.zero_grad()
        F.cross_entropy(self.net(x), y).backward()
        self.log(nn.utils.clip_grad_norm_(self.model.parameters(), 1.0))
        judging.step()

    def result(self):
        return [*super().result(), *(p.detach() for p in self.generator.parameters())]


CASES = {
    "plain": Plain, "clip by norm": ClipByNorm, "clip by value": ClipByValue, "GradScaler": Scaler,
    "GradScaler alone": ScalerAlone, "averages": Averages, "optimizers": Optimizers,
    "GradScaler of two": ScalerOfTwo, "penalty": Penalty, "zero after": ZeroAfter,
    "losses": Losses, "unused": Unused,
    "checkpointed": Checkpointed, "sparse": Sparse, "closure": Closure, "adversaries": Adversaries,
}  # fmt: skip
LEFT_OUT = {"torchrun": ("sparse",), "horovod": ("closure",)}


def plain(case, workers):
    for epoch in range(EPOCHS):
        order = permutation(0, epoch, SAMPLES)
        while len(order):
            size = step_size(len(order), BATCH, workers)
            case.body(*data[order[:size]])
            order = order[size:]
    return case.result()


def accumulated(made):
    run = worker.Run(BATCH, max_local=MAX_LOCAL)
    run._reporter = Silent()
    loader = run.loader(data)
    case = made(run)
    for _ in run.epochs(EPOCHS, model=case.model, **case.states):
        for x, y, index in loader:
            case.body(x, y, index)
    return run, case.result()


worker.Run.save = lambda self, stopping=False: None
for name, made in CASES.items():
    if (chosen and name not in chosen) or name in LEFT_OUT.get(kind, ()):
        continue
    run, found = accumulated(made)
    expected = plain(made(), run.workers.size)
    apart = [
        float((mine - right).norm() / max(1e-12, right.norm())) if mine.shape == right.shape else float("inf")
        for mine, right in zip(found, expected, strict=True)
    ]
    if run.workers.rank == 0:
        line = {"case": name, "apart": max(apart), "steps": run.step, "passes": run.batch.accumulation + 1}
        print(json.dumps(line), flush=True)
