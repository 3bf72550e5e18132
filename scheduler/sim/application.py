"""Ground-truth performance model of a simulated application.

It has the time of micro-steps, and the noise of gradients over the training. The scheduler never sees this. It knows
the fit of what was observed while jobs ran (`jobs/training.py`).
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import Protocol

import numpy as np
import numpy.typing as npt

from schedulearn.metrics.model.goodput import BatchBounds
from schedulearn.metrics.model.step_time import StepTimeModel, StepTimes, fit

Floats = npt.NDArray[np.float64]
Placement = tuple[int, ...]
"""GPUs on each host, most first."""
SEGMENTS = 100
"""Equal parts of a training, over each of which a noise curve is taken as constant."""
_MIN_SQUARE = 1e-9  # minimum, relative to the variance: some gradients were too noisy to tell their mean from zero
_CANDIDATES = 25  # batch sizes that `fastest` tries


class PassTimes(Protocol):
    """Times of micro-steps."""

    def passes(self, placement: Placement, local: int, speed: float = 1.0) -> tuple[float, float]:
        """Return the seconds of a micro-step over `local` samples per GPU, without averaging gradients and with it.

        `speed`: computing speed of the GPU relative to the type that was measured. Networks stay as they are.
        """
        ...

    def fitted(self) -> StepTimeModel:
        """Return the model that a scheduler would fit to all measurements."""
        ...


class Noise(Protocol):
    """The gradient noise scale over a training."""

    @property
    def ends(self) -> Sequence[float]:
        """End of each part of the training, as a fraction of the progress. The last is 1."""
        ...

    def phis(self, batch: float) -> Floats:
        """Return the noise scale in samples, (parts,), of training with `batch` samples per step."""
        ...


@dataclass(frozen=True)
class Modelled:
    """Times of micro-steps by a step-time model."""

    model: StepTimeModel

    def passes(self, placement: Placement, local: int, speed: float = 1.0) -> tuple[float, float]:
        model = on_type(self.model, speed)
        return float(model.grad_time(local)), float(model.iter_time(len(placement), sum(placement), local))

    def fitted(self) -> StepTimeModel:
        return self.model


@lru_cache(maxsize=1000)
def on_type(model: StepTimeModel, speed: float) -> StepTimeModel:
    """The model on a GPU that computes `speed` times as fast; networks stay as they are."""
    return replace(model, alpha_grad=model.alpha_grad / speed, beta_grad=model.beta_grad / speed)


class Measured:
    """Measured times of micro-steps, with linear interpolation as in the artifact of Pollux (OSDI 2021).

    `by_placement`: digits of GPUs per host (the smallest of their rotations) -> rows (local batch, step seconds, of
    them synchronising). `by_size`: rows (hosts, GPUs, local batch, step seconds, of them synchronising).
    """

    def __init__(self, by_placement: dict[str, Floats], by_size: Floats) -> None:
        self._by_placement = by_placement
        rows = [by_size.T]
        for digits, (local, step, sync) in by_placement.items():
            hosts, gpus = len(digits), sum(int(digit) for digit in digits)
            rows.append(np.column_stack([np.full_like(local, hosts), np.full_like(local, gpus), local, step, sync]))
        points, at = np.unique(np.concatenate(rows[1:])[:, :3], axis=0, return_inverse=True)
        count = np.bincount(at.reshape(-1))
        means = [np.bincount(at.reshape(-1), column) / count for column in np.concatenate(rows[1:])[:, 3:].T]
        self._rows = np.concatenate([np.column_stack([points, *means]), rows[0]])
        self._found: dict[tuple[Placement, int], tuple[float, float]] = {}
        self._between: object = None
        self._model: StepTimeModel | None = None

    def passes(self, placement: Placement, local: int, speed: float = 1.0) -> tuple[float, float]:
        found = self._found.get((placement, local))
        if found is None:
            found = self._found[placement, local] = self._look_up(placement, local)
        step, sync = found
        grad = max(step - sync, 1e-6) / speed
        return grad, grad + sync

    def fitted(self) -> StepTimeModel:
        if self._model is None:
            hosts, gpus, local, step, sync = self._rows.T
            self._model = fit(StepTimes(hosts, gpus, local, np.maximum(step - sync, 1e-6), step))
        return self._model

    def _look_up(self, placement: Placement, local: int) -> tuple[float, float]:
        digits = ["".join(map(str, placement[at:] + placement[:at])) for at in range(len(placement))]
        seen = self._by_placement.get(min(digits))
        if seen is not None:
            return float(np.interp(local, seen[0], seen[1])), float(np.interp(local, seen[0], seen[2]))
        hosts, gpus = len(placement), sum(placement)
        near_hosts = min(hosts, int(self._rows[:, 0].max()))
        widest = int((self._rows[:, 1] / self._rows[:, 0]).max())
        near_gpus = min(gpus, near_hosts * widest)
        step, sync = self._interpolated(near_hosts, near_gpus, local)
        if (near_hosts, near_gpus) != (hosts, gpus):
            # That many GPUs, or GPUs per host, were not measured. The fit gives the extra time of synchronising.
            model = self.fitted()
            more = float(model.sync_time(hosts, gpus)) - float(model.sync_time(near_hosts, near_gpus))
            step, sync = step + max(0.0, more), sync + max(0.0, more)
        return step, sync

    def _interpolated(self, hosts: int, gpus: int, local: int) -> tuple[float, float]:
        from scipy.interpolate import LinearNDInterpolator  # takes a third of a second to import

        if self._between is None:
            self._between = LinearNDInterpolator(self._rows[:, :3], self._rows[:, 3:])
        step, sync = self._between([hosts, gpus, local])[0]  # type: ignore[operator]
        if math.isnan(step):  # such batches were not measured on that many GPUs
            model = self.fitted()
            step = model.iter_time(hosts, gpus, local)
            sync = step - model.grad_time(local)
        return float(step), float(sync)


@dataclass(frozen=True)
class NoiseCurve:
    """Noise scale that is the same for all batch sizes.

    Points are (fraction of the training done, samples), by rising fraction; it is linear in between.
    """

    points: tuple[tuple[float, float], ...] = ()

    @property
    def ends(self) -> Sequence[float]:
        return _EQUAL

    def phis(self, batch: float) -> Floats:
        return _curve(self.points)


_EQUAL = tuple((part + 1) / SEGMENTS for part in range(SEGMENTS))
_MIDDLES = (np.arange(SEGMENTS) + 0.5) / SEGMENTS


@lru_cache(maxsize=1000)
def _curve(points: tuple[tuple[float, float], ...]) -> Floats:
    if not points:
        return np.zeros(SEGMENTS)
    fractions, values = zip(*points, strict=True)
    return np.asarray(np.interp(_MIDDLES, fractions, values))


class MeasuredNoise:
    """Square and variance of the gradients in each epoch, measured with several batch sizes; linear between those."""

    def __init__(self, init_batch: int, ends: Sequence[float], batches: Floats, sqr: Floats, var: Floats) -> None:
        """`sqr`, `var`: (batches, epochs)."""
        self.ends = tuple(ends)
        self._init_batch, self._batches, self._sqr, self._var = init_batch, batches, sqr, var
        self._found: dict[float, Floats] = {}

    def phis(self, batch: float) -> Floats:
        found = self._found.get(batch)
        if found is None:
            sqr, var = self._at(batch, self._sqr), self._at(batch, self._var)
            there = var > 0
            least = np.where(there, np.maximum(sqr, _MIN_SQUARE * var), 1.0)
            found = self._found[batch] = np.where(there, self._init_batch * var / least, 0.0)
        return found

    def _at(self, batch: float, values: Floats) -> Floats:
        """Return `values` at a batch size, (parts,). Beyond the sizes measured, they are those of the last one."""
        sizes = self._batches
        above = int(np.searchsorted(sizes, batch, side="right"))
        if above == 0 or above == len(sizes) or batch == sizes[above - 1]:
            return np.asarray(values[max(0, above - 1)])
        slope = (values[above] - values[above - 1]) / (sizes[above] - sizes[above - 1])
        return np.asarray(slope * (batch - sizes[above - 1]) + values[above - 1])


@dataclass(frozen=True)
class Application:
    """Ground truth about one kind of training, on the reference type of GPU."""

    name: str
    times: PassTimes | None
    """None: only the run time is known, and each second of running is one step of progress."""
    bounds: BatchBounds
    total_steps: float
    """Work, in steps of the initial batch size."""
    noise: Noise = NoiseCurve()
    fixed_batch: int | None = None
    """Batch size that its users set, whatever GPUs it gets; None: its workers choose."""
    gpus: int | None = None
    """Maximum number of GPUs that it can use; None: its batch sizes decide."""
    noise_is_sure: bool = False
    """Whether workers use all of its noise scale: that of reports is only the part that they were sure of."""

    @property
    def max_gpus(self) -> int:
        """More replicas than this would each get less than the smallest local batch."""
        most = max(1, self.bounds.max_batch // self.bounds.min_local)
        return most if self.gpus is None else min(most, self.gpus)

    @property
    def last_part(self) -> int:
        return len(self.noise.ends) - 1

    def part_at(self, progress: float) -> int:
        """Return the part of the training that follows after `progress` steps."""
        return min(self.last_part, bisect_right(self.noise.ends, progress / self.total_steps + 1e-9))

    def end_of(self, part: int) -> float:
        """Return the steps of progress at the end of a part."""
        return self.total_steps * self.noise.ends[part]

    def phi(self, part: int, batch: float | None = None) -> float:
        """Noise scale in samples when training with `batch`; None: with the initial one."""
        return float(self.noise.phis(self.bounds.init_batch if batch is None else batch)[part])

    def rates(self, placement: Placement, batch: int, speed: float = 1.0, sure: float = 1.0) -> Floats:
        """Return the steps of progress per second in each part, (parts,): M0 samples with the gain of each step.

        `batch`: samples of a step. `sure`: share of the noise scale by which the learning rate is set.
        """
        samples, seconds = self.step(placement, batch, speed)
        phi = sure * self.noise.phis(samples)
        return np.asarray(samples / (phi + samples) * (phi / self.bounds.init_batch + 1) / seconds)

    def step(self, placement: Placement, batch: int, speed: float) -> tuple[int, float]:
        """Return the samples and seconds of one step."""
        assert self.times is not None
        samples, local, steps = self.bounds.split(batch, sum(placement))
        grad, whole = self.times.passes(placement, local, speed)
        return samples, steps * grad + whole

    def fastest(self, placement: Placement) -> Floats:
        """Return the best rate in each part of the training, (parts,), over the allowed batch sizes."""
        bounds, gpus = self.bounds, sum(placement)
        low = max(bounds.init_batch, gpus * bounds.min_local)
        high = max(low, bounds.max_batch)
        sizes = np.geomspace(low, high, _CANDIDATES) if self.fixed_batch is None else np.array([self.fixed_batch])
        batches = sorted({round(size) for size in sizes.tolist()})
        return np.asarray(np.array([self.rates(placement, batch) for batch in batches]).max(axis=0))


def packed(gpus: int, width: int) -> Placement:
    """Place `gpus` on as few hosts of `width` as possible."""
    whole, rest = divmod(gpus, width)
    return (width,) * whole + (rest,) * (rest > 0)


UNNAMED = "seconds"
"""Name of rigid applications of unknown family."""


def rigid_application(name: str, seconds: float) -> Application:
    """Return an application that takes `seconds`, whatever GPUs it gets."""
    return Application(name, None, BatchBounds(1, 1), seconds)


# --- the six that Pollux's authors measured (measured/README.md) ---

NAMES = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")


@cache
def measured_applications() -> dict[str, Application]:
    """Return the measured applications by name."""
    return {name: _application(name) for name in NAMES}


def _application(name: str) -> Application:
    table = json.loads(files("schedulearn.scheduler.sim").joinpath("measured", f"{name}.json").read_text("utf-8"))
    by_placement = {digits: np.array(columns, dtype=float) for digits, columns in table["placements"].items()}
    times = Measured(by_placement, np.array(table["scalability"], dtype=float))
    progress = np.array(table["progress"], dtype=float)
    gradient = np.array(list(table["gradient"].values()), dtype=float)
    least, most = table["local_batch_size"]
    init = table["init_batch_size"]
    return Application(
        name,
        times,
        BatchBounds(init, table["max_batch_size"], least, most),
        float(progress[-1]),
        MeasuredNoise(
            init, (progress / progress[-1]).tolist(), np.array([float(b) for b in table["gradient"]]),
            gradient[:, 0], gradient[:, 1],
        ),
        table.get("fixed_batch_size"),
        table.get("max_gpus"),
    )  # fmt: skip
