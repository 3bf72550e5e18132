"""Final accuracy of an adaptive batch against a fixed one, over seeds. Budgets: at most 0.3 points lost on the mean; no
run diverges.

python -m bench.training.accuracy [EXAMPLE...] [OPTIMIZER...] [--seeds N] [--epochs N] [--max-batch M] [--workers N]

Without names: digits, all optimizers. The service's answers always favour the larger batch, which may become 16 times
as large. Beside the accuracy stands the speed: the time that the steps would take on GPUs of 10 ms and 10 us a sample.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.measured_service import verdict
from schedulearn.scheduler.runtimes.sdk import unpack_sdk

ROOT = Path(__file__).parents[2]
EPOCHS = {"digits": 30, "text": 16, "resnet": 8}
OPTIMIZERS = ("sgd", "momentum", "adam")
BATCH = 64
PROCESSES = 2
POINTS = 0.3
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # t of 95 % for 2 to 10 seeds
DIVERGED = 10.0  # points below the fixed run of the same seed


def main(arguments: list[str] | None = None) -> bool:
    parser = argparse.ArgumentParser(prog="python -m bench accuracy", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join([*EPOCHS, *OPTIMIZERS])}")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--max-batch", type=int, default=16 * BATCH)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args(arguments or [])
    examples = [name for name in args.names if name in EPOCHS] or ["digits"]
    optimizers = [name for name in args.names if name in OPTIMIZERS] or list(OPTIMIZERS)
    build = subprocess.run([ROOT / "worker_images/build-env.sh"], capture_output=True, text=True, check=True)
    prefix = build.stdout.strip().splitlines()[-1].removeprefix("ready ")
    seeds = list(range(args.seeds))
    print(
        f"  {len(seeds)} seeds, batch {BATCH}, adaptive up to {args.max_batch}; accuracy in points, with 95 % intervals"
    )
    kept = True
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max(1, PROCESSES // args.workers)) as pool:
        env = {
            "PATH": f"{prefix}/bin:{os.environ['PATH']}", "PYTHONPATH": str(unpack_sdk(Path(folder))),
            "OMP_NUM_THREADS": "1", "SCHEDULEARN_JOB_ID": "bench",
        }  # fmt: skip
        for example in examples:
            epochs = args.epochs or EPOCHS[example]
            for optimizer in optimizers:
                fixed, adaptive = pool.map(
                    lambda most, e=example, o=optimizer, n=epochs: _train(env, args.workers, e, o, most, n, seeds),
                    (BATCH, args.max_batch),
                )
                kept = _compare(f"{example}, {optimizer}", fixed, adaptive) and kept
    return kept


def _train(
    env: dict[str, str], workers: int, example: str, optimizer: str, most: int, epochs: int, seeds: list[int]
) -> list[dict[str, Any]]:
    launch = ["python3", "-m", "schedulearn.worker.launch", "horovod", str(workers)] if workers > 1 else []
    command = [
        *launch,
        "python3",
        str(ROOT / "bench/training/accuracy_train.py"),
        example,
        optimizer,
        str(most),
        str(epochs),
    ]
    done = subprocess.run([*command, *map(str, seeds)], env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if '{"seed"' in line]


def _compare(what: str, fixed: list[dict[str, Any]], adaptive: list[dict[str, Any]]) -> bool:
    losses = [100 * (a["accuracy"] - b["accuracy"]) for a, b in zip(fixed, adaptive, strict=True)]
    mean, half = statistics.fmean(losses), 0.0
    if len(losses) > 1:
        half = STUDENT[min(len(losses), 10) - 2] * statistics.stdev(losses) / math.sqrt(len(losses))
    speed = sum(run["gpu_seconds"] for run in fixed) / sum(run["gpu_seconds"] for run in adaptive)
    largest = [max(total for _, total, _ in run["batches"]) for run in adaptive]
    retreats = sum(run["retreats"] for run in adaptive)
    passes = statistics.fmean(run["passes"] for run in adaptive)
    before, after = (100 * statistics.fmean(run["accuracy"] for run in runs) for runs in (fixed, adaptive))
    print(
        f"  {what}: fixed {before:.2f}, adaptive {after:.2f}, lost {mean:+.2f} +- {half:.2f}; batch up to "
        f"{statistics.median(largest):.0f} (median), went back {retreats:.0f} x, {passes:.2f} passes an epoch, "
        f"{speed:.2f} x as fast"
    )
    kept = verdict(f"points lost by {what}", f"{mean:+.2f} +- {half:.2f}", f"<= {POINTS}", mean <= POINTS)
    worst = max(losses)
    return verdict(f"worst seed of {what}", f"{worst:+.2f}", f"<= {DIVERGED:g}", worst <= DIVERGED) and kept


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
