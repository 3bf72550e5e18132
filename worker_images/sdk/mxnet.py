"""SDK for MXNet Gluon scripts, with Horovod or alone.

A script needs about six lines:

    import schedulearn.worker.mxnet as worker

    run = worker.Run(batch_size=64)                       # after hvd.init()
    loader = run.loader(train_set)                        # instead of gluon.data.DataLoader and a share of the data
    trainer = run.trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})   # instead of hvd.DistributedTrainer
    for epoch in run.epochs(20, net=net):                 # continues where the previous attempt stopped
        for x, y in loader: ...                           # unchanged, with trainer.step(len(x))
        run.log(loss=loss, accuracy=accuracy)

`batch_size` is the total over all workers, for which the learning rate was chosen. Outside Schedulearn the batch is
fixed, and nothing is measured, reported or saved.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from typing import Any, Callable, Iterable, Iterator, Sequence

import mxnet as mx

from schedulearn.metrics.model.goodput import BatchBounds
from schedulearn.worker import loader as common_loader
from schedulearn.worker import run as common
from schedulearn.worker.batch.noise_meter import NoiseMeter
from schedulearn.worker.instruments import Instruments
from schedulearn.worker.workers import Alone, Finish, HorovodWorkers


class Run(common.Run):
    """One training run, over all its attempts.

    `batch_size`: total over all workers. `max_batch`: maximum batch size (None: the batch is fixed). `min_local`,
    `max_local`: bounds of one worker's part, since Gluon does not accumulate gradients. `scaling` of the learning rate
    with the batch: adascale, sqrt, linear or none. None means adascale with sgd and nag, and sqrt with adam and all
    others. Raises ValueError for bounds that hold no batch."""

    def __init__(
        self,
        batch_size: int,
        max_batch: int | None = None,
        *,
        min_local: int = 1,
        max_local: int | None = None,
        scaling: str | None = None,
        seed: int = 0,
    ) -> None:
        bounds = BatchBounds(batch_size, max_batch or batch_size, min_local, max_local, accumulate=False)
        super().__init__(find_workers(), bounds, scaling, seed)
        self._trainer: Any = None
        self._states: dict[str, Any] = {}

    def loader(self, dataset: Any, **options: Any) -> Loader:
        """Return batches of `dataset`, which has a length, in a new order each epoch.

        `options` are those of Gluon's DataLoader, except for batch size, order and sampling, which the run sets."""
        return Loader(self, dataset, options)

    def trainer(self, params: Any, optimizer: Any, optimizer_params: Any = None, **options: Any) -> Any:
        """Return a trainer like hvd.DistributedTrainer, made with `options`. In Schedulearn it also measures."""
        if self.scaling is None:
            name = optimizer if isinstance(optimizer, str) else type(optimizer).__name__
            self.scaling = "adascale" if name.lower() in ("sgd", "nag") else "sqrt"
        if self.env is not None:
            self.instruments = Instruments(self, MXNetNoiseMeter(self.batch.bounds.init_batch))
        if isinstance(self.workers, HorovodWorkers):
            base = self.workers.hvd.DistributedTrainer
        else:
            base, options = mx.gluon.Trainer, {"kvstore": None, **options}
        self._trainer = _trainer_class(base, self)(params, optimizer, optimizer_params, **options)
        return self._trainer

    def epochs(self, total: int, **states: Any) -> Iterator[int]:
        """Yield the numbers of the epochs left of `total`.

        `states`: nets, by name, that a checkpoint holds besides the trainer."""
        self._states = states
        return self.loop(total)

    # --- specific to MXNet ---

    def capture(self) -> dict[str, Any]:
        nets = {name: _saved(net.save_parameters) for name, net in self._states.items()}
        return {"states": nets, "trainer": _saved(self._trainer.save_states) if self._trainer is not None else None}

    def apply(self, captured: dict[str, Any]) -> None:
        for name, net in self._states.items():
            if name in captured["states"]:
                contexts = next(iter(net.collect_params().values())).list_ctx()
                _load(captured["states"][name], partial(net.load_parameters, ctx=contexts))
        if self._trainer is not None and captured["trainer"] is not None:
            _load(captured["trainer"], self._trainer.load_states)

    def seed_random(self, seed: int) -> None:
        super().seed_random(seed)
        mx.random.seed(seed)


class Loader(common_loader.Loader):
    def fetch(self, batches: common_loader.Batches) -> Iterable[Any]:
        return mx.gluon.data.DataLoader(self.dataset, batch_sampler=batches, **self.options)  # type: ignore[no-any-return]

    def settle(self) -> None:
        if self.run.instruments is not None and self.run.instruments.meter.due:
            mx.nd.waitall()  # work begun before is not part of the next step


class MXNetNoiseMeter(NoiseMeter):
    """Noise meter of the raw gradient, even where an optimizer like Adam follows another one."""

    def norms(self, gradients: Sequence[Any]) -> float:
        squares = [mx.nd.sum(mx.nd.square(g.astype("float32"))) for g in gradients if g.stype == "default"]
        return float(mx.nd.add_n(*squares).asscalar()) if squares else 0.0

    def copies(self, gradients: Sequence[Any]) -> list[Any]:
        return [g.copy() for g in gradients if g.stype == "default"]


class MXNetWorkers(HorovodWorkers):
    def sum(self, values: list[float]) -> Finish:
        sums = self.hvd.allreduce(mx.nd.array(values, dtype="float64"), average=False, name="schedulearn.control")
        return lambda: list(sums.asnumpy().tolist())

    def broadcast(self, value: Any) -> Any:
        found = super().broadcast(value)
        mx.nd.waitall()  # rank 0 may end next, but not before it has sent the value
        return found


def find_workers() -> Alone:
    """Return Horovod's workers if the script has initialized Horovod, else a single process."""
    hvd = sys.modules.get("horovod.mxnet")
    if hvd is None:
        return Alone()
    try:
        hvd.size()
    except ValueError:  # it is imported, but hvd.init() has not been called
        return Alone()
    return MXNetWorkers(hvd)


def _trainer_class(base: Any, run: Run) -> Any:
    class Trainer(base):  # type: ignore[misc]
        """Trainer that measures, weighs uneven shares and scales the learning rate.

        MXNet computes in the background. Measuring a step means waiting for each of its parts, so few steps are
        measured."""

        def step(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
            this = run.current
            self._divisor = batch_size
            if this is not None and this.samples % run.workers.size:
                # Workers have unequal numbers of samples. With the same divisor for all, each sample counts equally.
                for gradient in self._gradients():
                    gradient *= this.weight / batch_size
                self._divisor = batch_size = 1
            super().step(batch_size, ignore_stale_grad)

        def _allreduce_grads(self) -> None:
            instruments, this = run.instruments, run.current
            if instruments is None or this is None:
                super()._allreduce_grads()
                return
            meter = instruments.meter
            if not meter.measuring:
                instruments.sync_s = None
                instruments.tell()
                super()._allreduce_grads()
                return
            mx.nd.waitall()
            # Horovod sums the gradients and lets the optimizer divide by the workers too, or it averages by itself.
            share = self._scale / self._divisor
            mine = share * run.workers.size if getattr(self, "_average_in_framework", False) else share
            meter.local(g * mine for g in self._gradients())
            instruments.tell()
            began = time.perf_counter()
            super()._allreduce_grads()
            mx.nd.waitall()
            instruments.sync_s = time.perf_counter() - began
            meter.total((g * share for g in self._gradients()), this.samples, run.workers.size)

        def _update(self, ignore_stale_grad: bool = False) -> None:
            with _learning_rate_times(run.learning_rate_factor(), self._params):
                super()._update(ignore_stale_grad)
            if run.instruments is not None and run.instruments.meter.measuring:
                mx.nd.waitall()

        def _gradients(self) -> list[Any]:
            """Return one gradient per parameter: Horovod has one worker per GPU."""
            return [parameter.list_grad()[0] for parameter in self._params if parameter.grad_req != "null"]

    return Trainer


@contextmanager
def _learning_rate_times(factor: float, parameters: Sequence[Any]) -> Iterator[None]:
    before = [parameter.lr_mult for parameter in parameters]
    if factor != 1.0:
        for parameter in parameters:
            parameter.lr_mult *= factor
    try:
        yield
    finally:
        for parameter, mult in zip(parameters, before):
            parameter.lr_mult = mult


def _saved(save: Callable[[str], None]) -> bytes:
    """Return what `save` writes to a file: MXNet writes to files only."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state")
        save(path)
        with open(path, "rb") as file:
            return file.read()


def _load(data: bytes, load: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state")
        with open(path, "wb") as file:
            file.write(data)
        load(path)
