"""What an optimizer is made to do besides: weigh uneven shares, measure, scale its learning rate, accumulate."""

from __future__ import annotations

import time
import types
from typing import TYPE_CHECKING, Any

import torch

from schedulearn.worker.instruments import Instruments
from schedulearn.worker.order import Pass
from schedulearn.worker.torch.noise import TorchNoiseMeter

if TYPE_CHECKING:
    from schedulearn.worker.run import Run


class TorchInstruments(Instruments):
    """Made before Horovod wraps the optimizer, since hooks run in the order in which they were made; then attached to
    what the script will use."""

    meter: TorchNoiseMeter

    def __init__(self, run: Run, optimizer: Any) -> None:
        super().__init__(run, TorchNoiseMeter(run.batch.bounds.init_batch, optimizer))
        self._parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        self._model: Any = None
        self._factor = 1.0
        self._computed_at = 0.0
        self._accumulators: list[Any] = []
        if self._workers.name == "horovod" and self._workers.size > 1:
            self._hook_gradients()

    def attach(self, optimizer: Any, model: Any) -> None:
        self.meter.optimizer = optimizer
        self._step, self._zero_grad = optimizer.step, optimizer.zero_grad
        # A method of the optimizer, not of ours: schedules bind it anew.
        optimizer.step = types.MethodType(lambda _, closure=None: self._patched_step(closure), optimizer)
        optimizer.zero_grad = self._patched_zero_grad
        self._optimizer = optimizer
        if self._workers.name == "horovod":
            self._synchronize = optimizer.synchronize
            optimizer.synchronize = self._patched_synchronize
        elif self._workers.name == "torchrun" and self._workers.size > 1:
            if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
                raise ValueError("with torchrun, give Run.optimizer the DistributedDataParallel as its model")
            self._model = model
            model.register_comm_hook(None, lambda state, bucket: self._on_bucket(bucket))

    def regroup(self) -> None:
        super().regroup()
        if self._workers.size > 1 and not self._accumulators:
            self._hook_gradients()
            self._optimizer._register_hooks()  # Horovod's own, which it makes only where there are others at first

    def begin_pass(self, this: Pass) -> None:
        super().begin_pass(this)
        if this.first:
            self._computed_at = 0.0
            self._factor = this.weight / this.passes
            if self._workers.name == "horovod" and self._optimizer.backward_passes_per_step != this.passes:
                self._optimizer.set_backward_passes_per_step(this.passes)
        if self._model is not None:
            self._model.require_backward_grad_sync = this.last

    def _hook_gradients(self) -> None:
        for parameter in self._parameters:
            accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            accumulator.register_hook(self._hook(parameter))
            self._accumulators.append(accumulator)  # else it would be forgotten, with its hook

    def _hook(self, parameter: Any) -> Any:
        def hook(*_: Any) -> None:
            if self.this is not None and self.this.last:
                if self._factor != 1.0:
                    parameter.grad.mul_(self._factor)
                if self.meter.measuring and self._workers.size > 1:
                    self.meter.local(self.meter.conditioned([parameter], [parameter.grad]))

        return hook

    def _on_bucket(self, bucket: Any) -> Any:
        """A part of the gradient is computed; DistributedDataParallel calls this instead of averaging by itself."""
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        if self._factor != 1.0:
            bucket.buffer().mul_(self._factor)
        if self.meter.measuring:
            self.meter.local(self.meter.conditioned(bucket.parameters(), bucket.gradients()))
            if bucket.buffer().is_cuda:
                torch.cuda.synchronize()
        self._computed_at = time.perf_counter()
        return allreduce_hook(self._model.process_group, bucket)

    def _patched_zero_grad(self, *arguments: Any, **options: Any) -> Any:
        if self.this is None or self.this.first:
            return self._zero_grad(*arguments, **options)
        return None

    def _patched_synchronize(self) -> None:
        """Horovod's waiting for the averages; the script calls it, or `step` does."""
        if self.this is not None and not self.this.last:
            return
        if self.meter.measuring and torch.cuda.is_available():
            torch.cuda.synchronize()
        self._weigh_alone()
        self.tell()
        began = time.perf_counter()
        self._synchronize()
        self.sync_s = (self.sync_s or 0.0) + time.perf_counter() - began
        self._averaged()

    def _patched_step(self, closure: Any = None) -> Any:
        this = self.this
        if this is None:
            return self._step(closure)
        if not this.last:
            return None
        if self._workers.name != "horovod":
            if self._computed_at:
                self.sync_s = max(0.0, time.perf_counter() - self._computed_at)
            self._weigh_alone()
            self.tell()
            self._averaged()
            return self._scaled_step(closure)
        if self._optimizer._should_synchronize:
            self._optimizer.synchronize()
        with self._optimizer.skip_synchronize():
            return self._scaled_step(closure)

    def _scaled_step(self, closure: Any) -> Any:
        factor = self._run.learning_rate_factor()
        if factor == 1.0:
            return self._step(closure)
        rates = [group["lr"] for group in self._optimizer.param_groups]
        for group in self._optimizer.param_groups:
            group["lr"] = group["lr"] * factor
        try:
            return self._step(closure)
        finally:
            for group, rate in zip(self._optimizer.param_groups, rates):
                group["lr"] = rate

    def _weigh_alone(self) -> None:
        """What the hooks do where there are others."""
        if self._workers.size == 1 and self._factor != 1.0 and not self._accumulators:
            for parameter in self._parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(self._factor)

    def _averaged(self) -> None:
        if self.meter.measuring and self.this is not None:
            averaged = self.meter.conditioned(self._parameters, [p.grad for p in self._parameters])
            self.meter.total(averaged, self.this.samples, self._workers.size)
