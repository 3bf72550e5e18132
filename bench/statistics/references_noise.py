"""Gradient noise of the same training by AdaptDL and by the SDK's meter. Prints by how much they differ as JSON.

Run by bench/statistics/references.py in the environment of local jobs. AdaptDL's class is loaded from its file: the
package around it needs a service of its own.
"""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

from schedulearn.metrics.model.noise_scale import NoiseScale
from schedulearn.worker.torch.noise import TorchNoiseMeter

FIRST, PASS, STEPS, WARM = 32, 16, 200, 20


def reference():
    [folder] = importlib.util.find_spec("adaptdl").submodule_search_locations
    spec = importlib.util.spec_from_file_location("noise", Path(folder) / "torch/gradient_noise_scale.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Training:
    """Steps of `passes` gradients; AdaptDL's hooks see each of them."""

    def __init__(self, passes, adam, scaled):
        torch.manual_seed(0)
        digits = load_digits()
        self.x = torch.from_numpy(digits.images).float().flatten(1) / 16
        if adam:  # what the SDK bounds, seldom used parameters, AdaptDL does not: here all are used
            self.x = self.x + torch.randn(self.x.shape)
        self.y = torch.from_numpy(digits.target).long()
        self.passes = passes
        self.model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
        parameters = list(self.model.parameters())
        self.optimizer = torch.optim.Adam(parameters) if adam else torch.optim.SGD(parameters, lr=0.1)
        self.scale = 1024.0 if scaled else 1.0
        self.synchronising = SimpleNamespace(require_backward_grad_sync=True)

    def gradients(self, index):
        """Return that of one pass, which is also added to `.grad`."""
        before = [0.0 if p.grad is None else p.grad.clone() for p in self.model.parameters()]
        (F.cross_entropy(self.model(self.x[index]), self.y[index]) * self.scale).backward()
        return [(p.grad - b) / self.scale for p, b in zip(self.model.parameters(), before, strict=True)]

    def step(self):
        """Return the gradient of each pass and their mean, of which it makes a step."""
        self.model.zero_grad()
        found = []
        for number in range(self.passes):
            self.synchronising.require_backward_grad_sync = number == self.passes - 1
            found.append(self.gradients(torch.randint(len(self.x), (PASS,))))
        mean = [sum(each) / self.passes for each in zip(*found, strict=True)]
        return found, mean

    def end(self, mean):
        for parameter, gradient in zip(self.model.parameters(), mean, strict=True):
            parameter.grad = gradient.clone()
        self.optimizer.step()


def compare(module, passes, *, adam=False, scaled=False):
    """Differences of |G|^2 and of the variance, the largest over all steps, as a share of the sum of both."""
    training = Training(passes, adam, scaled)
    meter = TorchNoiseMeter(FIRST, training.optimizer)
    for _ in range(WARM):  # Adam scales by what it has hardly seen; the two leave out a different number of steps
        training.end(training.step()[1])
    batch = PASS * passes
    kind = module.AdamGradientNoiseScale if adam else module.GradientNoiseScale
    scaler = SimpleNamespace(get_scale=lambda: training.scale) if scaled else None
    # One worker: `accum_scale` is its pass over the first batch.
    theirs = kind(training.synchronising, training.optimizer, scaler, 1, PASS / FIRST)
    if adam:
        theirs._state["prev_scale"] = batch / FIRST  # else it takes the first step for one at another batch
    ours, before, worst = NoiseScale(FIRST), None, 0.0

    def squares(gradients):
        return float(meter.norms(list(meter.conditioned(training.model.parameters(), gradients))))

    for _ in range(STEPS):
        theirs._accum_count, theirs._local_sqr = 0, None
        found, mean = training.step()
        if passes > 1:
            ours.update(sum(map(squares, found)) / passes, squares(mean), passes, batch)
        elif before is not None:
            both = [(a + b) / 2 for a, b in zip(before, mean, strict=True)]
            ours.update_pair(squares(before), squares(mean), squares(both), batch)
        if ours.weight:
            apart = max(abs(ours.sqr - theirs.sqr_avg()), abs(ours.var - theirs.var_avg()))
            worst = max(worst, apart / (ours.sqr + ours.var))
        before = mean
        training.end(mean)
    return worst


module = reference()
for case, options in {
    "noise of 4 gradients a step": {"passes": 4},
    "noise of 2 gradients a step, scaled as by GradScaler": {"passes": 2, "scaled": True},
    "noise of 3 gradients a step, preconditioned by Adam": {"passes": 3, "adam": True},
    "noise of one worker, by pairs of steps": {"passes": 1},
}.items():
    print(json.dumps({"case": case, "apart": compare(module, **options)}), flush=True)
