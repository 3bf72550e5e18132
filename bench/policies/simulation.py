"""The simulator: a trace of 160 jobs on 64 GPUs under one policy. Budget: 4 s of the processor, on a quiet core."""

from __future__ import annotations

import time
from pathlib import Path

from bench.measured_service import verdict
from schedulearn.scheduler.sim.arguments import equal_hosts, parse_policies, parse_trace
from schedulearn.scheduler.sim.comparison import Comparison
from schedulearn.scheduler.sim.conditions import Conditions

TRACE = Path(__file__).parents[1] / "data" / "workloads" / "workload-1.csv"
BUDGET_S = 4.0


def main() -> bool:
    jobs = parse_trace(str(TRACE), 0)
    comparison = Comparison(TRACE.name, jobs, equal_hosts(16, 4), Conditions())
    results = []
    for contender in parse_policies("goodput:default,goodput:speed,tiresias"):
        began = time.process_time()
        played = comparison.play(contender)
        busy = time.process_time() - began
        what = f"{contender.label}, {len(jobs)} jobs on 64 GPUs, {played.summary.decisions} decisions"
        took = f"{played.seconds:.1f} s, {busy:.1f} s of them computing"
        results.append(verdict(what, took, f"<= {BUDGET_S:.0f} s", busy <= BUDGET_S))
    return all(results)
