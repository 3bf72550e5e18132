"""The raw table of a factorial: one line a run, as CSV."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from schedulearn.features.sweeps.models.samples import Configuration, MeasuredRun


class Run(NamedTuple):
    design: str
    """`full` or `2k`."""
    family: str
    """Of the model: its width."""
    gpus: int
    """Workers."""
    beside: int
    """Jobs that trained on the same host meanwhile."""
    batch_size: int
    epochs: int
    input_size: int
    """Digits of an epoch."""
    response_time: float
    """Seconds from submission to end."""
    accuracy: float

    @property
    def point(self) -> tuple[object, ...]:
        """What was given."""
        return tuple(self)[1:7]

    @property
    def sample(self) -> MeasuredRun:
        """As the advisor has it, with the response time as what is predicted."""
        given = Configuration(
            self.family, "simulated", self.gpus, self.batch_size, self.epochs, self.input_size, float(self.beside)
        )
        return MeasuredRun(given, self.response_time, self.accuracy)


def shortest(runs: Sequence[Run]) -> list[Run]:
    """Each point once, with the shortest of its response times: what else goes on in a machine lengthens a run, and
    never shortens it (as `timeit` has it). Of its accuracies the median."""
    return _by_point(runs, min)


def medians(runs: Sequence[Run]) -> list[Run]:
    """Each point once, with the medians over its runs: what a user would see of it."""
    return _by_point(runs, statistics.median)


def _by_point(runs: Sequence[Run], time_of: Callable[[Iterable[float]], float]) -> list[Run]:
    points: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        points.setdefault((run.design, *run.point), []).append(run)
    return [
        several[0]._replace(
            response_time=time_of([run.response_time for run in several]),
            accuracy=statistics.median(run.accuracy for run in several),
        )
        for several in points.values()
    ]


def write(file: Path, runs: Sequence[Run]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(Run._fields)
        writer.writerows(runs)


def read(file: Path) -> list[Run]:
    with file.open(newline="") as handle:
        return [
            Run(
                row["design"], row["family"], *(int(row[name]) for name in Run._fields[2:7]),
                float(row["response_time"]), float(row["accuracy"]),
            )
            for row in csv.DictReader(handle)
        ]  # fmt: skip
