"""How well advice predicts real training. Budgets, as Courier's: R2 on a held-out fifth 0.986 (time), 0.971 (accuracy).

python -m bench.training.advisor [--runs N] [--output FILE.csv]    trains digits, random points of a full factorial
python -m bench.training.advisor --read FILE.csv                   evaluates what was measured before

Factors: batch size, epochs, workers and, by two experiments after each other, one or two jobs at a time. The raw table
goes to a file, so that it can be evaluated again. Which runs are held out is drawn by a seed.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.measured_service import Service, service, verdict
from schedulearn.scheduler.advisor.models import METRIC_MODELS, TIME_MODELS, r2
from schedulearn.scheduler.advisor.samples import Configuration, Sample
from schedulearn.scheduler.control.experiments.advisor import samples_of
from schedulearn.scheduler.store.db import Database, sqlite_url

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build/advisor.csv"
RUNS = 288  # Courier's full factorial
FACTORS: dict[str, Sequence[int]] = {
    "batch": (16, 32, 64, 128, 256, 512), "epochs": (1, 2, 3, 4, 6, 8), "required_gpus": (1, 2),
}  # fmt: skip
AT_ONCE = (1, 2)
BUDGETS = {"time": 0.986, "accuracy": 0.971}


def main(runs: float = RUNS) -> bool:
    samples = measure(int(runs))
    write(OUTPUT, samples)
    print(f"  {len(samples)} runs, raw: {OUTPUT.relative_to(ROOT)}")
    return evaluate(samples)


def measure(runs: int) -> list[Sample]:
    build = subprocess.run([ROOT / "worker_images/build-env.sh"], capture_output=True, text=True, check=True)
    prefix = build.stdout.strip().splitlines()[-1].removeprefix("ready ")
    script = ROOT / "worker_images/examples/digits/train_sdk.py"
    job = {
        "type": "Pytorch", "container_image": "digits", "env": {"OMP_NUM_THREADS": "1"},
        "command": f"python3 {script} --batch-size {{batch}} --max-batch {{batch}} --epochs {{epochs}}",
    }  # fmt: skip
    env = {"SCHEDULEARN_ENVIRONMENTS": json.dumps({"digits": prefix}), "SCHEDULEARN_REPORT_INTERVAL": "1"}
    with service("--runtime", "process", "--simulate-gpus", "4", env=env) as target:
        for at_once in AT_ONCE:
            body = {
                "name": f"digits {at_once} at once", "job": job, "design": "random", "factors": FACTORS,
                "count": max(1, runs // len(AT_ONCE)), "seed": at_once, "max_parallel": at_once,
                "metric": {"name": "accuracy", "goal": "max"},
            }  # fmt: skip
            _run(target, body)
        database = Database(sqlite_url(target.data))
        try:
            with database.read() as conn:
                return samples_of(conn, "accuracy", time.time())
        finally:
            database.close()


def _run(target: Service, body: dict[str, object]) -> None:
    found = target.request("POST", "/api/v1/experiments", body)
    while found["finished_at"] is None:
        time.sleep(2)
        found = target.get(f"/api/v1/sweeps/{found['id']}")
    print(f"  {found['name']}: {found['message']}", flush=True)


def write(file: Path, samples: Sequence[Sample]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow([*Configuration._fields, "run_time", "metric"])
        writer.writerows([*each.configuration, each.run_time, each.metric] for each in samples)


def read(file: Path) -> list[Sample]:
    with file.open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    return [
        Sample(
            Configuration(
                row["family"], row["gpu_type"], int(row["gpus"]), int(row["batch_size"]), int(row["epochs"]),
                int(row["input_size"]), float(row["beside"]),
            ),
            float(row["run_time"]),
            float(row["metric"]) if row["metric"] else None,
        )
        for row in rows
    ]  # fmt: skip


def evaluate(samples: Sequence[Sample]) -> bool:
    """R2 of each model on a fifth that it has not seen. Courier measured 0.640 (linear), 0.833 (queueing) and 0.889
    (boosting) beside its forest's 0.986."""
    kept = True
    for what, models in (("time", TIME_MODELS), ("accuracy", METRIC_MODELS)):
        known = [each for each in samples if what == "time" or each.metric is not None]
        order = [*range(len(known))]
        random.Random(0).shuffle(order)
        unseen, seen = order[: len(known) // 5], order[len(known) // 5 :]
        if len(unseen) < 2:
            print(f"  {len(known)} runs tell nothing of the {what}: five of each ten are needed")
            return False
        y = np.array([each.run_time if what == "time" else each.metric or 0.0 for each in known])
        scores: dict[str, float] = {}
        for name, make in models.items():
            model = make()
            model.fit([known[index].configuration for index in seen], y[seen])
            scores[name] = r2(y[unseen], model.predict([known[index].configuration for index in unseen]))
        print(f"  {what}: " + ", ".join(f"{name} {score:.3f}" for name, score in scores.items()))
        best = max(scores, key=lambda name: scores[name])
        budget = BUDGETS[what]
        shown = f"{scores[best]:.3f} ({best}, {len(unseen)} of {len(known)} runs held out)"
        kept = verdict(f"R2 of {what}", shown, f">= {budget}", scores[best] >= budget) and kept
    return kept


def _command(arguments: list[str]) -> bool:
    parser = argparse.ArgumentParser(prog="python -m bench.training.advisor", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--read", type=Path)
    args = parser.parse_args(arguments)
    if args.read is not None:
        return evaluate(read(args.read))
    samples = measure(args.runs)
    write(args.output, samples)
    return evaluate(samples)


if __name__ == "__main__":
    sys.exit(0 if _command(sys.argv[1:]) else 1)
