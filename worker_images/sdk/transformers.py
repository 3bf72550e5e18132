"""SDK for the Trainer of Hugging Face Transformers. A script needs two lines:

    import schedulearn.worker.transformers as worker

    worker.train(trainer)                                  # instead of trainer.train()

`per_device_train_batch_size` is then the batch of all workers together. Outside Schedulearn nothing is measured,
reported or saved, and training is the same.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from dataclasses import asdict
from typing import Any

import transformers.trainer
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState, TrainerState

from schedulearn.worker.torch.fixed_steps import FixedLoader, FixedRun, options_of

STATE_FILE = "trainer_state.json"  # where the Trainer looks for the steps that were done
NOT_METRICS = ("epoch", "step", "total_flos")
NOT_METRICS_END = ("_runtime", "_per_second")


def train(trainer: Any, resume_from_checkpoint: Any = None, **options: Any) -> Any:
    """Run `trainer.train`, from where the previous attempt of the job stopped.

    `resume_from_checkpoint` and `options` are those of `trainer.train`; the first attempt begins with them."""
    _refuse(trainer)
    run = _TrainerRun(trainer)
    run.begin(_epochs(trainer, run.data))
    if run.env is not None and run.env.epochs is not None:
        trainer.args.num_train_epochs, trainer.args.max_steps = run.env.epochs, -1
    trainer.get_train_dataloader = lambda: run.data
    trainer.add_callback(_Callback(run))
    try:
        if run.restored is None:
            return trainer.train(resume_from_checkpoint=resume_from_checkpoint, **options)
        with tempfile.TemporaryDirectory(prefix="schedulearn-") as folder:
            with open(os.path.join(folder, STATE_FILE), "w", encoding="utf-8") as file:
                file.write(json.dumps(run.restored["state"]))
            run.restore_on_train()
            return trainer.train(resume_from_checkpoint=folder, **options)
    finally:
        run.close()
        trainer.remove_callback(_Callback)


def _refuse(trainer: Any) -> None:
    """Raise ValueError for what can't be resized."""
    steps = trainer.args.gradient_accumulation_steps
    if steps != 1:
        wanted = f"1, and per_device_train_batch_size={steps * trainer.args.per_device_train_batch_size}"
        raise ValueError(f"gradient_accumulation_steps={steps} is not supported: use {wanted}, for all GPUs together")
    for name, there in {"DeepSpeed": "is_deepspeed_enabled", "FSDP": "is_fsdp_enabled"}.items():
        if getattr(trainer, there, False):
            raise ValueError(f"the Trainer with {name} is not supported: train with DDP, or without the SDK")
    if trainer.args.n_gpu > 1:
        raise ValueError("DataParallel is not supported: set the job's launcher to torchrun")


def _epochs(trainer: Any, data: FixedLoader) -> int:
    if trainer.args.max_steps > 0:
        return -(-int(trainer.args.max_steps) // len(data))
    return math.ceil(float(trainer.args.num_train_epochs))


class _TrainerRun(FixedRun):
    def __init__(self, trainer: Any) -> None:
        loader = trainer.get_train_dataloader()
        batch, options = options_of(loader)
        super().__init__("the Trainer", batch, trainer.args.data_seed or trainer.args.seed)
        self._trainer = trainer
        self.data = FixedLoader(self, loader.dataset, options)
        # The loss of such a model is already the sum over all workers, divided by the labels of all.
        divides = getattr(trainer, "model_accepts_loss_kwargs", False) or trainer.compute_loss_func is not None
        self.weighs = not (divides and trainer.args.average_tokens_across_devices)
        self.state_of, self.restore_state = self._state, self._keep
        self.restored: dict[str, Any] | None = None
        self._random: dict[str, Any] | None = None

    def set_random_state(self, state: dict[str, Any]) -> None:
        self._random = state  # of the moment before the first step: the Trainer draws some until then
        super().set_random_state(state)

    def restore_on_train(self) -> None:
        """Make the Trainer load what was restored, in place of the files of a folder."""
        trainer, restored = self._trainer, self.restored
        assert restored is not None
        trainer.args.restore_callback_states_from_checkpoint = True
        trainer._load_from_checkpoint = lambda *_, **__: trainer.model.load_state_dict(restored["model"])
        trainer._load_optimizer_and_scheduler = lambda _: self._load(restored)
        trainer._load_scaler = lambda _: None  # of `_load_optimizer_and_scheduler`
        trainer._load_rng_state = lambda _: self._random and super(_TrainerRun, self).set_random_state(self._random)
        skip = transformers.trainer.skip_first_batches
        if not getattr(skip, "knows_ours", False):

            def skip_unless_ours(data: Any, *arguments: Any, **options: Any) -> Any:
                return data if isinstance(data, FixedLoader) else skip(data, *arguments, **options)

            skip_unless_ours.knows_ours = True  # type: ignore[attr-defined]
            transformers.trainer.skip_first_batches = skip_unless_ours

    def _state(self) -> dict[str, Any]:
        trainer = self._trainer
        state: TrainerState = trainer.state
        exported = [each for each in [*trainer.callback_handler.callbacks, trainer.control] if _is_exported(each)]
        callbacks: dict[str, Any] = {}
        for each in exported:
            callbacks.setdefault(type(each).__name__, []).append(each.state())
        scaler = getattr(trainer.accelerator, "scaler", None)
        return {
            "state": {**asdict(state), "stateful_callbacks": callbacks},
            "model": trainer.model.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
            "schedule": trainer.lr_scheduler.state_dict(),
            "scaler": scaler.state_dict() if scaler is not None else None,
        }

    def _keep(self, state: dict[str, Any]) -> None:
        self.restored = state

    def _load(self, restored: dict[str, Any]) -> None:
        trainer = self._trainer
        trainer.optimizer.load_state_dict(restored["optimizer"])
        trainer.lr_scheduler.load_state_dict(restored["schedule"])
        if restored["scaler"] is not None and trainer.accelerator.scaler is not None:
            trainer.accelerator.scaler.load_state_dict(restored["scaler"])


def _is_exported(thing: Any) -> bool:
    return isinstance(thing, ExportableState)


class _Callback(TrainerCallback):  # type: ignore[misc]
    """Callback that measures, and reports what the Trainer logs."""

    def __init__(self, run: _TrainerRun) -> None:
        self._run = run

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        trainer = self._run._trainer
        self._run.optimizer(trainer.optimizer.optimizer, trainer.model_wrapped)
        self._run.catch_sigterm()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._run.computed()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._run.finish_epoch()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        found = {}
        for name, value in (logs or {}).items():
            if name not in NOT_METRICS and not name.endswith(NOT_METRICS_END):
                try:
                    found[name] = float(value)
                except (TypeError, ValueError):
                    pass
        self._run.log(**found)
