"""Seconds of training on 1 to 4 workers, in four frameworks.

One host of four simulated GPUs; a job at a time, rigid, with the same number of samples and the same batch of all
workers together. The time is that of the whole job, start included, as the seed measured it; beside it that of the
epochs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bench.seeds.cluster import lab, progress
from bench.seeds.config_manager import epochs_of
from bench.seeds.measures import table

WORKERS = (1, 2, 3, 4)
BATCH = 96  # that 1, 2, 3 and 4 divide
SAMPLES = 576
EPOCHS = 8
DEVICE_EPOCH_S = 4.0
PROCESSOR_FACTOR = 10
PUBLISHED = {  # the seed's two scripts on TensorFlow stand for our Keras and our TensorFlow
    "keras": (107, 69, 52.3, 45),
    "tensorflow": (67, 51, 42, 37),
    "pytorch": (157, 89, 66, 54),
    "mxnet": (28.6, 24.3, 22.2, 21.5),
}


class Figures(NamedTuple):
    whole: float
    epochs: float


def main(
    frameworks: Sequence[str],
    *,
    workers: Sequence[int] = WORKERS,
    columns: Sequence[str] = ("device", "processor"),
    epochs: int = EPOCHS,
) -> dict[tuple[str, str, int], Figures]:
    """Prints the table and returns what it says: (column, framework, workers) -> seconds."""
    found = {}
    for framework in frameworks:
        for column in columns:
            per_sample = DEVICE_EPOCH_S / SAMPLES if column == "device" else 0.0
            times = epochs if column == "device" else epochs * PROCESSOR_FACTOR
            with lab([framework], (max(WORKERS),), seconds_a_sample=per_sample) as where:
                where.policy("fifo")
                for count in workers:
                    flags = f"--epochs {times} --samples {SAMPLES} --batch-size {BATCH}"
                    job = where.submit(framework, flags, required_gpus=count)
                    [run] = where.wait([job], f"{framework}, {column}, {count} workers")
                    told = epochs_of(where, job)
                    if len(told) != times or {each.workers for each in told} != {count}:
                        raise RuntimeError(f"{framework} on {count} workers trained otherwise: {told}")
                    found[column, framework, count] = Figures(run.seconds, told[-1].ended - told[0].began)
        _print(framework, columns, workers, found)
    return found


def _print(
    framework: str, columns: Sequence[str], workers: Sequence[int], found: dict[tuple[str, str, int], Figures]
) -> None:
    progress("")
    print(f"\n  {framework}")
    head = ["workers", "seed's", "over 1"]
    for column in columns:
        head += [f"{column}: job", "over 1", "epochs", "over 1"]
    rows = []
    for count in workers:
        seed = PUBLISHED[framework]
        row = [str(count), f"{seed[count - 1]:g} s", f"{seed[0] / seed[count - 1]:.2f} x"]
        for column in columns:
            first, at = found[column, framework, workers[0]], found[column, framework, count]
            row += [f"{at.whole:.1f} s", f"{first.whole / at.whole:.2f} x",
                    f"{at.epochs:.1f} s", f"{first.epochs / at.epochs:.2f} x"]  # fmt: skip
        rows.append(row)
    print(table(head, rows), flush=True)
