"""Extensions of a PyTorch optimizer.

They weigh uneven shares, measure, scale the learning rate and accumulate gradients.
"""

from __future__ import annotations

import sys
import time
import types
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Iterable

import torch

from schedulearn.worker.instruments import Instruments, StepTime
from schedulearn.worker.measurements import Kind
from schedulearn.worker.order import Pass
from schedulearn.worker.torch.accumulation import Accumulation, hold_scalers
from schedulearn.worker.torch.clock import GpuClock
from schedulearn.worker.torch.memory import GpuMemory
from schedulearn.worker.torch.noise import TorchNoiseMeter
from schedulearn.worker.torch.shards import is_sharded, weigh_gradients
from schedulearn.worker.torch.workers import TorchWorkers

if TYPE_CHECKING:
    from schedulearn.worker.run import Run

NEVER = 1 << 30
"""Backward passes after which Horovod averages, in a step's earlier micro-steps: it never does."""


class Attached:
    """One optimizer of the script, and its original methods."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.step, self.zero_grad = optimizer.step, optimizer.zero_grad
        self.synchronize: Any = getattr(optimizer, "synchronize", None)
        self.backward_passes: int = getattr(optimizer, "backward_passes_per_step", 1)
        self.is_averaged = False
        """Whether Horovod has averaged the gradients of this micro-step."""
        self.parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]

    def is_computed(self, whole: bool) -> bool:
        """Return whether Horovod sends gradients, and expects no further backward pass for any of them.

        `whole`: the gradients must be those of all parameters."""
        handles = self.optimizer._handles
        sent = {p for key in handles for p in (key if isinstance(key, tuple) else (key,))}
        if not sent or (whole and self.optimizer._requires_update - sent):
            return False
        return all(self.optimizer._allreduce_delay[parameter] <= 0 for parameter in sent)


class TorchInstruments(Instruments):
    """Instruments of all optimizers of a run. Gradients of the first one are measured."""

    meter: TorchNoiseMeter

    def __init__(self, run: Run, optimizer: Any) -> None:
        super().__init__(run, TorchNoiseMeter(run.batch.bounds.init_batch, optimizer))
        self.meter.off = run.env is None
        self._attached: list[Attached] = []
        self._models: list[Any] = []
        """DistributedDataParallel models."""
        self._sharded: list[Any] = []
        """FSDP models, which average gradients themselves."""
        self._accumulation = Accumulation(self._arrived)
        self._computed_at = 0.0
        self._averaged_sqr: list[Any] = []
        """Squared norms |g|^2 of this step's averaged gradients, by bucket."""
        self._ends_backward = False
        """Whether this call of backward will call `_end_backward`."""
        self.clock = GpuClock()
        self.memory = GpuMemory()
        self.memory.explain_uncaught()
        hold_scalers(lambda: self.this is not None and not self.this.last)

    def attach(self, optimizer: Any, model: Any) -> None:
        new = Attached(optimizer)
        self._attached.append(new)

        def step(_: Any, closure: Any = None) -> Any:
            return self._patched_step(new, closure)

        step.__dict__.update(getattr(new.step, "__dict__", {}))  # a schedule's mark: it warns if it finds none
        # Bound to the optimizer, not to this object: schedules bind it anew.
        optimizer.step = types.MethodType(step, optimizer)
        optimizer.zero_grad = partial(self._patched_zero_grad, new)
        if self._workers.name == "horovod":
            optimizer.synchronize = partial(self._patched_synchronize, new)
        elif is_sharded(model):
            self._attach_sharded(model)
        elif self._workers.name == "torchrun" and self._workers.size > 1:
            if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
                raise ValueError(
                    "with torchrun, give Run.optimizer the DistributedDataParallel or the FSDP module as its model"
                )
            if not any(model is each for each in self._models):
                self._models.append(model)
                model.register_comm_hook(model, lambda state, bucket: self._on_bucket(state, bucket))

    def _attach_sharded(self, model: Any) -> None:
        self.meter.off = True  # gradients are averaged part by part, and never whole
        if not any(model is each for each in self._sharded):
            self._sharded.append(model)
            weigh_gradients(model, lambda: self.this.weight if self.this is not None else 1.0)

    @property
    def gpu(self) -> Any:
        """GPU that this worker trains on; None: it trains on another device."""
        device = self._parameters[0].device if self._parameters else None
        return device if device is not None and device.type == "cuda" else None

    def settle(self) -> None:
        """Start the step's clock on a GPU, before the data of the next micro-step are fetched."""
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
            # The script's step was not visible: a CUDA graph, or a scaler that left it out. The other workers need the
            # message all the same.
            self.tell()
        return super().finish_step()

    def regroup(self) -> None:
        super().regroup()
        for each in self._attached:
            if self._workers.size > 1 and not each.optimizer._grad_accs:
                each.optimizer._register_hooks()  # Horovod makes them only if there are other workers at first

    def begin_pass(self, this: Pass) -> None:
        super().begin_pass(this)
        if self.gpu is not None:
            self.memory.begin(self.gpu, len(this.indices))
        if this.first:
            self._averaged_sqr.clear()
            self._computed_at = 0.0
        averages = self._workers.name == "horovod"
        if not self._sharded and (this.passes > 1 or this.weight != 1.0 or (averages and self._workers.size > 1)):
            self._accumulation.hook(parameter for each in self._attached for parameter in each.parameters)
        self._accumulation.begin_pass(this)
        self._ends_backward = False
        for model in self._models:
            model.require_backward_grad_sync = this.last
        for each in self._attached if averages else ():
            each.is_averaged = False
            backward_passes = each.backward_passes if this.last else NEVER
            if each.optimizer.backward_passes_per_step != backward_passes:
                each.optimizer._handles.clear()  # of an earlier micro-step, which averaged nothing
                each.optimizer.set_backward_passes_per_step(backward_passes)

    @property
    def _parameters(self) -> list[Any]:
        return self._attached[0].parameters

    @property
    def _is_measured(self) -> bool:
        """Whether gradients that come now are measured.

        Those after this worker's message belong to another backward pass."""
        return self.meter.measuring and self._message is None and not self._is_recorded()

    def _arrived(self, parameter: Any, gradient: Any) -> None:
        """Handle a gradient of this worker, or the last part of it, which Horovod sends next."""
        if self._workers.name != "horovod" or self._workers.size == 1:
            return
        if self._is_measured:
            whole = gradient if parameter.grad is None else parameter.grad + gradient
            self.meter.local(self.meter.conditioned([parameter], [whole]))
        if not self._ends_backward:
            self._ends_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)

    def _end_backward(self) -> None:
        """Wait for Horovod's averages at the end of a call of backward.

        Horovod sends all gradients of this call, which checkpointing may have made inside another one."""
        self._ends_backward = False
        inside = getattr(torch._C, "_current_autograd_node", lambda: None)() is not None
        for each in self._attached:
            if each.is_computed(whole=inside):
                each.is_averaged = False
                each.optimizer.synchronize()

    def _on_bucket(self, model: Any, bucket: Any) -> Any:
        """Average a part of the gradient, once it is computed.

        DistributedDataParallel calls this instead of averaging by itself."""
        if self._is_recorded():
            return self._average(model, bucket)
        if self.gpu is not None:
            self.clock.computed(self.gpu)
        measuring = self._is_measured
        if measuring:
            self.meter.local(self.meter.conditioned(bucket.parameters(), bucket.gradients()))
        self._computed_at = time.perf_counter()
        if not measuring:
            return self._average(model, bucket)

        def keep() -> None:
            # Here and not in the step: by then a scaler has unscaled the averages, but not the local gradients.
            self._averaged_sqr.append(self.meter.norms(list(self._conditioned_bucket(bucket))))

        return self._average(model, bucket, keep)

    def _average(self, model: Any, bucket: Any, then: Callable[[], None] | None = None) -> Any:
        assert isinstance(self._workers, TorchWorkers)
        return self._workers.average(bucket.buffer(), model.process_group, then)

    def _conditioned_bucket(self, bucket: Any) -> Iterable[Any]:
        return self.meter.conditioned(bucket.parameters(), bucket.gradients())

    def _is_recorded(self) -> bool:
        """Return whether a CUDA graph is being recorded.

        Nothing in it can be measured, neither now nor when it is replayed."""
        if self.gpu is None or not self.clock.is_capturing:
            return False
        if self.this is not None and self.this.passes > 1:
            raise ValueError(f"a CUDA graph can't contain a step of {self.this.passes} micro-steps: increase max_local")
        if not self.replays:
            self.replays = self.meter.off = True
            self.meter.measuring = False
            print(  # noqa: T201
                "schedulearn: the step is in a CUDA graph: its batch is fixed, and its gradients are not measured",
                file=sys.stderr,
            )
        return True

    def _patched_zero_grad(self, its: Attached, *arguments: Any, **options: Any) -> None:
        if its.synchronize and self.this is not None and not self.this.last:
            its.optimizer._handles.clear()  # Horovod averages nothing yet: there is no race to warn of
        its.zero_grad(*arguments, **options)
        self._accumulation.forget(its.parameters)

    def _patched_synchronize(self, its: Attached) -> None:
        """Wait for Horovod's averages at the end of backward, so that a script sees nothing else."""
        if its.is_averaged or (self.this is not None and not self.this.last):
            return
        its.is_averaged = True
        if its is not self._attached[0] or self._message is not None:
            its.synchronize()
            return
        if self.gpu is not None:
            self.clock.computed(self.gpu)
        self.tell()
        began = time.perf_counter()
        its.synchronize()
        self.sync_s = (self.sync_s or 0.0) + time.perf_counter() - began
        if self.gpu is not None:
            self.clock.averaged(self.gpu)
        self._averaged()

    def _patched_step(self, its: Attached, closure: Any = None) -> Any:
        this = self.this
        if this is None or self._is_recorded():
            return its.step(closure)
        if not this.last:
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            self._accumulation.keep(its.parameters)
            return loss
        if self._workers.name == "horovod":
            its.optimizer.synchronize()
        elif its is self._attached[0] and self._message is None:
            if self._computed_at:
                self.sync_s = max(0.0, time.perf_counter() - self._computed_at)
            if self.gpu is not None:
                self.clock.averaged(self.gpu)
            self.tell()
            self._averaged()
        try:
            return self._scaled_step(its, closure)
        finally:
            self._accumulation.free(its.parameters)

    def _scaled_step(self, its: Attached, closure: Any) -> Any:
        factor = self._run.learning_rate_factor()
        groups = its.optimizer.param_groups if factor != 1.0 else []
        rates = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = group["lr"] * factor
        try:
            with its.optimizer.skip_synchronize() if its.synchronize else nullcontext():
                return its.step(closure)
        finally:
            for group, rate in zip(groups, rates):
                group["lr"] = rate

    def _averaged(self) -> None:
        if not self.meter.measuring or self.this is None:
            return
        if self._averaged_sqr:
            self.meter.total_sqr = float(sum(self._averaged_sqr))
            self.meter.cost = self.meter.spent
        else:
            averaged = self.meter.conditioned(self._parameters, [p.grad for p in self._parameters])
            self.meter.total(averaged, self.this.samples, self._workers.size)
