"""Our policies inside the simulator of Sia's authors (SOSP 2023), against Sia itself on the same traces.

    python -m bench sia[=TRACES] --sia PATH

PATH: the folder `sia-simulator` of a checkout of siasosp23/artifacts (or the variable SIA_ARTIFACT). TRACES: how many
of each kind, from the second on; all by default. The cluster is theirs: 24 T4 on 6 hosts, 24 2080Ti on 3, 16 A100
on 2. Sia runs where cvxpy is installed, with CBC (cylp) as it asks, else with HiGHS.

Our policy sees what Sia sees. A job's goodput on each type of GPU is the answer of Sia's own function: unknown before
the job has run, then fitted to what it has run on, and carried over to other types by the ratio of their one-GPU rates.
It may have twice the GPUs that it was measured on, a restart is expected to cost what Sia expects, and a job that is
just restarting is left alone, all as with Sia. Lengths are unknown to both. `speed with families` knows more: how long
jobs of the same application took that have ended, as this service does.

Trace 1 of each kind was looked at while the adapter was made; the others were not.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.measured_service import verdict
from bench.policies.paired import paired_ratio
from bench.policies.sia_artifact import FAMILIES, SIA, Ended, missing, play

KINDS = {"philly": "Philly", "saturn": "Helios", "newtrace": "newTrace"}
METRICS = ("speed" + FAMILIES, "speed", "default")
BUDGET = 1.0
ALL = 99


class Figures(NamedTuple):
    """Of one trace. Seconds, but for the restarts of a job and the GPU-hours of all."""

    mean_jct: float
    p99_jct: float
    makespan: float
    restarts: float
    gpu_hours: float


Runs = dict[str, dict[str, Figures]]
"""Contender -> trace -> figures."""


def main(traces: float = ALL) -> bool:
    found = os.environ.get("SIA_ARTIFACT", "")
    problem = _problem(Path(found)) if found else "no checkout was given: --sia PATH, or SIA_ARTIFACT=PATH"
    if problem:
        print(f"  NOT RUN: {problem}. Nothing is said about our policies beside Sia.", flush=True)
        return True
    path = Path(found).resolve()
    contenders = (*METRICS,) if missing(sia=True) else (SIA, *METRICS)
    files = [file for kind in KINDS for file in _traces(path, kind)[: int(traces)]]
    cases = [(path, file, contender) for file in files for contender in contenders]
    runs: Runs = {contender: {} for contender in contenders}
    processes = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for (_, file, contender), figures in zip(cases, pool.map(_play, cases), strict=True):
            runs[contender][_name(file)] = figures
            print(f"       {_name(file)} {contender}: {_said(figures)}", flush=True)
    if SIA not in runs:
        print(f"  NOT COMPARED: Sia itself needs {missing(sia=True)}, which is not installed.", flush=True)
        return True
    return _judge(runs)


def figures_of(ended: Sequence[Ended]) -> Figures:
    times = [job.ended_at - job.submitted_at for job in ended]
    return Figures(
        mean_jct=float(np.mean(times)),
        p99_jct=float(np.percentile(times, 99)),
        makespan=max(job.ended_at for job in ended) - min(job.submitted_at for job in ended),
        restarts=float(np.mean([job.restarts for job in ended])),
        gpu_hours=sum(sum(job.gpu_seconds.values()) for job in ended) / 3600,
    )


def _problem(path: Path) -> str:
    if not (path / "sia.py").is_file() or not all(_traces(path, kind) for kind in KINDS):
        return f"{path} has no sia.py and workloads: give the folder `sia-simulator` of the artifact"
    lacking = missing(sia=False)
    return f"the artifact needs {lacking}, which is not installed" if lacking else ""


def _traces(path: Path, kind: str) -> list[Path]:
    """By number, without the first."""
    files = (path / "workloads" / kind).glob("workload-*.csv")
    return sorted((file for file in files if file.stem != "workload-1"), key=lambda file: (len(file.stem), file.stem))


def _name(file: Path) -> str:
    return f"{KINDS[file.parent.name]} {file.stem.removeprefix('workload-')}"


def _play(case: tuple[Path, Path, str]) -> Figures:
    return figures_of(play(*case))


def _said(figures: Figures) -> str:
    hours = (f"{what} {value / 3600:.3f} h" for what, value in zip(("mean", "p99", "makespan"), figures, strict=False))
    return f"{', '.join(hours)}, {figures.restarts:.2f} restarts a job, {figures.gpu_hours:.0f} GPU-hours"


def _judge(runs: Runs) -> bool:
    """Prints ratios to Sia over all traces, and over those of each kind; whether `speed` is ahead."""
    kept = True
    for metric in METRICS:
        for figure in Figures._fields:
            ratio = _ratio(runs, metric, figure, "")
            if metric.startswith("speed") and figure == "mean_jct":
                kept = verdict(f"{metric}: {figure} of Sia", ratio[0], f"< {BUDGET:g}", ratio[1] < BUDGET) and kept
            else:
                print(f"       {metric}: {figure} of Sia: {ratio[0]}", flush=True)
        for kind in KINDS.values():
            said = ", ".join(f"{figure} {_ratio(runs, metric, figure, kind)[0]}" for figure in Figures._fields[:3])
            print(f"       {metric}, {kind} alone, of Sia: {said}", flush=True)
    return kept


def _ratio(runs: Runs, metric: str, figure: str, kind: str) -> tuple[str, float]:
    """(as text, the mean) of one figure over the traces of a kind; of all kinds: an empty one."""
    names = [name for name in runs[SIA] if name.startswith(kind)]
    mine, others = ([float(getattr(runs[who][name], figure)) for name in names] for who in (metric, SIA))
    if len(names) < 2:
        return f"{mine[0] / others[0]:.3f} on one trace", mine[0] / others[0]
    ratio = paired_ratio(mine, others)
    return str(ratio), ratio.mean
