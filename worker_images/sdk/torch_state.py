"""What a checkpoint of a PyTorch job holds besides the script's own states."""

from __future__ import annotations

import random
from typing import Any, Iterable, Sequence

import numpy as np
import torch


def load(path: str) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=False)  # our own file, by its checksum
    except TypeError:  # PyTorch before 1.13
        return torch.load(path, map_location="cpu")


def load_optimizer(optimizer: Any, state: Any) -> None:
    """`load_state_dict` makes new groups; a schedule made before would go on turning the old ones."""
    groups: Iterable[dict[str, Any]] = list(optimizer.param_groups)
    optimizer.load_state_dict(state)
    for old, new in zip(groups, optimizer.param_groups):
        old.update(new)
    optimizer.param_groups[:] = groups


def random_state() -> dict[str, Any]:
    state = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(states: Sequence[dict[str, Any]], rank: int, seed: int) -> None:
    """A worker that was there before goes on with its own; a new one begins with one that nobody has."""
    if rank >= len(states):
        torch.manual_seed(seed * 4096 + rank)
        random.seed(seed * 4096 + rank)
        np.random.seed((seed * 4096 + rank) % (1 << 32))
        return
    state = states[rank]
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
