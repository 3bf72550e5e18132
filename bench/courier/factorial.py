"""Courier's full factorial (216 points) and 2^k (16), trained by experiments, and what the advisor predicts of them.

python -m bench factorial                          trains all 696 runs, writes build/factorial.csv and evaluates it
python -m bench factorial=0.1                      a tenth of the runs, drawn at random: to try it out
python -m bench.courier.factorial --read FILE      evaluates what was measured before, such as bench/data/factorial.csv

Factors: workers, jobs beside it on the host, batch size, epochs, and width of the network (a family each). Budgets are
Courier's: R2 on a held-out fifth of the points 0.986 for the response time and 0.971 for accuracy, and in the response
time ahead of the linear, the queueing and the boosted model, which it measured as 0.640, 0.833 and 0.889.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.courier.table import Run, read, shortest, write
from bench.courier.train import EPOCH
from bench.measured_service import Service, service, verdict
from schedulearn.features.sweeps.models.predictors import METRIC_MODELS, TIME_MODELS, Predictor, Regressor, r2

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build/factorial.csv"
RECORDED = ROOT / "bench/data/factorial.csv"
SCRIPT = Path(__file__).parent / "train.py"
WIDTHS, BESIDE = (32, 96), (0, 1, 2)  # what the wider one trains with fits into a core's own cache, of 1 MB
FULL: Mapping[str, Sequence[int]] = {
    "required_gpus": (1, 2), "batch_size": (16, 32, 64, 128, 256, 512), "epochs": (8, 16, 32),
}  # fmt: skip
CORNERS: Mapping[str, Sequence[int]] = {"required_gpus": (1, 2), "batch_size": (16, 512), "epochs": (4, 32)}
PAUSE_S = 0.004  # for which a neighbour waits after a step, in the mean, as others wait for their data
TRIES = 3  # of each point of the full factorial, in random order; the models get the shortest
REPLICATIONS = 3  # of the 2^k: two levels of width, workers, batch size and epochs, no jobs beside it
BUDGETS = {"response time": 0.986, "accuracy": 0.971}
COURIER = "Courier: 0.640 linear, 0.833 queueing, 0.889 boosting of the response time"
UNHELD = ("linear", "queueing", "boosting")  # what the chosen model is to be ahead of
SEED = 0  # of which runs are held out


def main(share: float = 1.0) -> bool:
    began = time.monotonic()
    runs = measure(share)
    write(OUTPUT, runs)
    print(f"  {len(runs)} runs in {(time.monotonic() - began) / 60:.1f} minutes, raw: {OUTPUT.relative_to(ROOT)}")
    return evaluate(runs)


def measure(share: float) -> list[Run]:
    """Trains `share` of each design, drawn at random where it is not all."""
    found: list[Run] = []
    with digits_service() as target:
        for beside in BESIDE:
            with neighbours(target, beside):
                for width in WIDTHS:
                    found += experiment(target, "full", width, beside, FULL, TRIES, share)
        for width in WIDTHS:
            found += experiment(target, "2k", width, 0, CORNERS, REPLICATIONS, share)
    return found


@contextmanager
def digits_service(gpus: int = 4) -> Iterator[Service]:
    """A service whose local jobs have this program's own environment, as the image `digits`."""
    env = {"SCHEDULEARN_ENVIRONMENTS": json.dumps({"digits": sys.prefix})}
    with service("--runtime", "process", "--simulate-gpus", str(gpus), env=env) as target:
        yield target


def job_of(width: int, core: int = 0, pause: float = 0.0) -> dict[str, Any]:
    return {
        "type": "Other", "container_image": "digits", "launcher": "none", "env": {"OPENBLAS_NUM_THREADS": "1"},
        "family": f"digits-{width}",
        "command": f"python3 {SCRIPT} --width {width} --core {core} --pause {pause}",
    }  # fmt: skip


@contextmanager
def neighbours(target: Service, count: int) -> Iterator[None]:
    """So many jobs train on the same host, without end: the first on the core that a job of one worker leaves free."""
    keys = {"family": "neighbour", "required_gpus": 1, "batch_size": 256, "epochs": 1_000_000}
    bodies = [{**job_of(256, core=1 + n, pause=PAUSE_S), **keys, "name": f"neighbour-{n}"} for n in range(count)]
    jobs = [target.request("POST", "/api/v1/jobs", body)["id"] for body in bodies]
    try:
        for job in jobs:
            wait_for(lambda job=job: target.get(f"/api/v1/jobs/{job}")["state"] == "running", 60)  # type: ignore[misc]
        yield
    finally:
        for job in jobs:
            target.request("POST", f"/api/v1/jobs/{job}/cancel")


def experiment(
    target: Service, design: str, width: int, beside: int, factors: Mapping[str, Sequence[int]], times: int,
    share: float,
) -> list[Run]:  # fmt: skip
    """Runs after each other, in random order."""
    body: dict[str, Any] = {
        "name": f"{design}, width {width}, {beside} beside", "job": job_of(width), "factors": factors,
        "design": "factorial", "replications": times, "max_parallel": 1, "max_failures": 0, "seed": beside,
        "metric": {"name": "accuracy", "goal": "max"},
    }  # fmt: skip
    if share < 1:
        points = int(np.prod([len(levels) for levels in factors.values()]))
        body |= {"design": "random", "count": max(1, round(share * points))}
    found = target.request("POST", "/api/v1/experiments", body)
    wait_for(lambda: target.get(f"/api/v1/sweeps/{found['id']}")["finished_at"] is not None, 3600)
    table = target.get(f"/api/v1/experiments/{found['id']}?limit=1000")["table"]
    done = [each for each in table if each["results"]]
    if len(done) < len(table):
        raise RuntimeError(f"{len(table) - len(done)} of {len(table)} runs of {body['name']!r} did not succeed")
    runs = [
        Run(
            design, f"digits-{width}", each["params"]["required_gpus"], beside, each["params"]["batch_size"],
            each["params"]["epochs"], EPOCH, each["results"]["response_time"], round(each["results"]["accuracy"], 4),
        )
        for each in done
    ]  # fmt: skip
    took = statistics.fmean(each.response_time for each in runs)
    print(f"  {body['name']}: {len(runs)} runs, {took:.1f} s each", flush=True)
    return runs


def wait_for(done: Callable[[], bool], most_s: float) -> None:
    end = time.monotonic() + most_s
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing came of it in {most_s:g} s")
        time.sleep(0.5)


def evaluate(runs: Sequence[Run]) -> bool:
    """Of the full factorial's points, each with its shortest try, a fifth is held out. Which model is used is decided
    by cross-validation on the others, as for advice."""
    full = shortest([run for run in runs if run.design == "full"])
    order = [*range(len(full))]
    random.Random(SEED).shuffle(order)
    unseen, seen = order[: len(full) // 5], order[len(full) // 5 :]
    if len(unseen) < 2 or len(seen) < 10:
        print(f"  {len(full)} points tell nothing")
        return False
    kept = True
    for what, models in (("response time", TIME_MODELS), ("accuracy", METRIC_MODELS)):
        y = np.array([run.response_time if what == "response time" else run.accuracy for run in full])
        chosen, scores = held_out(models, full, y, seen, unseen)
        print(f"  {what}: " + ", ".join(f"{name} {score:.4f}" for name, score in scores.items()))
        shown = f"{scores[chosen]:.4f} ({chosen}, {len(unseen)} of {len(full)} points held out)"
        kept = verdict(f"R2 of {what}", shown, f">= {BUDGETS[what]}", scores[chosen] >= BUDGETS[what]) and kept
        if what == "response time":
            others = max(scores[name] for name in UNHELD)
            ahead = chosen not in UNHELD and scores[chosen] > others
            shown = f"{scores[chosen]:.4f}, the best of them {others:.4f}"
            kept = verdict(f"{what} ahead of {', '.join(UNHELD)}", shown, "more", ahead) and kept
        print(f"  {what}: {noise(runs, what)}")
    print(f"  {COURIER}")
    return kept


def held_out(
    models: Mapping[str, Callable[[], Regressor]], runs: Sequence[Run], y: np.ndarray[Any, np.dtype[np.float64]],
    seen: Sequence[int], unseen: Sequence[int],
) -> tuple[str, dict[str, float]]:  # fmt: skip
    """The model that would be used, and R2 of each on what none has seen."""
    given = [run.sample.configuration for run in runs]
    learned, asked = [given[at] for at in seen], [given[at] for at in unseen]
    chosen = Predictor(models, learned, y[seen], "", relative=models is TIME_MODELS).model
    scores = {}
    for name, make in models.items():
        model = make()
        model.fit(learned, y[seen])
        scores[name] = r2(y[unseen], model.predict(asked))
    return chosen, scores


def noise(runs: Sequence[Run], what: str) -> str:
    """How far single runs can be foretold at all: those of one point differ. Accuracy hangs neither on workers nor on
    jobs beside it, so that these count as further runs of a point."""
    full = [run for run in runs if run.design == "full"]
    if what == "accuracy":
        groups = _groups(full, lambda run: (run.family, run.batch_size, run.epochs), lambda run: run.accuracy)
        where = "over workers and jobs beside it"
    else:
        groups, where = _groups(full, lambda run: run.point, lambda run: run.response_time), "of the points"
    several = [group for group in groups if len(group) > 1]
    left = sum(len(group) - 1 for group in several)
    if not left:
        return "no point was tried twice: nothing tells the noise"
    error = sum(statistics.variance(group) * (len(group) - 1) for group in several) / left
    spread = statistics.variance([value for group in several for value in group])
    return f"R2 of single runs by the means {where}: {1 - error / spread:.4f} ({sum(map(len, several))} runs)"


def _groups(
    runs: Sequence[Run], by: Callable[[Run], tuple[object, ...]], value: Callable[[Run], float]
) -> list[list[float]]:
    found: dict[tuple[object, ...], list[float]] = {}
    for run in runs:
        found.setdefault(by(run), []).append(value(run))
    return [*found.values()]


def _command(arguments: list[str]) -> bool:
    parser = argparse.ArgumentParser(prog="python -m bench.courier.factorial", description=__doc__)
    parser.add_argument("--read", type=Path, required=True)
    return evaluate(read(parser.parse_args(arguments).read))


if __name__ == "__main__":
    sys.exit(0 if _command(sys.argv[1:]) else 1)
