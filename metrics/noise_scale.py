"""The gradient noise scale, from which statistical efficiency follows (Pollux, OSDI 2021, section 3.1; McCandlish et
al., 2018). NumPy only, and Python 3.8 syntax: training scripts import this.

    phi = M0 var / sqr        samples: how large a batch must be before averaging more gradients stops paying
    efficiency(M) = (phi + M0) / (phi + M)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

SMOOTHING = 0.999
SMALLEST_VAR = 1e-6


def efficiency(phi: float, init_batch: float, batch: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Progress a sample at `batch`, against that at `init_batch`; in (0, 1] for batches of at least `init_batch`.

    Any shape. Raises ValueError unless `phi` is finite and >= 0 and `init_batch` > 0.
    """
    if not np.isfinite(phi) or phi < 0 or not init_batch > 0:
        raise ValueError(f"not a noise scale and initial batch: {phi}, {init_batch}")
    return np.asarray((phi + init_batch) / (phi + np.asarray(batch, dtype=float)))


@dataclass
class NoiseScale:
    """Follows sqr and var, smoothed by an exponential moving average with factor 0.999^S, S = M / M0, and corrected
    for its start from nothing. S makes a step at a large batch weigh as much as the small ones it stands for."""

    init_batch: int
    sqr_mean: float = 0.0
    var_mean: float = 0.0
    weight: float = 0.0
    """Of what was seen so far, in the corrected average; 0: nothing yet."""

    def __post_init__(self) -> None:
        if self.init_batch < 1:
            raise ValueError(f"init_batch must be at least 1, not {self.init_batch}")

    def update(self, local_sqr: float, total_sqr: float, count: int, batch: int) -> bool:
        """Takes one step: `local_sqr` = mean over the `count` gradients of |g_i|^2, `total_sqr` = |mean g_i|^2, each
        of `batch` / `count` samples, `count` >= 2. False, and nothing changed, if they are not finite.

            sqr = (n total - local) / (n - 1),  var = (local - total) S / (n - 1)
        """
        if count < 2:
            raise ValueError("the noise of a step needs at least two gradients; pair single ones by `update_pair`")
        scale = batch / self.init_batch
        sqr = (count * total_sqr - local_sqr) / (count - 1)
        var = (local_sqr - total_sqr) * scale / (count - 1)
        return self._average(sqr, var, scale)

    def update_pair(self, previous_sqr: float, this_sqr: float, both_sqr: float, batch: int) -> bool:
        """For a single replica without accumulation: two successive gradients of `batch` samples each stand for two of
        one step; `both_sqr` = |(g + g') / 2|^2."""
        local = (previous_sqr + this_sqr) / 2
        scale = 2 * batch / self.init_batch
        return self._average(2 * both_sqr - local, (local - both_sqr) * scale, scale)

    def _average(self, sqr: float, var: float, scale: float) -> bool:
        if not (np.isfinite(sqr) and np.isfinite(var)):
            return False
        keep = SMOOTHING**scale
        self.sqr_mean = keep * self.sqr_mean + (1 - keep) * sqr
        self.var_mean = keep * self.var_mean + (1 - keep) * var
        self.weight = keep * self.weight + (1 - keep)
        return True

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
        """Noise scale in samples; None before the first step, and where the gradient drowns in its noise."""
        if not self.weight or self.sqr <= 0:
            return None
        return self.init_batch * self.var / self.sqr

    def gain(self, batch: int) -> float:
        """AdaScale's gain (Johnson et al., 2020): how many steps at `init_batch` one at `batch` is worth, 1 to S.

        r = (var + sqr) / (var / S + sqr)
        """
        scale = batch / self.init_batch
        return (self.var + self.sqr) / (self.var / scale + self.sqr)


def learning_rate_factor(rule: str, noise: NoiseScale, batch: int) -> float:
    """By what the learning rate for M0 is multiplied at `batch`: `adascale`, `sqrt`, `linear` or `none`."""
    scale = batch / noise.init_batch
    rules = {"adascale": noise.gain(batch), "sqrt": float(np.sqrt(scale)), "linear": scale, "none": 1.0}
    if rule not in rules:
        raise ValueError(f"there is no rule {rule!r}; valid: {', '.join(rules)}")
    return rules[rule]
