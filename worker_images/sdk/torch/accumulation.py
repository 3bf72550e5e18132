"""Accumulation of gradients in a side buffer, until a step's last micro-step."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Iterable

import torch

from schedulearn.worker.order import Pass

Arrived = Callable[[Any, Any], None]
SCALER: Any = next(each for each in torch.cuda.amp.GradScaler.__mro__ if "update" in vars(each))
"""torch.amp.GradScaler, which PyTorch before 2.3 has only by its old name."""


class Accumulation:
    """Gradients of this worker's micro-steps, each weighted by its samples.

    Hooks take each gradient before PyTorch adds it to `.grad`. After an earlier micro-step a script finds zeros there,
    and what it does to them changes nothing. After the last micro-step `.grad` holds the whole step's gradient.
    Clipping, GradScaler and norms then see what they would see in a step of one micro-step.

    `arrived` is called in the last micro-step, with a parameter and what is about to be added to its `.grad`."""

    def __init__(self, arrived: Arrived) -> None:
        self._arrived = arrived
        self._this: Pass | None = None
        self._hooked: dict[Any, Any] = {}
        """Parameter -> its AccumulateGrad node, which would otherwise be freed with its hook."""
        self._fresh: dict[Any, Any] = {}
        """Gradients of this micro-step that no step has taken yet: `zero_grad` drops them."""
        self._kept: dict[Any, Any] = {}
        """Sums over the earlier micro-steps, until the step is done."""
        self._missing: set[Any] = set()
        """Parameters whose `.grad` lacks the sum of earlier micro-steps."""

    def hook(self, parameters: Iterable[Any]) -> None:
        for parameter in parameters:
            if parameter not in self._hooked:
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
                self._hooked[parameter] = node
                if hasattr(node, "register_prehook"):
                    node.register_prehook(partial(self._take_first, parameter))
                else:  # PyTorch before 2.0
                    parameter.register_hook(partial(self._take, parameter))

    def begin_pass(self, this: Pass) -> None:
        self._this = this
        self._fresh.clear()
        if this.first:
            self._kept.clear()
            self._missing.clear()

    def keep(self, parameters: Iterable[Any]) -> None:
        """Add the gradients of this micro-step to the sums.

        It is called where the optimizer of these parameters would step, but the step goes on."""
        for parameter in parameters:
            gradient = self._fresh.pop(parameter, None)
            if gradient is not None:
                self._kept[parameter] = _sum(self._kept.get(parameter), gradient)
                self._missing.add(parameter)

    def forget(self, parameters: Iterable[Any]) -> None:
        """Note that the parameters' `.grad` is zero again; the sums of earlier micro-steps stay."""
        for parameter in parameters:
            self._fresh.pop(parameter, None)
            if parameter in self._kept:
                self._missing.add(parameter)

    def free(self, parameters: Iterable[Any]) -> None:
        """Drop the sums of these parameters, whose step is done."""
        for parameter in parameters:
            self._kept.pop(parameter, None)
            self._missing.discard(parameter)

    def _take_first(self, parameter: Any, gradients: tuple[Any]) -> tuple[Any] | None:
        found = self._take(parameter, gradients[0])
        return None if found is None else (found,)

    def _take(self, parameter: Any, gradient: Any) -> Any:
        """Return what is added to `.grad` in place of `gradient`; None: `gradient` itself."""
        this = self._this
        if this is None or gradient is None:
            return None
        if parameter.grad is None:
            self.forget([parameter])
        weighted = gradient if this.weight == 1.0 else gradient * this.weight
        if not this.last:
            self._fresh[parameter] = _sum(self._fresh.get(parameter), weighted.detach())
            return torch.zeros_like(gradient) if gradient.is_sparse else gradient.new_zeros(()).expand_as(gradient)
        # All of them: this micro-step may leave some parameters without a gradient.
        for each in self._missing:
            each.grad = self._kept[each].clone() if each.grad is None else each.grad + self._kept[each]
        self._missing.clear()
        self._arrived(parameter, weighted)
        return None if weighted is gradient else weighted


def hold_scalers(between_passes: Callable[[], bool]) -> None:
    """Make `GradScaler.update` do nothing between two micro-steps of a step, which must have one scale."""
    update = SCALER.update

    def update_once_a_step(self: Any, *arguments: Any, **options: Any) -> None:
        if not between_passes():
            update(self, *arguments, **options)
        elif self.is_enabled():
            self._per_optimizer_states.clear()  # the next micro-step is unscaled and checked anew

    SCALER.update = update_once_a_step


def _sum(before: Any, gradient: Any) -> Any:
    return gradient if before is None else before.add_(gradient)
