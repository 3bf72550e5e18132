"""Checkpoints of models whose parameters are spread over the workers (FSDP2), by Distributed Checkpoint.

Each worker writes its own part, into a folder beside the run's checkpoint. Any number of workers can load it.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Mapping, Sequence

import torch


def is_sharded(model: Any) -> bool:
    """Whether `fully_shard` was applied to `model`."""
    kind = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    return kind is not None and isinstance(model, kind)


class Shards:
    """Sharded models and their optimizers. `group`: workers that save and load together."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self.optimizers: list[tuple[Any, Any]] = []
        """(model, optimizer)."""

    def save(self, models: Mapping[str, Any], folder: str) -> None:
        """Write `models` and all optimizers. Raises the same error on all workers."""
        from torch.distributed import checkpoint as dcp

        writer = dcp.FileSystemWriter(folder, sync_files=True)
        dcp.save(self._states(models), storage_writer=writer, process_group=self._group)

    def load(self, models: Mapping[str, Any], folder: str) -> None:
        from torch.distributed import checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import set_model_state_dict, set_optimizer_state_dict

        states = self._states(models)
        dcp.load(states, storage_reader=dcp.FileSystemReader(folder), process_group=self._group)
        for name, model in models.items():
            set_model_state_dict(model, states["models"][name])
        for index, (model, optimizer) in enumerate(self.optimizers):
            state = states["optimizers"][str(index)]
            keep_groups(optimizer, lambda m=model, o=optimizer, s=state: set_optimizer_state_dict(m, o, s))  # type: ignore[misc]

    def _states(self, models: Mapping[str, Any]) -> dict[str, Any]:
        from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict

        optimizers = {
            str(index): get_optimizer_state_dict(model, optimizer)
            for index, (model, optimizer) in enumerate(self.optimizers)
        }
        return {"models": {n: get_model_state_dict(m) for n, m in models.items()}, "optimizers": optimizers}


def weigh_gradients(model: Any, weight: Callable[[], float]) -> None:
    """Multiply the gradients of `model` by `weight()`, whose value in a forward pass counts for its backward pass.

    FSDP averages gradients before a hook could see them. All of them follow from the gradient of the output."""
    from torch.utils._pytree import tree_map_only

    def scale(_: Any, __: Any, output: Any) -> Any:
        factor = weight()
        if factor != 1.0:
            tree_map_only(torch.Tensor, lambda tensor: _scale(tensor, factor), output)
        return output

    model.register_forward_hook(scale)


def _scale(tensor: Any, factor: float) -> Any:
    if tensor.requires_grad:
        tensor.register_hook(lambda gradient: gradient * factor)
    return tensor


def keep_groups(optimizer: Any, load: Callable[[], Any]) -> None:
    """Call `load`, which loads the optimizer's state, and keep the parameter groups.

    Loading makes new groups; a schedule made before would go on changing the old ones."""
    groups: Sequence[dict[str, Any]] = list(optimizer.param_groups)
    load()
    for old, new in zip(groups, optimizer.param_groups):
        old.update(new)
    optimizer.param_groups[:] = groups
