"""Our policies inside the simulator of Pollux's authors, against what they published of Pollux, Tiresias and Optimus.

    python -m bench outside --artifact PATH

PATH: the folder `simulator` of a checkout of petuum/adaptdl, branch `osdi21-artifact` (or the variable
POLLUX_ARTIFACT); the environment needs pandas. Workloads 1 to 3, each in 8 jittered copies (`bench.policies.paired`).
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import random
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.measured_service import verdict
from bench.policies import artifact
from bench.policies.paired import COPIES, SHIFT_S, WORKLOADS, paired_ratio
from bench.policies.yardstick import summary_of
from schedulearn.scheduler.sim.result import Summary
from schedulearn.scheduler.sim.workload import load_trace

BUDGETS = {
    "speed": {"mean_jct": 0.93, "p99_jct": 1.0, "makespan": 1.0},
    "default": {"mean_jct": 0.98, "mean_unfairness": 1.0},
}


def main() -> bool:
    found = os.environ.get("POLLUX_ARTIFACT", "")
    problem = _problem(Path(found)) if found else "no checkout was given: --artifact PATH, or POLLUX_ARTIFACT=PATH"
    if problem:
        print(f"  NOT RUN: {problem}. Nothing is said about our policies in others' simulators.", flush=True)
        return True
    path = Path(found).resolve()
    workloads = sorted(WORKLOADS.glob("*.csv"))
    cases = [(path, file, metric, copy) for metric in BUDGETS for file in workloads for copy in range(COPIES)]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        results = dict(zip([(m, f.stem, c) for _, f, m, c in cases], pool.map(_play, cases), strict=True))
    published = {name: _published(path, name, workloads) for name in ("pollux", "tiresias", "optimus")}
    kept = []
    for metric, budgets in BUDGETS.items():
        keys = [(metric, file.stem, copy) for file in workloads for copy in range(COPIES)]
        for name, others in published.items():
            for figure, budget in budgets.items():
                mine = [float(getattr(results[key], figure)) for key in keys]
                ratio = paired_ratio(mine, [float(getattr(others[key[1]], figure)) for key in keys])
                if name == "pollux":
                    kept.append(
                        verdict(f"{metric}: {figure} of {name}", str(ratio), f"<= {budget}", ratio.mean <= budget)
                    )
                else:
                    print(f"       {metric}: {figure} of {name}: {ratio}", flush=True)
    return all(kept)


def _problem(path: Path) -> str:
    if not (path / "simulator.py").is_file() or not (path / "traces").is_dir():
        return f"{path} has no simulator.py and traces: give the folder `simulator` of the artifact"
    return "" if importlib.util.find_spec("pandas") else "the artifact needs pandas, which is not installed"


def _play(case: tuple[Path, Path, str, int]) -> Summary:
    path, file, metric, copy = case
    jobs, dice = load_trace(file), random.Random(copy)
    shifts = [dice.uniform(-SHIFT_S, SHIFT_S) if copy else 0.0 for _ in jobs]
    return summary_of(jobs, artifact.play(path, file, "goodput", metric, shifts, copy))


def _published(path: Path, policy: str, workloads: list[Path]) -> dict[str, Summary]:
    times = json.loads((path / f"results-jobload/{policy}-1.0/summary.json").read_text())["jcts"]
    return {file.stem: summary_of(load_trace(file), times[file.stem]) for file in workloads}
