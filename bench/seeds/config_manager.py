"""Static against dynamic allocation: GPUs become free while a job trains. Budget: 0.50 of the static total time.

One host of four simulated GPUs. A job trains on one GPU; three other jobs hold the rest and end early, one after
another. Static: the job stays on one GPU (`fifo`). Dynamic: `goodput` gives it the GPUs that become free, in place or
by restart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from bench.measured_service import verdict
from bench.seeds.cluster import Lab, lab, progress
from bench.seeds.measures import Run, held, table, workers_at

GPUS = 4
BATCH = 64
SAMPLES = 512
EPOCHS = 48
OTHERS = (2, 4, 6)
"""Epochs of the jobs that hold the other GPUs."""
DEVICE_EPOCH_S = 4.0
PROCESSOR_FACTOR = 6
"""So many more epochs where there is no device: without it an epoch takes less than a second."""
BUDGET = 0.50
STRETCHES = 8
MODES = {"static": "restart", "in place": "in-place", "by restart": "restart"}
_EPOCH = re.compile(r"epoch (\d+) began ([0-9.]+) ended ([0-9.]+) workers (\d+)")


class Epoch(NamedTuple):
    number: int
    began: float
    ended: float
    workers: int


class Played(NamedTuple):
    run: Run
    epochs: tuple[Epoch, ...]
    others: tuple[Run, ...]


def main(
    *,
    columns: Sequence[str] = ("device", "processor"),
    modes: Sequence[str] = tuple(MODES),
    epochs: int = EPOCHS,
    others: Sequence[int] = OTHERS,
) -> dict[tuple[str, str], Played]:
    """Prints the table and returns what it rests on: (column, mode) -> what happened."""
    found = {}
    for column in columns:
        times = 1 if column == "device" else PROCESSOR_FACTOR
        for mode in modes:
            found[column, mode] = _play(column, mode, epochs * times, [each * times for each in others])
        _print(column, {mode: found[column, mode] for mode in modes})
    return found


def _play(column: str, mode: str, epochs: int, others: Sequence[int]) -> Played:
    per_sample = DEVICE_EPOCH_S / SAMPLES if column == "device" else 0.0
    flags = f"--samples {SAMPLES} --batch-size {BATCH} --epochs"
    with lab(["pytorch"], (GPUS,), seconds_a_sample=per_sample) as where:
        if mode == "static":
            where.policy("fifo")
        else:
            where.policy("goodput", "speed", min_run=5)
        before = [where.submit("pytorch", f"{flags} {each}") for each in others]
        job = where.submit("pytorch", f"{flags} {epochs}", elastic=True, min_gpus=1, max_gpus=GPUS, resize=MODES[mode])
        run, *rest = where.wait([job, *before], f"{column}, {mode}")
        return Played(run, epochs_of(where, job), tuple(rest))


def epochs_of(where: Lab, job: str) -> tuple[Epoch, ...]:
    """By the job's log."""
    found = _EPOCH.findall(where.log(job))
    return tuple(
        Epoch(int(number), float(began), float(ended), int(workers)) for number, began, ended, workers in found
    )


def _print(column: str, found: dict[str, Played]) -> None:
    progress("")
    print(f"\n  work on the {column}. Seed: dynamic takes less than 0.50 of static")
    static = found["static"].run.seconds
    rows = []
    for mode, played in found.items():
        run = played.run
        taken = held([run, *played.others], GPUS, run.started, run.finished)
        rows.append((mode, f"{run.seconds:.1f} s", f"{run.seconds / static:.2f}", run.restarts, f"{taken:.0%}"))
    print(table(("allocation", "total time", "of static", "restarts", "GPUs held"), rows))
    print(table(("from static's start", *(f"{mode}: epoch, GPUs, held" for mode in found)), _over_time(found)))
    for mode in [mode for mode in found if mode != "static"]:
        ratio = found[mode].run.seconds / static
        verdict(f"{column}, {mode}: total time over static", f"{ratio:.2f}", f"<= {BUDGET:.2f}", ratio <= BUDGET)


def _over_time(found: dict[str, Played]) -> list[list[str]]:
    """Of each stretch of time: mean time of an epoch, the job's GPUs in its middle, the share of all that is held."""
    length = found["static"].run.seconds / STRETCHES
    rows = []
    for number in range(STRETCHES):
        row = [f"{number * length:.0f} to {(number + 1) * length:.0f} s"]
        for played in found.values():
            begin = played.run.started + number * length
            end = begin + length
            times = [each.ended - each.began for each in played.epochs if begin <= each.ended < end]
            if begin >= played.run.finished:
                row.append("done")
                continue
            mean = f"{sum(times) / len(times):.2f} s" if times else "-"
            taken = held([played.run, *played.others], GPUS, begin, min(end, played.run.finished))
            row.append(f"{mean}, {workers_at(played.run, (begin + end) / 2)}, {taken:.0%}")
        rows.append(row)
    return rows
