"""Gradient noise scale, from which statistical efficiency follows.

Sources: Pollux, OSDI 2021, section 3.1; McCandlish et al., 2018. NumPy only, and Python 3.8 syntax: training scripts
import this.

    phi = M0 var / sqr        samples: how large a batch must be before averaging more gradients stops paying
    efficiency(M) = (phi + M0) / (phi + M)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Sequence

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

SMOOTHING = 0.999  # per optimizer step at the first batch
MIN_KEPT = 0.95  # minimum share of the average that a measurement keeps: about 40 count, however rare they are
SMALLEST_VAR = 1e-6
SURE = 2.0  # standard errors between an estimate and its sure bound
SURE_SAMPLES = 20.0  # minimum measurements that the average is worth before anything counts as sure


def efficiency(phi: npt.ArrayLike, init_batch: float, batch: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Progress per sample at `batch`, relative to `init_batch`; in (0, 1] for batches of at least `init_batch`.

    Shapes broadcast. Raises ValueError unless each `phi` is finite and >= 0 and `init_batch` > 0.
    """
    noise = np.asarray(phi, dtype=float)
    if not np.isfinite(noise).all() or (noise < 0).any() or not init_batch > 0:
        raise ValueError(f"not a noise scale and initial batch: {noise}, {init_batch}")
    return np.asarray((noise + init_batch) / (noise + np.asarray(batch, dtype=float)))


_AVERAGES = ("sqr_mean", "var_mean", "weight", "sqr_square", "var_square", "product", "weight_square")


@dataclass
class NoiseScale:
    """Exponential moving averages of sqr and var.

    Their factor is 0.999^(S n), with S = M / M0 and n the optimizer steps since the previous measurement. They are
    corrected for their start from 0. S makes a step at a large batch weigh as much as the small ones that it replaces.
    n keeps the age of the average the same where few steps are measured.
    """

    init_batch: int
    sqr_mean: float = 0.0
    var_mean: float = 0.0
    weight: float = 0.0
    """Total weight of the measurements so far in the corrected average; 0: none yet."""
    sqr_square: float = 0.0
    var_square: float = 0.0
    product: float = 0.0
    """The last three: the same averages of squares and product, which show the scatter of single measurements."""
    weight_square: float = 0.0
    """Sum of the squared weights of all measurements."""
    measured: int = 0
    """Measurements so far, also those that were not finite."""
    power: float = 0.0
    """E|g|^2 of a gradient of M0 samples, by the last measurement alone; not finite if that was not."""

    def __post_init__(self) -> None:
        if self.init_batch < 1:
            raise ValueError(f"init_batch must be at least 1, not {self.init_batch}")

    def update(self, local_sqr: float, total_sqr: float, count: int, batch: int, steps: int = 1) -> bool:
        """Add one measured step, `steps` after the previous one.

        `local_sqr` = mean over the `count` gradients of |g_i|^2, `total_sqr` = |mean g_i|^2, each of `batch` / `count`
        samples, `count` >= 2. Return False, without a change of the averages, if they are not finite.

            sqr = (n total - local) / (n - 1),  var = (local - total) S / (n - 1)
        """
        if count < 2:
            raise ValueError("the noise of a step needs at least two gradients; pair single ones by `update_pair`")
        scale = batch / self.init_batch
        sqr = (count * total_sqr - local_sqr) / (count - 1)
        var = (local_sqr - total_sqr) * scale / (count - 1)
        return self._average(sqr, var, scale * steps)

    def update_pair(self, previous_sqr: float, this_sqr: float, both_sqr: float, batch: int, steps: int = 2) -> bool:
        """Add two successive gradients of a single replica, each of `batch` samples.

        They stand for two gradients of one step of twice as many samples. `both_sqr` = |(g + g') / 2|^2.
        """
        local = (previous_sqr + this_sqr) / 2
        scale = batch / self.init_batch
        return self._average(2 * both_sqr - local, (local - both_sqr) * 2 * scale, scale * steps)

    def _average(self, sqr: float, var: float, scale: float) -> bool:
        """Update the averages. `scale`: steps at the first batch since the last call that returned True."""
        self.measured += 1
        self.power = sqr + var
        if not np.isfinite(self.power):
            return False
        keep = max(MIN_KEPT, SMOOTHING**scale)
        new = 1 - keep
        self.sqr_mean = keep * self.sqr_mean + new * sqr
        self.var_mean = keep * self.var_mean + new * var
        self.sqr_square = keep * self.sqr_square + new * sqr**2
        self.var_square = keep * self.var_square + new * var**2
        self.product = keep * self.product + new * sqr * var
        self.weight = keep * self.weight + new
        self.weight_square = keep**2 * self.weight_square + new**2
        return True

    def averages(self) -> list[float]:
        """Return all averages of the measurements, for `restore`."""
        return [getattr(self, name) for name in _AVERAGES]

    def restore(self, averages: Sequence[float]) -> None:
        """Continue from what `averages` returned. If another version gave it another length, start anew."""
        if len(averages) != len(_AVERAGES):
            averages = [0.0] * len(_AVERAGES)
        for name, value in zip(_AVERAGES, averages):
            setattr(self, name, value)

    @property
    def sqr(self) -> float:
        """|G|^2, squared norm of the true gradient; >= 0."""
        return max(0.0, self.sqr_mean / self.weight) if self.weight else 0.0

    @property
    def var(self) -> float:
        """Trace of the covariance of a gradient of M0 samples; >= 1e-6."""
        return max(SMALLEST_VAR, self.var_mean / self.weight) if self.weight else SMALLEST_VAR

    @property
    def phi(self) -> float | None:
        """Noise scale in samples; None before the first step, and where noise hides the gradient."""
        if not self.weight or self.sqr <= 0:
            return None
        return self.init_batch * self.var / self.sqr

    @property
    def samples(self) -> float:
        """Number of measurements of equal weight that the average is worth (Kish's effective sample size)."""
        return self.weight**2 / self.weight_square if self.weight_square else 0.0

    @property
    def sure_phi(self) -> float:
        """A lower bound of phi; 0 where the measurements are too few to tell."""
        if self.samples <= 1:
            return 0.0
        sqr_error = self._error(self.sqr_square, self.sqr_mean)
        if self.sqr > SURE * sqr_error:
            # Error of a ratio: a change of both, such as that of the gradient's scale over a training, leaves it as is.
            ratio = self.var / self.sqr
            spread = self.var_square - 2 * ratio * self.product + ratio**2 * self.sqr_square
            error = float(np.sqrt(max(0.0, spread / self.weight) / (self.samples - 1))) / self.sqr
            return self.init_batch * ratio * float(np.exp(-SURE * error / ratio))
        var = self.var - SURE * self._error(self.var_square, self.var_mean)
        return self.init_batch * max(0.0, var) / (self.sqr + SURE * sqr_error + SMALLEST_VAR)

    @property
    def is_sure(self) -> bool:
        """Whether the gradient stands out of its noise.

        Near convergence it does not. Any phi might then be true, and a larger batch with its larger learning rate would
        be a guess.
        """
        return self.samples >= SURE_SAMPLES and self.sqr > SURE * self._error(self.sqr_square, self.sqr_mean)

    def _error(self, square: float, mean: float) -> float:
        """Standard error of an average."""
        spread = square / self.weight - (mean / self.weight) ** 2
        return float(np.sqrt(max(0.0, spread) / (self.samples - 1)))

    def gain(self, batch: int) -> float:
        """Return AdaScale's gain (Johnson et al., 2020): steps at `init_batch` that one at `batch` is worth, 1 to S.

        It uses the lower bound of phi, so a step is worth at least as many.

            r = (var + sqr) / (var / S + sqr) = S (phi + M0) / (phi + M)
        """
        phi = self.sure_phi
        return batch / self.init_batch * (phi + self.init_batch) / (phi + batch)


def learning_rate_factor(rule: str, noise: NoiseScale, batch: int) -> float:
    """Return the factor on the learning rate for M0 at `batch`.

    Rules are `adascale`, `sqrt`, `linear` and `none`. The first two never exceed the steps that the batch is surely
    worth.
    """
    scale = batch / noise.init_batch
    gain = noise.gain(batch)
    rules = {"adascale": gain, "sqrt": min(float(np.sqrt(scale)), gain), "linear": scale, "none": 1.0}
    if rule not in rules:
        raise ValueError(f"there is no rule {rule!r}; valid: {', '.join(rules)}")
    return rules[rule]
