"""SDK for loops with Hugging Face Accelerate. A script needs three lines:

    import schedulearn.worker.accelerate as worker

    run, loader = worker.adapt(accelerator, loader, model=model, optimizer=optimizer, schedule=schedule)
    for epoch in run.epochs(20):                           # continues where the previous attempt stopped

`batch_size` of the loader is then that of all workers together. What `accelerator.log` gets is reported. Outside
Schedulearn nothing is measured, reported or saved.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Iterable, Iterator

from accelerate.optimizer import AcceleratedOptimizer
from accelerate.scheduler import AcceleratedScheduler
from accelerate.utils import send_to_device

from schedulearn.worker import loader as common_loader
from schedulearn.worker.torch.fixed_steps import FixedLoader, FixedRun, options_of
from schedulearn.worker.torch.shards import keep_groups

SUPPORTED = ("NO", "MULTI_CPU", "MULTI_GPU")
"""Kinds of training: one process, or DistributedDataParallel."""


def adapt(accelerator: Any, loader: Any, *, seed: int = 0, **states: Any) -> tuple[AccelerateRun, FixedLoader]:
    """Return the run, and the loader in place of `loader`. Call it after `accelerator.prepare`.

    `states`: what a checkpoint holds, by name: `model`, optimizers, schedules, anything with `state_dict`. Raises
    ValueError for what can't be resized."""
    steps = accelerator.gradient_accumulation_steps
    if steps != 1:
        raise ValueError(f"gradient_accumulation_steps={steps} is not supported: use 1, and {steps} times the batch")
    kind = str(accelerator.distributed_type.value)
    if kind not in SUPPORTED:
        raise ValueError(f"Accelerate with {kind} is not supported: train with DDP, or without the SDK")
    if "model" not in states or not any(isinstance(thing, AcceleratedOptimizer) for thing in states.values()):
        raise ValueError("give adapt the model and its optimizer, as accelerator.prepare returned them")
    batch, options = options_of(loader)
    run = AccelerateRun(accelerator, batch, seed, states)
    return run, _Loader(run, loader.dataset, options)


class AccelerateRun(FixedRun):
    def __init__(self, accelerator: Any, batch_size: int, seed: int, states: dict[str, Any]) -> None:
        super().__init__("the adapter of Accelerate", batch_size, seed)
        self.accelerator = accelerator
        self._things = states
        self.state_of, self.restore_state = self._state, self._load
        for thing in states.values():
            if isinstance(thing, AcceleratedOptimizer):
                self.optimizer(thing.optimizer, states["model"])
            elif isinstance(thing, AcceleratedScheduler):
                thing.split_batches = True  # a step is one step on any number of workers
        log = accelerator.log

        def log_and_report(values: dict[str, Any], *arguments: Any, **options: Any) -> None:
            log(values, *arguments, **options)
            self.log(**{name: float(value) for name, value in values.items() if _is_number(value)})

        accelerator.log = log_and_report

    def epochs(self, total: int, **states: Any) -> Iterator[int]:
        """Yield the numbers of the epochs left of `total`. `states`: more of what a checkpoint holds."""
        self._things.update(states)
        self.begin(total)
        try:
            while self.epoch < (self.total_epochs or 0):
                yield self.epoch
                self.finish_epoch()
        finally:
            self.close()

    def _state(self) -> dict[str, Any]:
        found = {name: self._plain(thing).state_dict() for name, thing in self._things.items()}
        scaler = self.accelerator.scaler
        return {"states": found, "scaler": scaler.state_dict() if scaler is not None else None}

    def _load(self, state: dict[str, Any]) -> None:
        for name, thing in self._things.items():
            if name not in state["states"]:
                continue
            load = partial(self._plain(thing).load_state_dict, state["states"][name])
            if isinstance(thing, AcceleratedOptimizer):
                keep_groups(thing.optimizer, load)
            else:
                load()
        if state["scaler"] is not None and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(state["scaler"])

    def _plain(self, thing: Any) -> Any:
        return self.accelerator.unwrap_model(thing) if hasattr(thing, "parameters") else thing


class _Loader(FixedLoader):
    run: AccelerateRun

    def fetch(self, batches: common_loader.Batches) -> Iterable[Any]:
        device = self.run.accelerator.device
        return (send_to_device(data, device) for data in super().fetch(batches))


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
