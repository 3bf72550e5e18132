"""Gradient noise of PyTorch training."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Sequence

import torch

from schedulearn.worker.batch.noise_meter import NoiseMeter

FIRST_STEPS = 10
MIN_MOMENT = 0.01
"""Minimum second moment, as a share of the tensor's mean second moment.

A parameter may seldom have a gradient, like a rare word's embedding. It has almost no moment by the time a gradient
comes. Without the minimum, it alone would be all of the noise."""


class TorchNoiseMeter(NoiseMeter):
    def __init__(self, init_batch: int, optimizer: Any) -> None:
        super().__init__(init_batch)
        self.optimizer = optimizer

    @property
    def due(self) -> bool:
        """Whether the next step is measured.

        Adam's first steps are not: it scales them by very few gradients."""
        return super().due and (self.optimizer is None or not self._begins())

    @property
    def share(self) -> float:
        """Share of the newest gradient in Adam's second moment.

        Adam corrects the moment for its start from nothing: at first each gradient weighs more."""
        if self.optimizer is None:
            return 0.0
        group, state = self._first_state()
        if "exp_avg_sq" not in state or "adam" not in type(self.optimizer).__name__.lower():
            return 0.0
        if group.get("amsgrad"):  # it never forgets the largest
            return 1e-12
        decay = float(group["betas"][1])
        return float((1 - decay) / (1 - decay ** max(1.0, float(state["step"]))))

    def _begins(self) -> bool:
        group, state = self._first_state()
        if "betas" not in group:
            return False
        return float(state.get("step", 0)) < FIRST_STEPS

    def _first_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a group of the optimizer, and its state for a parameter that it has trained."""
        group = self.optimizer.param_groups[0]
        states = (self.optimizer.state.get(parameter) for parameter in group["params"])
        return group, next((state for state in states if state), {})

    def norms(self, gradients: Sequence[torch.Tensor]) -> Any:
        """Return the sum of squares over all gradients.

        For gradients on a GPU the sum stays there, so that nothing waits for it; `float` does."""
        if not gradients:
            return 0.0
        if hasattr(torch, "_foreach_norm"):
            norms = torch._foreach_norm([g.float() for g in gradients])
        else:  # PyTorch before 1.12
            norms = [g.float().norm() for g in gradients]
        total = torch.stack([n.to(norms[0].device) for n in norms]).double().pow(2).sum()
        return total if total.is_cuda else float(total)

    def copies(self, gradients: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [g.detach().clone() for g in gradients]

    def conditioned(
        self, parameters: Iterable[torch.Tensor], gradients: Iterable[torch.Tensor | None]
    ) -> Iterator[torch.Tensor]:
        """Yield the optimizer's dense gradients.

        For Adam and its like they are preconditioned, as the optimizer's step follows them."""
        groups = {id(p): group for group in self.optimizer.param_groups for p in group["params"]}
        for parameter, gradient in zip(parameters, gradients):
            if gradient is None or gradient.is_sparse or id(parameter) not in groups:
                continue
            state = self.optimizer.state.get(parameter, {})
            if "exp_avg_sq" in state:
                group = groups[id(parameter)]
                corrected = state["exp_avg_sq"] / (1 - group["betas"][1] ** max(float(state["step"]), 1.0))
                moment = torch.maximum(corrected, MIN_MOMENT * corrected.mean())
                yield gradient * (moment > 0) / (moment.sqrt() + group["eps"])
            else:
                yield gradient
