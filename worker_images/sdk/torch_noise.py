"""Measures the gradient noise of PyTorch training: norms before and after averaging, as seldom as keeps it cheap."""

from __future__ import annotations

import math
import time
from typing import Any, Iterable

import torch

from schedulearn.metrics.noise_scale import NoiseScale

BUDGET = 0.005  # share of the training time that measuring may take
LONGEST = 30  # steps between measurements, at most
ENOUGH = 0.0079  # weight of the average from which on it is believed: eight measurements at the first batch
LARGEST = 1e6  # phi over the first batch: beyond, every batch is as good as any


class NoiseMeter:
    """`begin` before each step says whether it is measured; then `local` gets this worker's gradients, `total` the
    averaged ones, and `finish` the sums over all workers. A single worker pairs the gradients of two steps."""

    def __init__(self, init_batch: int, optimizer: Any) -> None:
        self.noise = NoiseScale(init_batch)
        self.measuring = False
        self.cost = 0.0
        """Seconds that this worker spent on the last step that was measured to its end."""
        self._spent = 0.0
        self.optimizer = optimizer
        self._every = 1
        self._wait = 0
        self.local_sqr = 0.0
        """|g|^2 of this worker in this step, as far as it was measured."""
        self._total = 0.0
        self._previous: tuple[int, float, list[torch.Tensor]] | None = None

    @property
    def phi(self) -> float | None:
        """Samples; None until enough was measured."""
        if self.noise.weight < ENOUGH:
            return None
        phi = self.noise.phi
        return LARGEST * self.noise.init_batch if phi is None else min(phi, LARGEST * self.noise.init_batch)

    def begin(self) -> None:
        self.measuring = self._wait <= 0 or self._previous is not None
        self.local_sqr = self._total = self._spent = 0.0

    def local(self, parameters: Iterable[torch.Tensor], gradients: Iterable[torch.Tensor]) -> None:
        """May be called for parts of the gradient, each once."""
        began = time.perf_counter()
        self.local_sqr += self.squared(parameters, gradients)
        self._spent += time.perf_counter() - began

    def total(self, parameters: Iterable[torch.Tensor], batch: int, workers: int) -> None:
        """With the averaged gradients still in the parameters."""
        began = time.perf_counter()
        parameters = [p for p in parameters if p.grad is not None and not p.grad.is_sparse]
        self._total = self.squared(parameters, [p.grad for p in parameters])
        if workers == 1:
            self._pair(parameters, batch)
        self.cost = self._spent + time.perf_counter() - began

    def finish(self, local_sum: float, measured: float, workers: int, batch: int) -> None:
        """`local_sum` over the `measured` workers; the averaged gradient is the same for all."""
        if workers > 1 and round(measured) == workers:
            self.noise.update(local_sum / workers, self._total, workers, batch)

    def pace(self, cost: float, step: float, workers: int) -> None:
        """`cost` and `step` in seconds, the same on all workers: how long to pause."""
        if self.measuring:
            self._every = max(1, min(LONGEST, math.ceil(cost / (BUDGET * max(step, 1e-9)))))
            self._wait = self._every if workers > 1 or self._every == 1 else 2 * self._every  # a pair is two steps
        self._wait -= 1

    def forget_pair(self) -> None:
        """Before the batch or the weights change in another way than by a step."""
        self._previous = None

    def _pair(self, parameters: list[torch.Tensor], batch: int) -> None:
        weights = self._weights(parameters)
        scaled = [p.grad.detach() * w if w is not None else p.grad.detach().clone()
                  for p, w in zip(parameters, weights)]  # fmt: skip
        previous, self._previous = self._previous, (batch, self._total, scaled)
        if previous is not None and previous[0] == batch and len(previous[2]) == len(scaled):
            both = [(a + b) / 2 for a, b in zip(previous[2], scaled)]
            self.noise.update_pair(previous[1], self._total, _norms(both), batch)
            if self._every > 1:
                self._previous = None  # the next pair comes later

    def squared(self, parameters: Iterable[torch.Tensor], gradients: Iterable[torch.Tensor]) -> float:
        """|g|^2; for Adam and its like of the preconditioned gradient, which is what such a step follows."""
        kept = [(p, g) for p, g in zip(parameters, gradients) if not g.is_sparse]
        if not kept:
            return 0.0
        weights = self._weights([p for p, _ in kept])
        return _norms([g if w is None else g * w for (_, g), w in zip(kept, weights)])

    def _weights(self, parameters: list[torch.Tensor]) -> list[torch.Tensor | None]:
        groups = {id(p): group for group in self.optimizer.param_groups for p in group["params"]}
        found: list[torch.Tensor | None] = []
        for parameter in parameters:
            state = self.optimizer.state.get(parameter, {})
            if "exp_avg_sq" in state:
                group = groups[id(parameter)]
                corrected = state["exp_avg_sq"] / (1 - group["betas"][1] ** max(float(state["step"]), 1.0))
                found.append(1 / (corrected.sqrt() + group["eps"]))
            else:
                found.append(None)
        return found


def _norms(tensors: list[torch.Tensor]) -> float:
    """Sum of squares over all."""
    if hasattr(torch, "_foreach_norm"):
        norms = torch._foreach_norm([t.float() for t in tensors])
    else:  # PyTorch before 1.12
        norms = [t.float().norm() for t in tensors]
    return float(torch.stack([n.to(norms[0].device) for n in norms]).double().pow(2).sum())
