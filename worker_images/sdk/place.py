"""Where a run stands: epochs, samples, and what those samples were worth. Pure, and the same on all workers."""

from __future__ import annotations

from typing import Any

GRAIN = 1 / 256
"""The worth of a sample is a multiple of this. Sums of such numbers are exact, so all workers end an epoch at the same
step; and a worth that hardly changes leaves the steps that were planned as they are."""
LEAST_WORTH = 0.25
"""A sample counts at least so much: no epoch takes more than four times the data, whatever was measured."""


class Place:
    """An epoch is the progress that the first batch makes in one pass over the data. A sample in a larger batch is
    worth less than one in the first. So an epoch goes on, through the data in another order, until the worth of its
    samples adds up to the whole data set, in whole steps: a small one at its end would do harm (batch normalisation).
    With a fixed batch each sample counts whole, and an epoch is one pass."""

    def __init__(self) -> None:
        self.epoch = 0
        self.total_epochs: int | None = None
        self.samples = 0
        """Of the data set."""
        self.position = 0
        """Samples of this epoch that all workers have done."""
        self.lost = 0.0
        """By how much they are worth less than as many in the first batch; and what this epoch has to make up for."""
        self.worth = 1.0
        """Of a sample at the batch of now, against one in the first batch."""
        self.step = 0
        """Optimizer steps so far, over all attempts."""

    @property
    def trained(self) -> float:
        """Samples' worth of this epoch that is done; below 0 while it makes up for what was lost before."""
        return self.position - self.lost

    @property
    def progress(self) -> float:
        """Epochs done, with the part of this one: what a schedule of the learning rate should go by, since the number
        of steps in an epoch changes with the batch."""
        return self.epoch + (self.trained / self.samples if self.samples else 0.0)

    @property
    def fraction(self) -> float:
        """Of all epochs that are done, 0 to 1."""
        return min(1.0, self.progress / self.total_epochs) if self.total_epochs else 0.0

    def is_trained(self, batch: int) -> bool:
        """Whether the epoch is at its end, in steps of `batch`. Less than half a step is left to the next epoch."""
        left = self.samples - self.trained
        if left <= 0 or self.position < self.samples:
            return left <= 0
        is_last = self.total_epochs is None or self.epoch + 1 >= self.total_epochs
        return not is_last and 2 * left < batch * self.worth

    def epoch_end(self, batch: int) -> int:
        """The position at which the epoch ends at the latest, if the worth of a sample stays what it is."""
        if self.lost == 0 and self.worth == 1:
            return self.samples
        left, each = round((self.samples - self.trained) / GRAIN), round(batch * self.worth / GRAIN)
        return self.position + batch * max(1, -(-left // each))

    def count_step(self, samples: int) -> None:
        """A step of so many was done."""
        self.position += samples
        self.lost += samples * (1.0 - self.worth)
        self.step += 1

    def tell_worth(self, worth: float) -> None:
        """Of a sample from now on: the same value on all workers."""
        self.worth = max(LEAST_WORTH, min(1.0, worth // GRAIN * GRAIN))

    def go_back(self, progress: float) -> None:
        """The weights are those of `progress` again: what was trained since is to be made up for."""
        self.lost += round(max(0.0, self.progress - progress) * self.samples)

    def end_epoch(self, batch: int) -> None:
        """Also where the script left the epoch in its middle; then nothing is made up for."""
        owed = max(0.0, self.samples - self.trained) if self.is_trained(batch) else 0.0
        self.epoch += 1
        self.position, self.lost = 0, owed

    def place(self) -> dict[str, Any]:
        names = ("epoch", "position", "lost", "worth", "step", "samples")
        return {name: getattr(self, name) for name in names}

    def restore_place(self, place: dict[str, Any]) -> None:
        self.epoch, self.position, self.step = place["epoch"], place["position"], place["step"]
        self.lost, self.worth = place.get("lost", 0.0), place.get("worth", 1.0)  # older checkpoints have none
