"""Final loss and accuracy by the least efficiency of a batch: what the floor of the batch rule saves and costs.

python -m bench.training.floors --out DIR [--jobs N] [--seconds S] [--device cpu|cuda] [--only NAME...] [--scale F]
python -m bench.training.floors --out DIR --show

Each run is a line of DIR/runs.jsonl, written when it ends. The most important runs come first. Called again, it goes on
with what is missing. After --seconds, or Ctrl-C, it stops. Only the runs need PyTorch (PYTHONPATH=src).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import queue
import signal
import statistics
import sys
import time
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

EXAMPLES = ("digits", "text", "large-text")
FLOORS = (0.9, 0.7, 0.5, 0.0, 0.8, 0.6, 0.95)
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # t of 95 % for 2 to 10 seeds


class Cell(NamedTuple):
    """One training."""

    example: str
    optimizer: str
    workers: int
    floor: float | None
    """The least efficiency; None: the first batch stays, on any number of workers."""
    seed: int


def cells(only: list[str]) -> list[Cell]:
    """The most important first: whole sets of seeds, several workers before one."""
    found: list[Cell] = []
    rounds = [
        (4, ("momentum", "adamw"), range(5)), (1, ("momentum", "adamw"), range(5)),
        (4, ("momentum", "adamw"), range(5, 10)), (4, ("sgd",), range(5)),
        (2, ("momentum", "adamw"), range(5)), (1, ("sgd",), range(5)), (2, ("sgd",), range(5)),
    ]  # fmt: skip
    for workers, optimizers, seeds in rounds:
        for floor, seed, optimizer, example in product((None, *FLOORS), seeds, optimizers, only):
            cell = Cell(example, optimizer, 1 if floor is None else workers, floor, seed)
            if cell not in found:
                found.append(cell)
    return found


def main(arguments: list[str] | None = None) -> bool:
    parser = argparse.ArgumentParser(prog="python -m bench.training.floors", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="*", choices=EXAMPLES, default=["digits", "text"])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.show:
        _run(args)
    show(load(args.out))
    return True


def load(folder: Path) -> dict[Cell, dict[str, Any]]:
    """All runs of a folder's files."""
    found = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # the last one may be cut off
                run = json.loads(line)
                found[Cell(**run["cell"])] = run
    return found


# --- running ---


def _run(args: argparse.Namespace) -> None:
    """Children take the cells from a queue, and put results into another."""
    done = load(args.out)
    left = [cell for cell in cells(args.only) if cell not in done]
    context = multiprocessing.get_context("spawn")
    asked, answers = context.Queue(), context.Queue()
    for cell in left:
        asked.put(cell)
    children = [
        context.Process(target=_work, args=(asked, answers, args.device, args.scale), daemon=True)
        for _ in range(args.jobs)
    ]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    until = time.monotonic() + args.seconds
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    finished = 0
    try:
        for child in children:
            child.start()
        with (args.out / f"runs-{'-'.join(args.only)}.jsonl").open("a") as file:
            while finished < len(left) and time.monotonic() < until and any(child.is_alive() for child in children):
                with contextlib.suppress(queue.Empty):
                    run = answers.get(timeout=1.0)
                    file.write(json.dumps(run) + "\n")
                    file.flush()
                    finished += 1
    except KeyboardInterrupt:
        pass
    finally:
        for child in children:
            child.kill()
    print(f"  {finished} of {len(left)} runs done", flush=True)


def _work(asked: Any, answers: Any, device: str, scale: float) -> None:
    from bench.training.floors_train import train

    with contextlib.redirect_stdout(None):
        while True:
            cell = asked.get()
            began = time.monotonic()
            found = train(*cell, device=device, scale=scale)
            answers.put({"cell": cell._asdict(), "seconds": round(time.monotonic() - began, 2), **found})


# --- what came of it ---


def show(runs: dict[Cell, dict[str, Any]]) -> None:
    """By example, optimizer, workers and floor, against the first batch with the same seeds."""
    groups: dict[tuple[str, str, int, float], list[Cell]] = defaultdict(list)
    for cell in runs:
        if cell.floor is not None and _fixed(cell) in runs:
            groups[cell.example, cell.optimizer, cell.workers, cell.floor].append(cell)
    print("  example, optimizer, workers, floor: seeds; loss gained by, accuracy points lost, times as fast for all")
    print("  the progress, times as fast to the same loss; batch at the end; retreats")
    for key, members in sorted(groups.items(), key=lambda item: (*item[0][:3], -item[0][3])):
        pairs = [(runs[_fixed(cell)], runs[cell]) for cell in members]
        loss = interval([after["loss"] - before["loss"] for before, after in pairs])
        lost = interval([100 * (before["accuracy"] - after["accuracy"]) for before, after in pairs])
        speed = interval([_seconds(before, key[2]) / after["gpu_seconds"] for before, after in pairs])
        to_loss = interval([speed_to_loss(before, after, key[2]) for before, after in pairs])
        batch = statistics.median(after["batches"][-1][1] for _, after in pairs)
        retreats = sum(after["retreats"] for _, after in pairs)
        print(
            f"  {key[0]:10} {key[1]:8} {key[2]} {key[3]:4.2f}: {len(pairs):2}; {loss}; {lost}; {speed}; {to_loss}; "
            f"{batch:g}; {retreats:g}"
        )
    pooled: dict[tuple[int, float], list[Cell]] = defaultdict(list)
    for key, members in groups.items():
        pooled[key[2], key[3]] += members
    print(
        "  workers, floor over all examples and optimizers: pairs; accuracy points lost, mean and worst; times as fast"
    )
    print("  to the same loss; samples trained, over those of the first batch")
    for (workers, floor), members in sorted(pooled.items(), reverse=True):
        pairs = [(runs[_fixed(cell)], runs[cell]) for cell in members]
        points = [100 * (before["accuracy"] - after["accuracy"]) for before, after in pairs]
        faster = statistics.geometric_mean(speed_to_loss(before, after, workers) for before, after in pairs)
        more = statistics.fmean(after["samples"] / before["samples"] for before, after in pairs)
        print(
            f"  {workers} {floor:4.2f}: {len(pairs):2}; {statistics.fmean(points):+.2f}, {max(points):+.2f}; "
            f"{faster:.2f}; {more:.2f}"
        )


def _fixed(cell: Cell) -> Cell:
    return cell._replace(workers=1, floor=None)


def _seconds(fixed: dict[str, Any], workers: int) -> float:
    """Of a run with the first batch, on so many workers; it was reckoned on one."""
    return float(fixed["gpu_seconds"] * step_seconds(workers) / step_seconds(1))


def step_seconds(workers: int, batch: int = 16) -> float:
    """Of floors_train.MODEL."""
    return 0.01 + 1e-5 * math.ceil(batch / workers)


def speed_to_loss(fixed: dict[str, Any], run: dict[str, Any], workers: int) -> float:
    """How many times as fast the run is at a loss that both reach for good, as late as possible."""
    target = max(fixed["loss"], run["loss"])
    return _reached(fixed, target) * step_seconds(workers) / step_seconds(1) / _reached(run, target)


def _reached(run: dict[str, Any], target: float) -> float:
    """When the loss was last above the target: linear between two marks."""
    marks = run["course"]
    above = [index for index, mark in enumerate(marks) if mark["loss"] > target]
    if not above:
        return float(marks[0]["gpu_seconds"])
    if above[-1] + 1 == len(marks):
        return float(marks[-1]["gpu_seconds"])
    before, after = marks[above[-1]], marks[above[-1] + 1]
    share = (before["loss"] - target) / (before["loss"] - after["loss"])
    return float(before["gpu_seconds"] + share * (after["gpu_seconds"] - before["gpu_seconds"]))


def interval(values: list[float]) -> str:
    """Mean with its 95 % interval."""
    half = 0.0
    if len(values) > 1:
        half = STUDENT[min(len(values), 10) - 2] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.fmean(values):+.3f} +- {half:.3f}"


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
