"""SDK for Keras scripts with Horovod.

It supports Keras 2 on TensorFlow, and Keras 3 on PyTorch or TensorFlow. A script needs four lines:

    import schedulearn.worker.keras as worker

    run = worker.Run(batch_size=64)                                        # after hvd.init()
    model.compile(optimizer=run.optimizer(keras.optimizers.SGD(0.1)), loss=...)   # instead of hvd.DistributedOptimizer
    run.fit(model, x_train, y_train, epochs=20, validation_data=...)       # instead of model.fit

`batch_size` is the total over all workers, for which the learning rate was chosen. Outside Schedulearn nothing is
measured, reported or saved, and training is the same.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Iterable

import keras
import numpy as np

from schedulearn.metrics.model.goodput import BatchBounds
from schedulearn.worker import run as common
from schedulearn.worker.keras_trap import warn_of_trap
from schedulearn.worker.order import Pass, permutation, steps

KERAS_3 = int(keras.__version__.split(".")[0]) >= 3
BACKEND = keras.backend.backend()
if BACKEND == "torch":
    from schedulearn.worker.keras.torch import Averaging, find_workers
elif BACKEND == "tensorflow":
    from schedulearn.worker.keras.tensorflow import Averaging, find_workers  # type: ignore[assignment]
else:
    raise ImportError(f"Keras uses the backend {BACKEND}, which Horovod does not support: set KERAS_BACKEND=torch")

warn_of_trap(keras.__version__, sys.modules)


class Run(common.Run):
    """One training run, over all its attempts. `batch_size`: total over all workers."""

    adapts = False  # fit needs the number of steps beforehand

    def __init__(self, batch_size: int, *, seed: int = 0) -> None:
        warn_of_trap(keras.__version__, sys.modules)  # a script may have imported it since
        super().__init__(find_workers(), BatchBounds(batch_size, batch_size, accumulate=False), "none", seed)
        if self.workers.size > batch_size:
            raise ValueError(f"a batch of {batch_size} is not enough for {self.workers.size} workers")
        self.averaging = Averaging(self)
        if self.env is not None:
            self.instruments = self.averaging.instruments
        self._model: Any = None
        self._optimizer: Any = None

    def optimizer(self, optimizer: Any) -> Any:
        """Return `optimizer`, made to average the workers' gradients.

        Raises TypeError for an optimizer from before Keras 2.11."""
        average = self.averaging.average
        self._optimizer = optimizer
        if KERAS_3:
            apply = optimizer.apply
            optimizer.apply = lambda gradients, *rest, **named: apply(average(list(gradients)), *rest, **named)
            return optimizer
        if not hasattr(optimizer, "aggregate_gradients"):
            raise TypeError(
                f"{type(optimizer).__module__} is for legacy optimizers of Keras: use the one of keras.optimizers"
            )

        def aggregate(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
            gradients, variables = zip(*pairs)
            return list(zip(average(list(gradients)), variables))

        optimizer.aggregate_gradients = aggregate
        return optimizer

    def fit(self, model: Any, x: Any, y: Any = None, *, epochs: int, callbacks: Any = (), **options: Any) -> Any:
        """Run `model.fit` on all workers together, for the epochs that are left of `epochs`.

        `x` and `y`: the whole data set, as arrays or as tuples or dicts of arrays. Each epoch gives each sample once to
        one of the workers, in a new order. Anything else that fit takes (tf.data, Sequence) is this worker's part, in
        batches of `run.batch.atomic`. With such a part, an epoch that was stopped in the middle begins again."""
        self._model = model
        if getattr(model.optimizer, "inner_optimizer", model.optimizer) is not self._optimizer or not self._optimizer:
            raise ValueError(
                "compile the model with optimizer=run.optimizer(...): otherwise each worker trains separately"
            )
        data = (x, y, options.pop("sample_weight")) if "sample_weight" in options else (x, y)
        if not model.built:
            model(_take(_arrays(x), np.arange(1)) if y is not None else next(iter(x))[0])
        model.optimizer.build(model.trainable_variables)
        self.apply(self.workers.broadcast(self.capture() if self.workers.rank == 0 else None))
        batches = _batches(self, data) if y is not None else None
        self.begin(epochs)
        if batches is None:
            self.position = 0
        options.update({"shuffle": False, "verbose": options.get("verbose", 1) if self.workers.rank == 0 else 0})
        history = None
        try:
            while self.epoch < (self.total_epochs or 0):
                # An epoch that is partly done has fewer steps, and fit wants all epochs to have the same number.
                last = self.epoch + 1 if self.position else self.total_epochs
                history = model.fit(
                    x if batches is None else batches.begin(),
                    initial_epoch=self.epoch,
                    epochs=last,
                    callbacks=[Callback(self, batches), *callbacks],
                    **options,
                )
                if model.stop_training:
                    break
        finally:
            self.close()
        return history

    # --- specific to Keras ---

    def capture(self) -> dict[str, Any]:
        optimizer = [np.asarray(_numpy(v)) for v in _variables(self._model.optimizer)]
        return {"weights": self._model.get_weights(), "optimizer": optimizer}

    def apply(self, captured: dict[str, Any]) -> None:
        self._model.set_weights(captured["weights"])
        for variable, value in zip(_variables(self._model.optimizer), captured["optimizer"]):
            variable.assign(value)


class Callback(keras.callbacks.Callback):  # type: ignore[misc]
    """Callback in which the run measures, saves and ends, between two steps of fit.

    It is the first of the callbacks. At the end of an epoch the others see the mean over the workers, so all workers
    decide the same."""

    def __init__(self, run: Run, batches: Any) -> None:
        super().__init__()
        self._run = run
        self._batches = batches
        self._began = 0.0
        self._this: Pass | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        per_execution = getattr(self.model, "steps_per_execution", None) or getattr(
            self.model, "_steps_per_execution", 1
        )
        if int(_numpy(per_execution)) != 1:
            raise ValueError("compile the model with steps_per_execution=1: workers agree to stop between steps")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self._batches is None and self.params.get("steps"):
            self._run.samples = self.params["steps"] * self._run.workers.size * self._run.batch.atomic
        self._began = time.perf_counter()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        run = self._run
        if self._batches is not None:
            self._this = self._batches.passes[batch]
        else:
            mine, whole = np.arange(run.batch.atomic), run.workers.size * run.batch.atomic
            self._this = Pass(mine, first=True, last=True, passes=1, weight=1.0, samples=whole)
            if not self.params.get("steps"):  # fit does not know it before the end of the first epoch
                run.samples = run.position + 2 * whole
        run.begin_pass(self._this)
        run.averaging.begin(self._this.weight)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        assert self._this is not None
        self._run.averaging.end()
        self._run.end_pass(self._this, time.perf_counter() - self._began)
        self._began = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        run = self._run
        if logs:
            mine = {name: float(value) for name, value in logs.items()}
            of_all = run.workers.gather(mine)
            logs.update({name: float(np.mean([each[name] for each in of_all])) for name in mine})
            run.log(**logs)
        run.end_epoch(run.batch.total)


def _batches(run: Run, data: tuple[Any, ...]) -> Any:
    """Return this worker's batches of an epoch, as a sequence for fit."""

    class Batches(keras.utils.Sequence):  # type: ignore[misc]
        def __init__(self) -> None:
            if KERAS_3:
                super().__init__()
            self._data = tuple(_arrays(part) for part in data)
            self._epoch = -1
            self.passes: list[Pass] = []
            run.samples = _length(self._data[0])
            if run.samples < run.workers.size:
                raise ValueError(f"{run.samples} samples are not enough for {run.workers.size} workers")

        def begin(self) -> Any:
            order = permutation(run.seed, run.epoch, run.samples)
            workers = run.workers
            self.passes = list(steps(order, run.position, workers.rank, workers.size, *run.batch.shape))
            self._epoch = run.epoch
            return self

        def __len__(self) -> int:
            return len(self.passes)

        def __getitem__(self, index: int) -> Any:
            if self._epoch != run.epoch:
                self.begin()
            return tuple(_take(part, self.passes[index].indices) for part in self._data)

    return Batches()


def _arrays(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: np.asarray(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return tuple(np.asarray(value) for value in data)
    return np.asarray(data)


def _take(data: Any, indices: Any) -> Any:
    if isinstance(data, dict):
        return {name: value[indices] for name, value in data.items()}
    if isinstance(data, tuple):
        return tuple(value[indices] for value in data)
    return data[indices]


def _length(data: Any) -> int:
    if isinstance(data, (dict, tuple)):
        data = next(iter(data.values() if isinstance(data, dict) else data))
    return len(data)


def _variables(optimizer: Any) -> list[Any]:
    """Return the optimizer's state: the number of steps, moments, and the learning rate unless it is a schedule."""
    found = list(optimizer.variables)
    rate = getattr(optimizer, "_learning_rate", None)
    if not KERAS_3 and hasattr(rate, "assign"):
        found.append(rate)
    return found


def _numpy(value: Any) -> Any:
    if KERAS_3 and hasattr(value, "value"):
        return keras.ops.convert_to_numpy(value)
    return value.numpy() if hasattr(value, "numpy") else value
