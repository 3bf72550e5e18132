"""SDK for PyTorch Lightning. A script needs two lines:

    import schedulearn.worker.lightning as worker

    trainer = Trainer(..., strategy=worker.Strategy(), callbacks=[worker.Callback()])

The batch of the training DataLoader is then that of all workers together. `Strategy` is Lightning's DDP, on the workers
that the job has. Outside Schedulearn it is plain DDP with that batch, and nothing is measured, reported or saved.
"""

from __future__ import annotations

import math
import os
import sys
from typing import Any

import torch

from schedulearn.worker.torch.fixed_steps import FixedLoader, FixedRun, options_of

if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:  # the same library by its older name
    import pytorch_lightning as pl
    from lightning_fabric.plugins.environments import TorchElasticEnvironment
    from pytorch_lightning.strategies import DDPStrategy
else:
    import lightning.pytorch as pl
    from lightning.fabric.plugins.environments import TorchElasticEnvironment
    from lightning.pytorch.strategies import DDPStrategy


class _Workers(TorchElasticEnvironment):  # type: ignore[misc]
    """Workers that somebody else has started, as their variables say."""

    def validate_settings(self, num_devices: int, num_nodes: int) -> None:
        """Accept what the script says of devices and hosts: the job has others after a resize."""


class Strategy(DDPStrategy):  # type: ignore[misc]
    """DDP on the workers of the job. `options`: those of Lightning's DDPStrategy."""

    def __init__(self, **options: Any) -> None:
        self._launched = "RANK" in os.environ and "WORLD_SIZE" in os.environ
        if self._launched:
            options["cluster_environment"] = _Workers()
        super().__init__(**options)
        self.callback: Callback | None = None

    @property
    def parallel_devices(self) -> Any:
        return self._parallel_devices

    @parallel_devices.setter
    def parallel_devices(self, devices: Any) -> None:
        if devices and self._launched:
            count, kind = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), devices[0].type
            devices = [torch.device(kind) if kind == "cpu" else torch.device(kind, index) for index in range(count)]
        self._parallel_devices = devices

    @property
    def num_nodes(self) -> int:
        return int(os.environ.get("GROUP_WORLD_SIZE", "1")) if self._launched else int(self._num_nodes)

    @num_nodes.setter
    def num_nodes(self, count: int) -> None:
        self._num_nodes = count

    def setup(self, trainer: Any) -> None:
        if self.callback is None and trainer.state.fn == "fit":
            raise ValueError("worker.Strategy needs its callback: Trainer(..., callbacks=[worker.Callback()])")
        super().setup(trainer)

    def process_dataloader(self, dataloader: Any) -> Any:
        if self.callback is None or self.callback.trainer is None or not self.callback.trainer.training:
            return dataloader
        return self.callback.loader(dataloader)


class Callback(pl.Callback):  # type: ignore[misc]
    """Callback that reports, measures, saves and continues. `seed`: of the order of the samples."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.trainer: Any = None
        self.run: FixedRun | None = None
        self._logged: dict[str, float] = {}

    # --- called by Lightning, in this order ---

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        if not isinstance(trainer.strategy, Strategy):
            raise ValueError("worker.Callback needs its strategy: Trainer(..., strategy=worker.Strategy())")
        if trainer.accumulate_grad_batches != 1:
            many = trainer.accumulate_grad_batches
            said = (
                f"accumulate_grad_batches={many} is not supported: use 1, and a DataLoader with {many} times the batch"
            )
            raise ValueError(said)
        if self.run is not None:
            raise ValueError("worker.Callback is for one call of fit: make another one, and another Trainer")
        self.trainer = trainer
        trainer.strategy.callback = self

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        # The first use of the loader says what the batch is; the run restores before Lightning restores its loops.
        trainer.fit_loop.setup_data()
        run = self._run_of(trainer)
        if len(trainer.fit_loop._combined_loader.flattened) != 1:
            raise ValueError("several training DataLoaders are not supported: combine their data sets into one")
        for optimizer in trainer.strategy.optimizers:
            run.optimizer(optimizer, trainer.strategy.model)
            _compute_first(optimizer)
        run.state_of = lambda: trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        run.restore_state = self._restore
        epochs = trainer.max_epochs if trainer.max_epochs not in (None, -1) else None
        run.begin(epochs or max(1, math.ceil(trainer.max_steps / trainer.num_training_batches)))
        if epochs is not None:
            trainer.fit_loop.max_epochs = run.total_epochs

    def on_sanity_check_start(self, trainer: Any, pl_module: Any) -> None:
        self._run_of(trainer).catch_sigterm()  # Lightning has put its own handler in place since

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._run_of(trainer).catch_sigterm()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._run_of(trainer).computed()
        if (batch_idx + 1) % max(1, trainer.log_every_n_steps) == 0:
            self._log(trainer)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._log(trainer)
        self._run_of(trainer).finish_epoch()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._run_of(trainer).close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self.run is not None and self.run.total_epochs is not None:
            self.run.close()

    # --- the rest ---

    def loader(self, dataloader: Any) -> FixedLoader:
        """Return the run's loader in place of the script's."""
        batch, options = options_of(dataloader)
        if self.run is None:
            self.run = FixedRun("Lightning", batch, self._seed)
        limit, whole = self.trainer.limit_train_batches, -(-len(dataloader.dataset) // self.run.batch.total)
        steps = limit if isinstance(limit, int) else None if limit == 1.0 else max(1, int(limit * whole))
        return FixedLoader(self.run, dataloader.dataset, options, steps)

    def _run_of(self, trainer: Any) -> FixedRun:
        if self.run is None:
            raise ValueError("worker.Callback found no training data: give fit a DataLoader or a data module")
        return self.run

    def _restore(self, state: Any) -> None:
        connector = self.trainer._checkpoint_connector
        connector._loaded_checkpoint = state  # Lightning restores loops, optimizers and schedules from it next
        connector.restore_model()
        connector.restore_datamodule()
        connector.restore_callbacks()

    def _log(self, trainer: Any) -> None:
        """Log the metrics that changed since the last time."""
        found = {name: float(value) for name, value in trainer.callback_metrics.items() if torch.numel(value) == 1}
        changed = {name: value for name, value in found.items() if self._logged.get(name) != value}
        self._logged.update(changed)
        self._run_of(trainer).log(**changed)


def _compute_first(optimizer: Any) -> None:
    """Make `optimizer` compute its gradients before the run looks at them.

    Lightning computes them in a closure of the optimizer's step."""
    step = optimizer.step
    if isinstance(optimizer, torch.optim.LBFGS):
        return

    def step_after(closure: Any = None) -> Any:
        if closure is None:
            return step()
        with torch.enable_grad():
            loss = closure()
        step()
        return loss

    step_after.__dict__.update(getattr(step, "__dict__", {}))  # a schedule's mark: it warns if it finds none
    optimizer.step = step_after
