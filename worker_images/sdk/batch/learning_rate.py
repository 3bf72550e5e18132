"""Learning rate for a changing batch, and the progress of its steps."""

from __future__ import annotations

import math

from schedulearn.metrics.model.noise_scale import NoiseScale, learning_rate_factor

UNTRIED_EFFICIENCY = 0.9
"""Minimum worth of a sample for optimizers with which no larger batch was tried.

These are neither SGD nor like Adam."""
MIN_STEPS = 64
"""Minimum steps of an epoch, at a batch that grew by the square root rule."""


class LearningRate:
    """Learning rate by one of the rules adascale, sqrt, linear and none.

    With SGD the progress of a step grows in proportion to its learning rate. Adam also divides by the root of its
    second moment. A larger batch makes the second moment smaller, but only as fast as Adam forgets. After a change of
    the batch, the second moment is still nearly that of the previous batch."""

    def __init__(self) -> None:
        self.second_moment = 1.0
        """Adam's second moment, over its value if the batch had stayed the first one."""

    def follow(self, noise: NoiseScale, batch: int, share: float) -> None:
        """Update the second moment after a step.

        `share`: share of the step's gradient in Adam's second moment; 0: the optimizer has none."""
        if share > 0:
            self.second_moment += share * (1.0 / max(1.0, noise.gain(batch)) - self.second_moment)

    def target(self, rule: str, noise: NoiseScale, batch: int) -> float:
        """Return the factor that the learning rate should have in a step of `batch` samples."""
        return learning_rate_factor(rule, noise, batch) if batch > noise.init_batch else 1.0

    def progress(self, rule: str, noise: NoiseScale, batch: int, factor: float) -> float:
        """Return how many steps of the first batch a step of `batch` samples is worth.

        `factor` multiplies its learning rate. The maximum is AdaScale's gain."""
        gain = max(1.0, noise.gain(batch))
        if rule == "none":  # the script sets the learning rate itself
            return gain
        return max(1.0, min(factor / math.sqrt(self.second_moment), gain))

    def largest(self, rule: str, init_batch: int, has_second_moment: bool, samples: int) -> float:
        """Return the largest batch that can do no harm, whatever the noise of the gradients.

        `samples`: samples of an epoch.

        The square root alone makes a step of S times the batch worth at most the root of S. A sample is therefore worth
        UNTRIED_EFFICIENCY only up to a certain batch. The rule also leaves less noise in the weights than the first
        batch does. A small data set that is memorized needs that noise (Smith and Le, 2018), hence MIN_STEPS an
        epoch."""
        if rule != "sqrt":
            return math.inf
        worth = math.inf if has_second_moment else init_batch / UNTRIED_EFFICIENCY**2
        return min(worth, max(init_batch, samples / MIN_STEPS))
