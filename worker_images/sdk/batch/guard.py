"""Guard that keeps an adaptive batch from making training worse (docs/adr/0017).

It decides when the batch may grow, how the learning rate follows it, and when both go back. It counts in steps. Its
state is the same on all workers, except for the logged loss, which the first worker sees."""

from __future__ import annotations

import math
from collections import deque

from schedulearn.metrics.model.batch_rule import MIN_STEPS, RAMP_STEPS

MIN_MEASURED = 8  # gradients measured at a batch, before it may grow again
TRIAL_STEPS = 200  # steps after it grew for which the earlier weights are kept
FIRST_PAUSE, LONGEST_PAUSE = 500, 32_000  # steps without growth after the batch went back; doubled each time
USUAL, RECENT = 1 / 200, 1 / 8  # weights of a new measurement in the two averages that are compared
LOUD = 9.0  # times the usual |g|^2: the batch goes back
DEAFENING = 1000.0  # times the usual |g|^2: the weights go back too
LOSSES = 8  # number of last logged losses that a new one is compared with


class Retreat:
    """Way back to a batch of `total` samples.

    `severe`: to the first batch, and to the weights from before the batch last grew."""

    def __init__(self, total: int, why: str, severe: bool) -> None:
        self.total = total
        self.why = why
        self.severe = severe


class BatchGuard:
    def __init__(self, init_batch: int) -> None:
        self.init_batch = init_batch
        self.factor = 1.0
        """Current factor of the learning rate."""
        self.total = init_batch
        self._before = init_batch
        """The batch from which this one grew."""
        self._steps = self._measured = 0
        """Steps and measured gradients at this batch."""
        self._pause = self._retreats = 0
        """Steps until the batch may grow again; number of times it went back."""
        self._usual = _LogAverage(USUAL)
        self._recent = _LogAverage(RECENT)
        self._broken = 0
        """Consecutive gradients, up to the last measured one, that were not finite."""
        self._losses: deque[float] = deque(maxlen=LOSSES)
        self._first_loss: float | None = None
        self._bad_loss: float | None = None

    # --- inputs ---

    def begin(self, total: int) -> None:
        """Set the batch to `total` from now on."""
        if total != self.total:
            self._before = self.total if total > self.total else min(self._before, total)
            self.total = total
            self._steps = self._measured = 0
            self._recent = _LogAverage(RECENT)

    def step(self, target: float) -> None:
        """Count an optimizer step. `target`: learning rate factor that suits the batch."""
        self._steps += 1
        self._pause = max(0, self._pause - 1)
        self.factor = min(target, self.factor * 2 ** (1 / RAMP_STEPS))

    def see_gradient(self, power: float) -> None:
        """Take E|g|^2 of a gradient of the first batch, from one measurement."""
        self._measured += 1
        if not math.isfinite(power):
            self._broken += 1
            return
        self._broken = 0
        level = math.log(max(power, 1e-30))
        self._recent.add(level)
        self._usual.add(level)

    def see_loss(self, value: float) -> None:
        """Take a loss that the script logged."""
        if self.total > self.init_batch and self._is_bad(value):
            self._bad_loss = value
        elif math.isfinite(value):
            self._first_loss = value if self._first_loss is None else self._first_loss
            self._losses.append(value)

    # --- decisions ---

    @property
    def may_grow(self) -> bool:
        return self._pause == 0 and self._steps >= MIN_STEPS and self._measured >= MIN_MEASURED

    @property
    def on_trial(self) -> bool:
        return self.total > self._before and self._steps < TRIAL_STEPS

    def retreat(self) -> Retreat | None:
        """Return what to go back to; None unless training got worse since the batch grew.

        Call it once per step and do what it says: it resets the alarm."""
        if self.total <= self.init_batch:
            self._bad_loss = None
            return None
        why, severe = self._alarm()
        if not why:
            return None
        total = self.init_batch if severe else max(self.init_batch, min(self._before, self.total // 2))
        pause = min(LONGEST_PAUSE, FIRST_PAUSE << min(self._retreats, 10))
        self._retreats += 1
        self._pause, self._broken, self._bad_loss = pause, 0, None
        self._recent = _LogAverage(RECENT)
        return Retreat(total, f"{why} at a batch of {self.total}: no larger batch for {pause} steps", severe)

    def _alarm(self) -> tuple[str, bool]:
        """Return what is wrong (empty if nothing is) and whether it is severe."""
        if self._bad_loss is not None:
            return f"the loss became {self._bad_loss:.4g}", True
        if self._broken >= 2:
            return "the gradients are not finite", True
        if self._recent.count < MIN_MEASURED // 2:
            return "", False
        louder = self._recent.mean - self._usual.mean
        limit = max(math.log(LOUD), 2 * self._usual.spread)
        if louder <= limit:
            return "", False
        return f"the gradient grew by a factor of {math.exp(min(louder, 99) / 2):.3g}", louder > max(
            math.log(DEAFENING), limit
        )

    def _is_bad(self, value: float) -> bool:
        """Return whether a loss is worse than all of the last ones.

        It must be worse by much of what training had gained."""
        if not math.isfinite(value):
            return True
        if len(self._losses) < LOSSES // 2 or self._first_loss is None:
            return False
        usual = sorted(self._losses)[len(self._losses) // 2]
        gained = self._first_loss - usual
        return gained > 0 and value > 2 * max(self._losses) and value - usual > gained / 4

    # --- for checkpoints ---

    def state(self) -> dict[str, float]:
        return {
            "factor": self.factor, "total": self.total, "before": self._before, "steps": self._steps,
            "measured": self._measured, "pause": self._pause, "retreats": self._retreats,
            **{f"usual_{name}": value for name, value in vars(self._usual).items()},
        }  # fmt: skip

    def restore(self, state: dict[str, float]) -> None:
        self.factor, self.total, self._before = state["factor"], int(state["total"]), int(state["before"])
        self._steps, self._measured = int(state["steps"]), int(state["measured"])
        self._pause, self._retreats = int(state["pause"]), int(state["retreats"])
        for name in vars(self._usual):
            setattr(self._usual, name, state[f"usual_{name}"])
        self._recent = _LogAverage(RECENT)


class _LogAverage:
    """Exponential moving average and spread of logarithms, corrected for its start from nothing."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.count = 0.0
        self.weight = self.sum = self.square = 0.0

    def add(self, level: float) -> None:
        self.count += 1
        keep = 1 - self.share
        self.weight = keep * self.weight + self.share
        self.sum = keep * self.sum + self.share * level
        self.square = keep * self.square + self.share * level**2

    @property
    def mean(self) -> float:
        return self.sum / self.weight if self.weight else 0.0

    @property
    def spread(self) -> float:
        return math.sqrt(max(0.0, self.square / self.weight - self.mean**2)) if self.weight else 0.0
