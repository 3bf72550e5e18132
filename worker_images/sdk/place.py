"""Progress of a run, in epochs, samples and the worth of samples.

It is pure, and the same on all workers.
"""

from __future__ import annotations

from typing import Any

GRAIN = 1 / 256
"""Unit of the worth of a sample: each worth is a multiple of it.

Sums of such numbers are exact, so all workers end an epoch at the same step. A worth that hardly changes leaves the
planned steps as they are."""
MIN_WORTH = 0.25
"""Minimum worth of a sample: no epoch takes more than 4 times the data, whatever was measured."""


class Place:
    """Place of a run in its epochs.

    An epoch is the progress that the first batch makes in one pass over the data. A sample in a larger batch is worth
    less than one in the first batch. An epoch may therefore go through the data again, in another order. It ends when
    the worth of its samples adds up to the whole data set. It consists of whole steps: a small one at its end would do
    harm (batch normalization). With a fixed batch each sample has the worth 1, and an epoch is one pass over the
    data."""

    def __init__(self) -> None:
        self.epoch = 0
        self.total_epochs: int | None = None
        self.samples = 0
        """Samples in the data set."""
        self.position = 0
        """Samples of this epoch that all workers have done."""
        self.lost = 0.0
        """Shortfall of this epoch, in samples of the first batch.

        Each sample in a larger batch adds the worth that it lacks. The debt that this epoch has to make up for is part
        of it."""
        self.worth = 1.0
        """Worth of a sample at the current batch; 1.0 is that of a sample in the first batch."""
        self.step = 0
        """Optimizer steps so far, over all attempts."""

    @property
    def trained(self) -> float:
        """Progress in this epoch, in samples of the first batch.

        It is below 0 while the epoch makes up for an earlier shortfall."""
        return self.position - self.lost

    @property
    def progress(self) -> float:
        """Epochs done, including the finished part of the current one.

        A learning rate schedule should depend on this: the number of steps in an epoch changes with the batch."""
        return self.epoch + (self.trained / self.samples if self.samples else 0.0)

    @property
    def fraction(self) -> float:
        """Finished fraction of all epochs, 0 to 1."""
        return min(1.0, self.progress / self.total_epochs) if self.total_epochs else 0.0

    def is_trained(self, batch: int) -> bool:
        """Whether the epoch is at its end, in steps of `batch`. Less than half a step is left to the next epoch."""
        left = self.samples - self.trained
        if left <= 0 or self.position < self.samples:
            return left <= 0
        is_last = self.total_epochs is None or self.epoch + 1 >= self.total_epochs
        return not is_last and 2 * left < batch * self.worth

    def epoch_end(self, batch: int) -> int:
        """Return the position at which the epoch ends at the latest.

        It assumes that the worth of a sample stays constant."""
        if self.lost == 0 and self.worth == 1:
            return self.samples
        left, each = round((self.samples - self.trained) / GRAIN), round(batch * self.worth / GRAIN)
        return self.position + batch * max(1, -(-left // each))

    def count_step(self, samples: int) -> None:
        """Record a step of `samples` samples."""
        self.position += samples
        self.lost += samples * (1.0 - self.worth)
        self.step += 1

    def tell_worth(self, worth: float) -> None:
        """Set the worth of a sample from now on. The value must be the same on all workers."""
        self.worth = max(MIN_WORTH, min(1.0, worth // GRAIN * GRAIN))

    def go_back(self, progress: float) -> None:
        """Record that the weights are those of `progress` again.

        This epoch makes up for the training since then."""
        self.lost += round(max(0.0, self.progress - progress) * self.samples)

    def end_epoch(self, batch: int) -> None:
        """End the epoch, even if the script left it in the middle.

        In that case nothing is made up for."""
        owed = max(0.0, self.samples - self.trained) if self.is_trained(batch) else 0.0
        self.epoch += 1
        self.position, self.lost = 0, owed

    def place(self) -> dict[str, Any]:
        names = ("epoch", "position", "lost", "worth", "step", "samples")
        return {name: getattr(self, name) for name in names}

    def restore_place(self, place: dict[str, Any]) -> None:
        self.epoch, self.position, self.step = place["epoch"], place["position"], place["step"]
        self.lost, self.worth = place.get("lost", 0.0), place.get("worth", 1.0)  # older checkpoints have none
