"""FIFO against Round Robin against `goodput`: 5, 10, 15 and 20 jobs, one every 10 s, in four frameworks.

Three hosts of two simulated GPUs. FIFO and Round Robin may put two jobs on a GPU, as the original Schedulearn did: FIFO
fills the first host before it takes the next, Round Robin spreads them. `goodput` gives each GPU to one job, and jobs
more GPUs where some are left. Times are the seed's times `scale`, with the parameters of `goodput` that are seconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.measured_service import verdict
from bench.seeds.cluster import FRAMEWORKS, Lab, lab, progress
from bench.seeds.measures import Run, change, held_over_makespan, makespan, mean_turnaround, table

HOSTS = (2, 2, 2)
APART_S = 10.0
SCALE = 0.5
"""Shorter, and the start of a process, 3 s of a core, is what is measured."""
JOBS = (5, 10, 15, 20)
OTHERS_JOBS = 10
COLUMNS = ("device", "processor")
SAMPLES = 512
EPOCHS = 4
BATCH = 64
DEVICE_S = 80.0
"""What the device takes for one job, before it is scaled: so that the jobs ask for a little more than all six GPUs."""
PROCESSOR_FACTOR = 15
"""So many more epochs where there is no device: without it an epoch takes a tenth of a second."""
SHARED = 2
POLICIES = ("fifo", "round-robin", "goodput")
PUBLISHED = {
    "pytorch": "makespan of Round Robin over FIFO: -21, -10, -23 %",
    "tensorflow": "turnaround of Round Robin over FIFO: -14 to -34 %",
}


class Figures(NamedTuple):
    makespan: float
    turnaround: float
    held: float
    busy: float | None
    """The share of all devices' time that they worked; None without devices."""


class Round(NamedTuple):
    """The same jobs, once under each policy."""

    column: str
    framework: str
    jobs: int


def plan(
    frameworks: Sequence[str] = (), counts: Sequence[int] = (), columns: Sequence[str] = COLUMNS, *, quick: bool = False
) -> list[Round]:
    """The rounds of the table `fifo-rr`: PyTorch unless told otherwise, with each number of jobs; and one of each
    framework without devices."""
    if quick:
        return [
            Round(columns[0], framework, count) for framework in frameworks or ["pytorch"] for count in counts or [2]
        ]
    numbers = counts or JOBS
    rounds = []
    for framework in frameworks or ["pytorch"]:
        for column in columns:
            if column == "device":
                rounds += [Round(column, framework, count) for count in numbers]
            else:
                rounds.append(Round(column, framework, OTHERS_JOBS if OTHERS_JOBS in numbers else max(numbers)))
    return rounds


def others_plan(
    frameworks: Sequence[str] = (), counts: Sequence[int] = (), columns: Sequence[str] = COLUMNS, *, quick: bool = False
) -> list[Round]:
    """The rounds of the table `fifo-rr-others`: what is not PyTorch, with one number of jobs."""
    others = frameworks or [framework for framework in FRAMEWORKS if framework != "pytorch"]
    if quick:
        return plan(others[:1], counts, columns, quick=True)
    return plan(others, counts or [OTHERS_JOBS], [column for column in columns if column == "device"] or columns)


def main(rounds: Sequence[Round], *, scale: float = SCALE, epochs: int = EPOCHS) -> dict[tuple[Round, str], Figures]:
    """Prints a table a round and returns what they say."""
    found = {}
    for each in rounds:
        for policy in POLICIES:
            found[each, policy] = _play(each, policy, scale, epochs)
        _print(each, {policy: found[each, policy] for policy in POLICIES})
    return found


def _play(each: Round, policy: str, scale: float, epochs: int) -> Figures:
    column, framework, count = each
    what = f"{column}, {framework}, {count} jobs, {policy}"
    per_sample = DEVICE_S * scale / (EPOCHS * SAMPLES) if column == "device" else 0.0
    with lab([framework], HOSTS, seconds_a_sample=per_sample) as where:
        _choose(where, policy, scale)
        progress(what)
        ids = []
        times = epochs if per_sample else PROCESSOR_FACTOR * epochs
        flags = f"--epochs {times} --samples {SAMPLES} --batch-size {BATCH}"
        resize = "in-place" if framework == "pytorch" else "restart"
        began = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began + number * APART_S * scale - time.monotonic()))
            ids.append(where.submit(framework, flags, elastic=True, min_gpus=1, max_gpus=max(HOSTS), resize=resize))
        return _figures(where.wait(ids, what), where, column)


def _choose(where: Lab, policy: str, scale: float) -> None:
    if policy == "goodput":
        where.policy("goodput", "speed", base_s=30 * scale, min_run=30 * scale)
    else:
        where.policy(policy, jobs_per_gpu=SHARED, max_utilization=100)


def _figures(runs: Sequence[Run], where: Lab, column: str) -> Figures:
    took = makespan(runs)
    busy = where.busy_seconds() / (where.gpus * took) if column == "device" else None
    return Figures(took, mean_turnaround(runs), held_over_makespan(runs, where.gpus), busy)


def _print(each: Round, found: Mapping[str, Figures]) -> None:
    progress("")
    seed = PUBLISHED.get(each.framework, "no figures")
    print(f"\n  {each.framework}, {each.jobs} jobs, work on the {each.column}. Seed: {seed}")
    first = found["fifo"]
    rows = []
    for policy in POLICIES:
        at = found[policy]
        rows.append(
            (policy, f"{at.makespan:.1f} s", change(at.makespan, first.makespan), f"{at.turnaround:.1f} s",
             change(at.turnaround, first.turnaround), f"{at.held:.0%}", "-" if at.busy is None else f"{at.busy:.0%}")
        )  # fmt: skip
    head = ("policy", "makespan", "over fifo", "turnaround", "over fifo", "GPUs held", "device busy")
    print(table(head, rows), flush=True)
    ours, others = found["goodput"], [found[policy] for policy in POLICIES[:2]]
    for what, mine, theirs in (
        ("makespan", ours.makespan, min(other.makespan for other in others)),
        ("turnaround", ours.turnaround, min(other.turnaround for other in others)),
    ):
        verdict(f"{what} of goodput over the better of both", f"{mine / theirs:.2f}", "< 1", mine < theirs)
