"""Throughput by batch and by strategy: a table, a regression with p-values, and processors, network and disk over time.

One host of two simulated GPUs, without devices: the work is the processor's. Strategies: one worker, two that average
by Horovod, two that do by torchrun. What jobs take over time is the service's own telemetry.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bench.seeds.cluster import Lab, lab, progress
from bench.seeds.config_manager import epochs_of
from bench.seeds.measures import table

BATCHES = (16, 32, 64, 128, 256)
STRATEGIES = {"one worker": 1, "horovod": 2, "torchrun": 2}
LAUNCHERS = {"one worker": "none", "horovod": "horovod", "torchrun": "torchrun"}
SAMPLES = 1437
EPOCHS = 12
LONG_EPOCHS = 150
REPEATS = 3


class Term(NamedTuple):
    name: str
    value: float
    error: float
    t: float
    p: float


class Fit(NamedTuple):
    terms: tuple[Term, ...]
    r2: float
    observations: int


def main(
    *,
    batches: Sequence[int] = BATCHES,
    strategies: Sequence[str] = tuple(STRATEGIES),
    repeats: int = REPEATS,
    epochs: int = EPOCHS,
    long_epochs: int = LONG_EPOCHS,
    followed: Sequence[str] = tuple(STRATEGIES),
) -> dict[tuple[int, str], list[float]]:
    """Prints the tables and returns the first: (batch, strategy) -> samples a second of each repeat. `followed`: the
    strategies of which a longer job shows what it takes over time."""
    found: dict[tuple[int, str], list[float]] = {(batch, each): [] for batch in batches for each in strategies}
    with lab(["pytorch"], (max(STRATEGIES.values()),)) as where:
        where.policy("fifo")
        for repeat in range(repeats):
            for batch, strategy in found:
                what = f"batch {batch}, {strategy}, repeat {repeat + 1} of {repeats}"
                found[batch, strategy].append(_throughput(where, _train(where, batch, strategy, epochs, what)))
        _print(found, batches, strategies)
        for strategy in followed:
            job = _train(where, batches[-1], strategy, long_epochs, f"{strategy}, telemetry")
            _print_telemetry(where, job, strategy)
    return found


def _train(where: Lab, batch: int, strategy: str, epochs: int, what: str) -> str:
    workers = STRATEGIES[strategy]
    flags = f"{LAUNCHERS[strategy]} --epochs {epochs} --samples {SAMPLES} --batch-size {batch}"
    job = where.submit("pytorch", flags, "strategies.py", required_gpus=workers, launcher=LAUNCHERS[strategy])
    where.wait([job], what)
    return job


def _throughput(where: Lab, job: str) -> float:
    """Samples a second of the median epoch; the first one warms up."""
    epochs = epochs_of(where, job)
    return SAMPLES / statistics.median(each.ended - each.began for each in epochs[1:] or epochs)


def _print(found: Mapping[tuple[int, str], Sequence[float]], batches: Sequence[int], strategies: Sequence[str]) -> None:
    progress("")
    rows = [(str(batch), *(f"{statistics.fmean(found[batch, each]):.0f}" for each in strategies)) for batch in batches]
    print("\n  Samples a second, mean of the repeats")
    print(table(("batch", *strategies), rows))
    if len(batches) < 2:
        return
    fitted = regression(found, strategies)
    print(f"\n  log2(samples a second) by least squares: R2 {fitted.r2:.3f}, {fitted.observations} runs")
    shown = [(t.name, f"{t.value:+.3f}", f"{t.error:.3f}", f"{t.t:.2f}", f"{t.p:.2g}") for t in fitted.terms]
    print(table(("term", "coefficient", "error", "t", "p"), shown), flush=True)


def regression(found: Mapping[tuple[int, str], Sequence[float]], strategies: Sequence[str]) -> Fit:
    """Of log2(throughput) on log2(batch) and the strategy, the first of which is the base."""
    rows = [(batch, each, value) for (batch, each), values in found.items() for value in values]
    names = ["constant", "log2(batch)", *strategies[1:]]
    x = np.array([[1.0, np.log2(batch), *(float(each == name) for name in strategies[1:])] for batch, each, _ in rows])
    return least_squares(names, x, np.log2([value for *_, value in rows]))


def least_squares(names: Sequence[str], x: np.ndarray, y: np.ndarray) -> Fit:
    """With Student's t of each coefficient, and p: the chance of so large a one if it were nothing."""
    from scipy.stats import t as student

    values, *_ = np.linalg.lstsq(x, y, rcond=None)
    left = y - x @ values
    free = len(y) - x.shape[1]
    variance = float(left @ left) / free if free else float("nan")
    errors = np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * variance)
    ratios = values / errors
    p = 2 * student.sf(np.abs(ratios), free)
    around = y - y.mean()
    terms = tuple(Term(*each) for each in zip(names, values, errors, ratios, p, strict=True))
    return Fit(terms, 1 - float(left @ left) / float(around @ around), len(y))


def _print_telemetry(where: Lab, job: str, strategy: str) -> None:
    taken = where.target.get(f"/api/v1/jobs/{job}/telemetry")["resources"]
    points = [point for series in taken["series"] for point in series["points"]]
    metrics = list(taken["metrics"])
    names = [name for at, name in enumerate(metrics, 1) if any(point[at] is not None for point in points)]
    print(f"\n  {strategy}: what its processes took (local ones have no network of their own: none is measured)")
    rows = []
    for series in taken["series"]:
        for point in series["points"]:
            values = dict(zip(metrics, point[1:], strict=True))
            shown = [f"{point[0] - series['points'][0][0]:.0f} s"]
            rows.append((*shown, *("-" if values[name] is None else f"{values[name]:.4g}" for name in names)))
    print(
        table(("after", *names), rows) if rows else "  the job was too short for a look, which comes every ten seconds"
    )
