"""What an optimizer is made to do besides: weigh uneven shares, measure, scale its learning rate, accumulate."""

from __future__ import annotations

import sys
import time
import types
from typing import TYPE_CHECKING, Any, Callable, Iterable

import torch

from schedulearn.worker.instruments import Instruments, StepTime
from schedulearn.worker.measurements import Kind
from schedulearn.worker.order import Pass
from schedulearn.worker.torch.clock import GpuClock
from schedulearn.worker.torch.memory import GpuMemory
from schedulearn.worker.torch.noise import TorchNoiseMeter
from schedulearn.worker.torch.workers import TorchWorkers

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
        self._averaged_sqr: list[Any] = []
        """Of this step, by bucket: |g|^2 of what the workers averaged."""
        self.clock = GpuClock()
        self.memory = GpuMemory()
        self.memory.explain_uncaught()
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

    @property
    def gpu(self) -> Any:
        """The device that this worker trains on; None: it is no GPU."""
        device = self._parameters[0].device if self._parameters else None
        return device if device is not None and device.type == "cuda" else None

    def settle(self) -> None:
        """Before the data of the next pass are fetched."""
        if self.gpu is not None and (self.this is None or self.this.last):
            self.clock.begin(self.gpu)

    def step_times(self, kind: Kind | None, passes: int, seconds: float) -> Iterable[StepTime]:
        if self.gpu is None:
            return super().step_times(kind, passes, seconds)
        self.memory.end()
        self.clock.end(self.gpu, kind, passes)
        return self.clock.known()

    def tell(self) -> None:
        self.meter.local_sqr = float(self.meter.local_sqr)  # on a GPU it is known only now
        super().tell()

    def finish_step(self) -> list[float]:
        if self._message is None:
            # The script's step was not ours to see: a CUDA graph, or a scaler that left it out. The others hear of this
            # worker all the same.
            self.tell()
        return super().finish_step()

    def regroup(self) -> None:
        super().regroup()
        if self._workers.size > 1 and not self._accumulators:
            self._hook_gradients()
            self._optimizer._register_hooks()  # Horovod's own, which it makes only where there are others at first

    def begin_pass(self, this: Pass) -> None:
        super().begin_pass(this)
        if self.gpu is not None:
            self.memory.begin(self.gpu, len(this.indices))
        if this.first:
            self._averaged_sqr.clear()
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
                if self.meter.measuring and self._workers.size > 1 and not self._is_recorded():
                    self.meter.local(self.meter.conditioned([parameter], [parameter.grad]))

        return hook

    def _on_bucket(self, bucket: Any) -> Any:
        """A part of the gradient is computed; DistributedDataParallel calls this instead of averaging by itself."""
        if self._factor != 1.0:
            bucket.buffer().mul_(self._factor)
        if self._is_recorded():
            return self._average(bucket)
        if self.gpu is not None:
            self.clock.computed(self.gpu)
        measuring = self.meter.measuring
        if measuring:
            self.meter.local(self.meter.conditioned(bucket.parameters(), bucket.gradients()))
        self._computed_at = time.perf_counter()
        if not measuring:
            return self._average(bucket)

        def keep() -> None:
            # Here and not in the step: there a scaler has scaled the averages back, and the local ones it has not.
            self._averaged_sqr.append(self.meter.norms(list(self._conditioned_bucket(bucket))))

        return self._average(bucket, keep)

    def _average(self, bucket: Any, then: Callable[[], None] | None = None) -> Any:
        assert isinstance(self._workers, TorchWorkers)
        return self._workers.average(bucket.buffer(), self._model.process_group, then)

    def _conditioned_bucket(self, bucket: Any) -> Iterable[Any]:
        return self.meter.conditioned(bucket.parameters(), bucket.gradients())

    def _is_recorded(self) -> bool:
        """A CUDA graph is being recorded: nothing in it can be looked at, neither now nor when it runs again."""
        if self.gpu is None or not self.clock.is_capturing:
            return False
        if not self.replays:
            self.replays = self.meter.off = True
            self.meter.measuring = False
            print(  # noqa: T201
                "schedulearn: the step is in a CUDA graph: its batch stays, and its gradients are not looked at",
                file=sys.stderr,
            )
        return True

    def _patched_zero_grad(self, *arguments: Any, **options: Any) -> Any:
        if self.this is None or self.this.first:
            return self._zero_grad(*arguments, **options)
        return None

    def _patched_synchronize(self) -> None:
        """Horovod's waiting for the averages; the script calls it, or `step` does."""
        if self.this is not None and not self.this.last:
            return
        if self.gpu is not None:
            self.clock.computed(self.gpu)
        self._weigh_alone()
        self.tell()
        began = time.perf_counter()
        self._synchronize()
        self.sync_s = (self.sync_s or 0.0) + time.perf_counter() - began
        if self.gpu is not None:
            self.clock.averaged(self.gpu)
        self._averaged()

    def _patched_step(self, closure: Any = None) -> Any:
        this = self.this
        if this is None or self._is_recorded():
            return self._step(closure)
        if not this.last:
            return None
        if self._workers.name != "horovod":
            if self._computed_at:
                self.sync_s = max(0.0, time.perf_counter() - self._computed_at)
            if self.gpu is not None:
                self.clock.averaged(self.gpu)
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
        if not self.meter.measuring or self.this is None:
            return
        if self._averaged_sqr:
            self.meter.total_sqr = float(sum(self._averaged_sqr))
            self.meter.cost = self.meter.spent
        else:
            averaged = self.meter.conditioned(self._parameters, [p.grad for p in self._parameters])
            self.meter.total(averaged, self.this.samples, self._workers.size)
