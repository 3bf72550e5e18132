"""Our policies inside the simulator of Pollux's authors, against what they published of Pollux, Tiresias and Optimus.

    python -m bench outside --artifact PATH

PATH: the folder `simulator` of a checkout of petuum/adaptdl, branch `osdi21-artifact` (or the variable
POLLUX_ARTIFACT); the environment needs pandas. Workloads 1 to 3, each in 8 jittered copies (`bench.policies.paired`),
twice: as Pollux works, to which each job is the first of its kind, and as this service does, which remembers families.
Then our own simulator plays the same copies, and its times are compared with the artifact's.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import random
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bench.measured_service import verdict
from bench.policies import artifact
from bench.policies.paired import COPIES, SHIFT_S, WORKLOADS, jittered, paired_ratio, renamed
from bench.policies.yardstick import summary_of
from schedulearn.scheduler.sim.application import measured_applications
from schedulearn.scheduler.sim.arguments import equal_hosts, parse_policies
from schedulearn.scheduler.sim.conditions import POLLUX
from schedulearn.scheduler.sim.result import Summary
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import load_trace

BUDGETS = {
    "speed": {"mean_jct": 0.93, "p99_jct": 1.0, "makespan": 1.0},
    "default": {"mean_jct": 0.98, "mean_unfairness": 1.0},
}
"""Of `goodput`, as `schedulearn simulate` takes it."""
KNOWING = {"nothing of other jobs": False, "families": True}
COMPARED = "default"  # whose times our simulator is to have as well
AGREEMENT = {"all jobs": 0.02, "one application": 0.04}
"""By how much the mean time of all jobs of a workload, and of those of one application, may differ."""


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
                times = list(pool.map(_play, cases))
                found = [summary_of(load_trace(case.workload), each) for case, each in zip(cases, times, strict=True)]
                kept = _judge(f"{metric}, knowing {knowing}", metric, cases, found, published) and kept
                if families and metric == COMPARED:
                    kept = _compare(cases, list(pool.map(_play_here, cases)), times) and kept
    return kept


Times = Mapping[str, float]
"""Job -> seconds from submission to end."""


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


def _play(case: Case) -> Times:
    jobs, dice = load_trace(case.workload), random.Random(case.copy)
    shifts = [dice.uniform(-SHIFT_S, SHIFT_S) if case.copy else 0.0 for _ in jobs]
    [contender] = parse_policies(f"goodput:{case.metric}")
    return artifact.play(case.artifact, case.workload, contender.make(), shifts, case.copy, families=case.families)


def _play_here(case: Case) -> Times:
    """The same in our own simulator."""
    jobs, hosts = jittered(load_trace(case.workload), case.copy), renamed(equal_hosts(16, 4), case.copy)
    conditions = replace(POLLUX, family_memory=case.families, lengths="predicted" if case.families else "unknown")
    [contender] = parse_policies(f"goodput:{case.metric}")
    found = simulate(contender.make(), jobs, hosts, conditions)
    return {each.job.id: each.ended_at - each.job.submitted_at for each in found.outcomes}


def _compare(cases: Sequence[Case], here: Sequence[Times], there: Sequence[Times]) -> bool:
    """Prints our simulator's mean times in the artifact's, by workload and by application; whether they agree."""
    groups: dict[str, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for case, mine, others in zip(cases, here, there, strict=True):
        for job in load_trace(case.workload):
            for group in (case.workload.stem, job.application.name):
                groups[group][case.copy].append((mine[job.id], others[job.id]))
    kept = []
    for group, copies in groups.items():
        budget = AGREEMENT["one application" if group in measured_applications() else "all jobs"]
        means = [tuple(map(statistics.fmean, zip(*pairs, strict=True))) for pairs in copies.values()]
        ratio = paired_ratio(*zip(*means, strict=True))
        what = f"our simulator: mean time of {group} in the artifact's"
        kept.append(verdict(what, str(ratio), f"within {budget:.0%}", abs(ratio.mean - 1) <= budget))
    return all(kept)


def _published(path: Path, policy: str, workloads: list[Path]) -> dict[str, Summary]:
    times = json.loads((path / f"results-jobload/{policy}-1.0/summary.json").read_text())["jcts"]
    return {file.stem: summary_of(load_trace(file), times[file.stem]) for file in workloads}
