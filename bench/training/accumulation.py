"""Final accuracy of steps of several passes, clipped, in bfloat16 with a GradScaler, resized, against plain PyTorch.

python -m bench.training.accumulation [EXAMPLE...] [--write]

Five plain runs of each example, in single precision and one pass a step, say how far accuracies scatter. Five runs of
the SDK with the same seeds take four passes a step, and each trains on 1, 2 and 4 workers in some order, resized by
checkpoint. Budget: each lies in the interval that holds a sixth plain run in 95 % of cases, and their mean in that of
five plain runs. `--write` puts the figures in docs/performance.md.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench.measured_service import verdict
from schedulearn.scheduler.runtimes.sdk import unpack_sdk
from schedulearn.worker import PREEMPTED

ROOT = Path(__file__).parents[2]
EPOCHS = {"digits": 20, "text": 6}
STEPS = {"digits": 20 * 23, "text": 6 * 29}
"""Of a whole run, about: it is resized after each third."""
BATCH, PASSES, SEEDS = 64, 4, 5
PROCESSES = 2  # runs at a time
COURSES = ((1, 2, 4), (2, 4, 1), (4, 1, 2), (1, 4, 2), (2, 1, 4))
"""Workers of the three parts of a run, by seed."""
STUDENT = 2.776  # t of 95 % for 5 values


def main(arguments: list[str] | None = None) -> bool:
    examples = [name for name in arguments or [] if name in EPOCHS] or list(EPOCHS)
    build = subprocess.run([ROOT / "worker_images/build-env.sh"], capture_output=True, text=True, check=True)
    prefix = build.stdout.strip().splitlines()[-1].removeprefix("ready ")
    kept = True
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(PROCESSES) as pool:
        env = {
            "PATH": f"{prefix}/bin:{os.environ['PATH']}", "PYTHONPATH": str(unpack_sdk(Path(folder))),
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        for example in examples:
            plain = [each or 0.0 for each in pool.map(partial(_part, env, example, 1, 0, 0), range(SEEDS))]
            mean = statistics.fmean(plain)
            half = STUDENT * statistics.stdev(plain) * math.sqrt(1 + 1 / SEEDS)
            print(f"  {example}, plain: {', '.join(f'{each:.2f}' for each in sorted(plain))}", flush=True)
            resized = list(pool.map(partial(_resized, env, Path(folder), example), COURSES, range(SEEDS)))
            for course, found, same_seed in zip(COURSES, resized, plain, strict=True):
                what = f"accuracy of {example} on {', then '.join(map(str, course))} workers"
                what += f" (plain with the same seed {same_seed:.2f})"
                budget = f"{mean:.2f} +- {half:.2f}"
                kept = verdict(what, f"{found:.2f}", budget, abs(found - mean) <= half) and kept
            gained = statistics.fmean(resized) - mean
            most = STUDENT * statistics.stdev(plain) * math.sqrt(2 / SEEDS)
            what = f"mean of {example} against plain runs with the same seeds"
            kept = verdict(what, f"{gained:+.2f}", f"0 +- {most:.2f}", abs(gained) <= most) and kept
            if "--write" in (arguments or []):
                seen, same = (", ".join(f"{each:.2f}" for each in values) for values in (resized, plain))
                _write(
                    example,
                    f"{mean:.2f} ± {half:.2f}",
                    f"{seen}; plain with the same seeds {same}: {gained:+.2f} on the mean (budget {most:.2f})",
                )
    return kept


def _write(example: str, budget: str, seen: str) -> None:
    """Replace the example's line in the docs."""
    page = ROOT / "docs/performance.md"
    lines = page.read_text().splitlines()
    [number] = [index for index, line in enumerate(lines) if line.endswith(f"| `accumulation {example}` |")]
    what = lines[number].split(" | ")[0]
    lines[number] = f"{what} | {budget} | {seen} | `accumulation {example}` |"
    page.write_text("\n".join(lines) + "\n")


def _resized(env: dict[str, str], folder: Path, example: str, course: tuple[int, ...], seed: int) -> float:
    checkpoints = str(folder / f"{example}-{seed}")
    job = {**env, "SCHEDULEARN_JOB_ID": "bench", "SCHEDULEARN_CHECKPOINT_DIR": checkpoints}
    found = None
    for part, workers in enumerate(course, 1):
        last = part == len(course)
        stop_at = sys.maxsize if last else STEPS[example] * part // len(course)
        found = _part(job, example, workers, BATCH // workers // PASSES, stop_at, seed)
        if last != (found is not None):
            raise RuntimeError(f"{example}: part {part} of {course} ended {'early' if last else 'too late'}")
    return found or 0.0


def _part(env: dict[str, str], example: str, workers: int, max_local: int, stop_at: int, seed: int) -> float | None:
    """Return the accuracy in points; None: it stopped with a checkpoint."""
    launch = ["python3", "-m", "schedulearn.worker.launch", "horovod", str(workers)] if workers > 1 else []
    command = [*launch, "python3", str(ROOT / "bench/training/accumulation_train.py"), example]
    numbers = map(str, (max_local, EPOCHS[example], stop_at, seed))
    done = subprocess.run([*command, *numbers], env=env, capture_output=True, text=True, check=False)
    if done.returncode == PREEMPTED:
        return None
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return 100 * float(json.loads(done.stdout[done.stdout.index('{"accuracy"') :].splitlines()[0])["accuracy"])


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
