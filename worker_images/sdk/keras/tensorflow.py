"""Gradient averaging for Keras jobs on TensorFlow.

Gradients are averaged in the graph, and the time is measured there too.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from schedulearn.worker.batch.noise_meter import NoiseMeter
from schedulearn.worker.instruments import Instruments
from schedulearn.worker.workers import Alone, HorovodWorkers

if TYPE_CHECKING:
    from schedulearn.worker.run import Run


def find_workers() -> Alone:
    """Return Horovod's workers if the script has initialized Horovod, else a single process."""
    hvd = sys.modules.get("horovod.tensorflow")
    return HorovodWorkers(hvd) if hvd is not None and hvd.is_initialized() else Alone()


class Averaging:
    """Gradient averaging in the graph.

    Inputs and results of a step pass through two variables: the step's code runs only once, when the graph is made."""

    def __init__(self, run: Run) -> None:
        self._workers = run.workers
        self.instruments = GraphInstruments(run, NoiseMeter(run.batch.bounds.init_batch))
        self._measured = run.env is not None
        self._weight = tf.Variable(1.0, trainable=False)
        self._known_weight = 1.0
        self._told = tf.Variable(tf.zeros(7, tf.float64), trainable=False)
        """`Instruments.message`, but with the start time of the step in place of the seconds since then."""
        self._found = tf.Variable(tf.zeros(11, tf.float64), trainable=False)
        """The eight sums over the workers, |g|^2 of the averaged gradients, seconds of waiting and of measuring."""

    def begin(self, weight: float) -> None:
        """Begin a step; this worker's gradient is multiplied by `weight`."""
        if weight != self._known_weight:
            self._weight.assign(weight)
            self._known_weight = weight
        if self._measured:
            self._told.assign([*self.instruments.message()[:-1], time.time()])

    def end(self) -> None:
        """End the step."""
        if self._measured:
            self.instruments.found(self._found.numpy().tolist())

    def average(self, gradients: list[Any]) -> list[Any]:
        present = [_times(g, self._weight) for g in gradients if g is not None]
        if self._measured:
            averaged = self._measure(present)
        else:
            averaged = [self._mean(g, index) for index, g in enumerate(present)]
        left = iter(averaged)
        return [None if g is None else next(left) for g in gradients]

    def _measure(self, present: list[Any]) -> list[Any]:
        told = self._told.read_value()
        measuring = told[4] > 0
        with tf.control_dependencies(present):
            computed = tf.timestamp()
        local = tf.cond(measuring, lambda: _squared(present), lambda: tf.zeros((), tf.float64))
        sums = tf.concat([told[:6], [computed - told[6], local]], 0)
        if isinstance(self._workers, HorovodWorkers) and self._workers.size > 1:
            sums = self._workers.hvd.allreduce(sums, op=self._workers.hvd.Sum, name="schedulearn.control")
        averaged = [self._mean(g, index) for index, g in enumerate(present)]
        with tf.control_dependencies([*averaged, sums]):
            done = tf.timestamp()
        with tf.control_dependencies([done]):
            total = tf.cond(measuring, lambda: _squared(averaged), lambda: tf.zeros((), tf.float64))
        with tf.control_dependencies([total]):
            measured = tf.timestamp()
        self._found.assign(tf.concat([sums, [total, done - computed, measured - done]], 0))
        return averaged

    def _mean(self, gradient: Any, index: int) -> Any:
        if not isinstance(self._workers, HorovodWorkers) or self._workers.size == 1:
            return gradient
        return self._workers.hvd.allreduce(gradient, op=self._workers.hvd.Average, name=f"schedulearn.{index}")


class GraphInstruments(Instruments):
    def found(self, values: list[float]) -> None:
        """Take the values that the last step left in the variable."""
        self.told(lambda: values[:8])
        self.meter.total_sqr, self.sync_s = values[8], values[9]
        if self.meter.measuring:
            self.meter.cost = 2 * values[10]  # the local gradients took as long as the averaged ones


def _times(gradient: Any, factor: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        scaled = gradient.values * tf.cast(factor, gradient.values.dtype)
        return tf.IndexedSlices(scaled, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)


def _squared(gradients: list[Any]) -> Any:
    dense = [g for g in gradients if not isinstance(g, tf.IndexedSlices)]
    squares = [tf.cast(tf.reduce_sum(tf.square(g)), tf.float64) for g in dense]
    return tf.add_n(squares) if squares else tf.zeros((), tf.float64)
