"""How the learning rate follows the batch, and how much progress a step makes then."""

from __future__ import annotations

import math

from schedulearn.metrics.model.noise_scale import NoiseScale, learning_rate_factor

UNTRIED_EFFICIENCY = 0.9
"""Of optimizers with which no larger batch was tried: neither SGD nor of Adam's kind."""
LEAST_STEPS = 64
"""An epoch's, at a batch that grew by the square root rule."""


class LearningRate:
    """A rule is one of adascale, sqrt, linear and none.

    For SGD a step makes as much progress as its learning rate is larger. Adam divides by the root of its second moment
    besides, which a larger batch makes smaller, but only as fast as Adam forgets: after a change of the batch, the
    second moment is still nearly that of the batch before."""

    def __init__(self) -> None:
        self.second_moment = 1.0
        """Adam's, over what it would be had the batch stayed the first one."""

    def follow(self, noise: NoiseScale, batch: int, share: float) -> None:
        """A step was made, whose gradient has this share in Adam's second moment; 0: the optimizer has none."""
        if share > 0:
            self.second_moment += share * (1.0 / max(1.0, noise.gain(batch)) - self.second_moment)

    def target(self, rule: str, noise: NoiseScale, batch: int) -> float:
        """By what the learning rate should be multiplied in a step of `batch` samples."""
        return learning_rate_factor(rule, noise, batch) if batch > noise.init_batch else 1.0

    def progress(self, rule: str, noise: NoiseScale, batch: int, factor: float) -> float:
        """Steps of the first batch that one of `batch` is worth with its learning rate multiplied by `factor`: never
        more than by AdaScale's gain."""
        gain = max(1.0, noise.gain(batch))
        if rule == "none":  # the script sees to the learning rate by itself
            return gain
        return max(1.0, min(factor / math.sqrt(self.second_moment), gain))

    def largest(self, rule: str, init_batch: int, has_second_moment: bool, samples: int) -> float:
        """The largest batch that can do no harm, whatever the noise of the gradients. `samples`: of an epoch.

        The square root alone makes a step of S times the batch worth no more than the root of S, so a sample is worth
        UNTRIED_EFFICIENCY only up to a certain batch. It also leaves less noise in the weights than the first batch
        does, and a small data set that is learnt by heart needs that noise (Smith and Le, 2018): LEAST_STEPS an
        epoch."""
        if rule != "sqrt":
            return math.inf
        worth = math.inf if has_second_moment else init_batch / UNTRIED_EFFICIENCY**2
        return min(worth, max(init_batch, samples / LEAST_STEPS))
