"""Our policies inside the simulator of Pollux's authors, against what they published of Pollux, Tiresias and Optimus.

    python -m bench outside --artifact PATH

PATH: the folder `simulator` of a checkout of petuum/adaptdl, branch `osdi21-artifact` (or the variable
POLLUX_ARTIFACT); the environment needs pandas. Workloads 1 to 3, each in 8 jittered copies (`bench.policies.paired`),
twice: as Pollux works, to which each job is the first of its kind, and as this service does, which remembers families.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from bench.measured_service import verdict
from bench.policies import artifact
from bench.policies.paired import COPIES, SHIFT_S, WORKLOADS, paired_ratio
from bench.policies.yardstick import summary_of
from schedulearn.scheduler.sim.arguments import parse_policies
from schedulearn.scheduler.sim.result import Summary
from schedulearn.scheduler.sim.workload import load_trace

BUDGETS = {
    "speed": {"mean_jct": 0.93, "p99_jct": 1.0, "makespan": 1.0},
    "speed/later_price=0.85": {"mean_jct": 0.93, "p99_jct": 1.0, "makespan": 1.0},
    "default": {"mean_jct": 0.98, "mean_unfairness": 1.0},
}
"""Of `goodput`, as `schedulearn simulate` takes it."""
KNOWING = {"nothing of other jobs": False, "families": True}


def main() -> bool:
    found = os.environ.get("POLLUX_ARTIFACT", "")
    problem = _problem(Path(found)) if found else "no checkout was given: --artifact PATH, or POLLUX_ARTIFACT=PATH"
    if problem:
        print(f"  NOT RUN: {problem}. Nothing is said about our policies in others' simulators.", flush=True)
        return True
    path = Path(found).resolve()
    workloads = sorted(WORKLOADS.glob("*.csv"))
    published = {name: _published(path, name, workloads) for name in ("pollux", "tiresias", "optimus")}
    kept = True
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for knowing, families in KNOWING.items():
            for metric in BUDGETS:
                cases = [Case(path, file, metric, copy, families) for file in workloads for copy in range(COPIES)]
                found = list(pool.map(_play, cases))
                kept = _judge(f"{metric}, knowing {knowing}", metric, cases, found, published) and kept
    return kept


class Case(NamedTuple):
    """One run."""

    artifact: Path
    workload: Path
    metric: str
    copy: int
    families: bool


def _judge(
    what: str, metric: str, cases: Sequence[Case], found: Sequence[Summary], published: Mapping[str, dict[str, Summary]]
) -> bool:
    """Prints how the runs of one metric compare, and by workload in the mean time; whether budgets are kept."""
    kept = []
    for name, others in published.items():
        for figure, budget in BUDGETS[metric].items():
            pairs = [
                (float(getattr(run, figure)), float(getattr(others[case.workload.stem], figure)))
                for case, run in zip(cases, found, strict=True)
            ]
            ratio = paired_ratio(*zip(*pairs, strict=True))
            if name == "pollux":
                kept.append(verdict(f"{what}: {figure} of {name}", str(ratio), f"<= {budget}", ratio.mean <= budget))
            else:
                print(f"       {what}: {figure} of {name}: {ratio}", flush=True)
            if (name, figure) == ("pollux", "mean_jct"):
                for stem in dict.fromkeys(case.workload.stem for case in cases):
                    own = [pair for case, pair in zip(cases, pairs, strict=True) if case.workload.stem == stem]
                    print(f"         {stem}: {paired_ratio(*zip(*own, strict=True))}", flush=True)
    return all(kept)


def _problem(path: Path) -> str:
    if not (path / "simulator.py").is_file() or not (path / "traces").is_dir():
        return f"{path} has no simulator.py and traces: give the folder `simulator` of the artifact"
    return "" if importlib.util.find_spec("pandas") else "the artifact needs pandas, which is not installed"


def _play(case: Case) -> Summary:
    jobs, dice = load_trace(case.workload), random.Random(case.copy)
    shifts = [dice.uniform(-SHIFT_S, SHIFT_S) if case.copy else 0.0 for _ in jobs]
    [contender] = parse_policies(f"goodput:{case.metric}")
    times = artifact.play(case.artifact, case.workload, contender.make(), shifts, case.copy, families=case.families)
    return summary_of(jobs, times)


def _published(path: Path, policy: str, workloads: list[Path]) -> dict[str, Summary]:
    times = json.loads((path / f"results-jobload/{policy}-1.0/summary.json").read_text())["jcts"]
    return {file.stem: summary_of(load_trace(file), times[file.stem]) for file in workloads}
