"""Policies against each other, told apart to 1 %: paired runs over jittered copies, with 95 % intervals.

A single run of a trace is good to about 2 %: it hangs on which job came a second before which. So each trace is played
in several copies, whose arrivals are shifted and whose hosts are renamed, the same ones under each policy. What counts
is the mean of the logarithms of the ratios, copy by copy.

    python -m bench.policies.paired goodput:speed goodput:default [TRACE ...] [--copies N] [--conditions pollux|service]
        [--types TYPE=HOSTSxGPUS@SPEED,...] [--figure mean_jct] [--lengths declared|predicted|unknown] [--processes N]

TRACE: as `schedulearn simulate` takes it; `poisson:160@20#7` has the seed 7. By default workloads 1 to 3 of bench/data.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.policies.rigid import with_rigid
from schedulearn.scheduler.core.model import HostView
from schedulearn.scheduler.sim.arguments import Contender, equal_hosts, parse_policies, parse_trace, parse_types
from schedulearn.scheduler.sim.conditions import POLLUX, Conditions
from schedulearn.scheduler.sim.result import Summary, summarize
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import TraceJob

WORKLOADS = Path(__file__).parents[1] / "data" / "workloads"
COPIES = 8
SHIFT_S = 60.0  # by which an arrival comes sooner or later, at most


@dataclass(frozen=True)
class Case:
    """One run."""

    contender: Contender
    trace: str
    copy: int
    hosts: Sequence[HostView]
    conditions: Conditions
    rigid: float = 0.0
    """Share of rigid jobs."""

    def play(self) -> Summary:
        jobs = jittered(with_rigid(numbered_trace(self.trace), self.rigid), self.copy)
        return summarize(simulate(self.contender.make(), jobs, renamed(self.hosts, self.copy), self.conditions))


class Ratio(NamedTuple):
    """A mean of ratios, and where it lies with 95 % confidence, over copies like these of the same traces."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def numbered_trace(trace: str) -> list[TraceJob]:
    """`trace` as `schedulearn simulate` takes it, with its seed behind a `#` if it has one."""
    text, _, seed = trace.partition("#")
    return parse_trace(text, int(seed or 0))


def jittered(jobs: Sequence[TraceJob], copy: int) -> list[TraceJob]:
    """The same jobs, each up to SHIFT_S sooner or later; copy 0 is the trace itself."""
    if copy == 0:
        return list(jobs)
    dice = random.Random(copy)
    return [replace(job, submitted_at=max(0.0, job.submitted_at + dice.uniform(-SHIFT_S, SHIFT_S))) for job in jobs]


def renamed(hosts: Sequence[HostView], copy: int) -> list[HostView]:
    """The same hosts in another order by name; those of copy 0 keep theirs."""
    if copy == 0:
        return list(hosts)
    names = [host.id for host in hosts]
    random.Random(-copy).shuffle(names)
    return [replace(host, id=name) for host, name in zip(hosts, names, strict=True)]


def paired_ratio(mine: Sequence[float], others: Sequence[float]) -> Ratio:
    """Of each of `mine` to its partner. Raises ValueError for fewer than two pairs: they give no interval."""
    from scipy.stats import t

    logs = np.log(np.array(mine, dtype=float) / np.array(others, dtype=float))
    if len(logs) < 2:
        raise ValueError("an interval takes at least two pairs")
    half = float(t.ppf(0.975, len(logs) - 1)) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    mean = float(logs.mean())
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def play_all(cases: Sequence[Case], processes: int) -> list[Summary]:
    """In the order of `cases`, by as many processes."""
    if processes <= 1:
        return [case.play() for case in cases]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(Case.play, cases))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.policies.paired", description=__doc__.splitlines()[0])
    parser.add_argument("policies", nargs=2, help="ALGORITHM[:METRIC]; ratios are of the first to the second")
    parser.add_argument("traces", nargs="*")
    parser.add_argument("--copies", type=int, default=COPIES)
    parser.add_argument("--conditions", choices=("service", "pollux"), default="service")
    parser.add_argument("--lengths", choices=("unknown", "predicted", "declared"), default="unknown")
    parser.add_argument("--types", default="")
    parser.add_argument("--figure", action="append")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    hosts, speeds = parse_types(given.types) if given.types else (equal_hosts(16, 4), {})
    conditions = POLLUX if given.conditions == "pollux" else Conditions()
    conditions = replace(conditions, lengths=given.lengths, speeds=speeds)
    traces = given.traces or [str(path) for path in sorted(WORKLOADS.glob("*.csv"))]
    contenders = parse_policies(",".join(given.policies))
    pairs = [(trace, copy) for trace in traces for copy in range(given.copies)]
    cases = [Case(each, trace, copy, hosts, conditions) for each in contenders for trace, copy in pairs]
    found = play_all(cases, given.processes)
    first, second = found[: len(pairs)], found[len(pairs) :]
    for figure in given.figure or ["mean_jct", "p99_jct", "makespan", "mean_unfairness", "gpu_hours", "host_hours"]:
        for trace in [*traces, "all"]:
            rows = [at for at, (name, _) in enumerate(pairs) if trace in (name, "all")]
            mine, others = ([float(getattr(runs[at], figure)) for at in rows] for runs in (first, second))
            print(f"{figure:16} {Path(trace).name:24} {paired_ratio(mine, others)}", flush=True)


if __name__ == "__main__":
    main()
