"""The thesis' five jobs on two hosts, one of them on at first, by six metrics, three times each.

Its network on scikit-learn's digits enlarged to 28 x 28 pixels, or on MNIST (`--mnist FILE`). Hosts of one simulated
GPU, which stands for one core; the second one is switched on and off as the policy wants. Budgets: `speed` is the
fastest, `cost` takes least node time, accuracies lie within 0.05 points.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.measured_service import verdict
from bench.seeds.cluster import JOBS, Lab, lab, progress
from bench.seeds.measures import makespan, mean_turnaround, table

EPOCHS = (10, 15, 40, 45, 45)
BATCHES = (64, 64, 64, 64, 128)
METRICS = ("default", "speed", "cost", "thesis-default", "thesis-speed", "thesis-cost")
SCALE = 0.3
"""Of the epochs, so that the table takes less than half an hour."""
REPEATS = 3
POINTS = 0.05
WINDOW_S = 5.0
PARK_S = 120.0
PARAMETER_S = 3.0
"""`base_s` and `min_run`: tens of seconds by default, where the thesis' jobs took ten times as long as these do."""
PUBLISHED = {
    "thesis-default": ("439.0 s", "99.18 %"),
    "thesis-speed": ("509.7 s", "99.13 %"),
    "thesis-cost": ("904.7 s", "99.15 %"),
}


class Switch(NamedTuple):
    at: float
    action: str


class Figures(NamedTuple):
    completion: float
    """Mean over the jobs, from submission to end."""
    makespan: float
    accuracy: float
    node_seconds: float
    """That hosts were on, from the first submission to the last end."""
    between: float | None
    """From the first submission to the second host; None: it was never switched on."""


def main(
    *,
    metrics: Sequence[str] = METRICS,
    scale: float = SCALE,
    repeats: int = REPEATS,
    mnist: str = "",
    jobs: int = len(EPOCHS),
    samples: int = 1_000_000,
) -> dict[str, list[Figures]]:
    """Prints the table and returns what it says: metric -> the figures of each repeat."""
    found: dict[str, list[Figures]] = {metric: [] for metric in metrics}
    for repeat in range(repeats):  # in turns, so that what else the machine does meets all alike
        for metric in metrics:
            what = f"{metric}, repeat {repeat + 1} of {repeats}"
            flags = [
                f"--epochs {max(1, round(epochs * scale))} --batch-size {batch} --max-batch {2 * batch} "
                f"--seed {repeat} --samples {samples}"
                for epochs, batch in list(zip(EPOCHS, BATCHES, strict=True))[:jobs]
            ]
            found[metric].append(_play(metric, flags, mnist, what))
    _print(found)
    return found


def _play(metric: str, flags: Sequence[str], mnist: str, what: str) -> Figures:
    env = {"MNIST_PATH": str(Path(mnist).absolute())} if mnist else {}
    with tempfile.TemporaryDirectory(prefix="schedulearn-seeds-") as folder:
        noted = Path(folder) / "switched"
        noted.touch()
        hook = f"{sys.executable} {JOBS / 'note_switch.py'} {noted}"
        settings = {"scaling_hook": hook, "scale_window": WINDOW_S, "initial_hosts": 1}
        with lab(["pytorch"], (1, 1), settings=settings) as where:
            where.policy("goodput", metric, base_s=PARAMETER_S, min_run=PARAMETER_S)
            progress(f"{what}: until one host is off")
            _wait_until_parked(where)
            ids = [
                where.submit("pytorch", each, "thesis.py", elastic=True, min_gpus=1, max_gpus=2, env=env)
                for each in flags
            ]
            runs = where.wait(ids, what)
            begin = min(run.submitted for run in runs)
            end = begin + makespan(runs)
            switched = [Switch(float(line.split()[0]), line.split()[1]) for line in noted.read_text().splitlines()]
            woken = [each.at - begin for each in switched if each.action == "wake" and each.at >= begin]
            return Figures(
                mean_turnaround(runs), end - begin, statistics.fmean(accuracy_of(where, job_id) for job_id in ids),
                end - begin + second_host_seconds(switched, begin, end), woken[0] if woken else None,
            )  # fmt: skip


def _wait_until_parked(where: Lab) -> None:
    until = time.monotonic() + PARK_S
    while not any(host["state"] == "parked" for host in where.target.get("/api/v1/hosts")):
        if time.monotonic() > until:
            raise RuntimeError(f"no host was switched off: {where.target.get('/api/v1/cluster')}")
        time.sleep(0.1)


def second_host_seconds(switched: Sequence[Switch], begin: float, end: float) -> float:
    """That the second host was on between `begin` and `end`; it was off at `begin`."""
    total, since = 0.0, None
    for at, action in switched:
        if action == "wake" and since is None and at >= begin:
            since = at
        elif action == "park" and since is not None:
            total += min(at, end) - since
            since = None
    return total + (end - since if since is not None else 0.0)


def accuracy_of(where: Lab, job_id: str) -> float:
    """In per cent, at the end of the job."""
    return 100 * float(re.findall(r"final test accuracy ([0-9.]+)", where.log(job_id))[-1])


def _print(found: Mapping[str, Sequence[Figures]]) -> None:
    progress("")
    mean = {
        metric: [statistics.fmean(each[column] or 0.0 for each in of) for column in range(4)]
        for metric, of in found.items()
    }
    rows = []
    for metric, (completion, whole, accuracy, nodes) in mean.items():
        seed = PUBLISHED.get(metric, ("-", "-"))
        spread = statistics.stdev(each.completion for each in found[metric]) if len(found[metric]) > 1 else 0.0
        woken = [each.between for each in found[metric] if each.between is not None]
        rows.append(
            (metric, f"{completion:.1f} +- {spread:.1f} s", seed[0], f"{accuracy:.2f} %", seed[1], f"{whole:.1f} s",
             f"{nodes:.1f} s", f"{statistics.fmean(woken):.1f} s" if woken else "never")
        )  # fmt: skip
    head = ("metric", "completion", "seed's", "accuracy", "seed's", "makespan", "node life", "second host after")
    print(table(head, rows), flush=True)
    if not {"default", "speed", "cost"} <= set(mean):
        return
    for metric in [name for name in found if name != "speed"]:
        pairs = zip(found["speed"], found[metric], strict=True)
        ratios = [speed.completion / other.completion for speed, other in pairs]
        print(f"  completion of speed over {metric}, by repeat: {', '.join(f'{each:.2f}' for each in ratios)}")
    fastest, thriftiest = min(mean, key=lambda name: mean[name][0]), min(mean, key=lambda name: mean[name][3])
    verdict("fastest", fastest, "speed", fastest == "speed")
    verdict("least node life", thriftiest, "cost or thesis-cost", thriftiest.endswith("cost"))
    span = max(each[2] for each in mean.values()) - min(each[2] for each in mean.values())
    verdict("accuracies differ by", f"{span:.2f} points", f"<= {POINTS}", span <= POINTS)
