"""The simulator on a trace of Philly's shape: 20,000 jobs on 2,000 GPUs. Budget: 10 minutes by the clock, each policy.

A decision a minute, as in Pollux and Sia: with thousands of jobs something happens every second. The jobs are those of
Pollux's traces, so many an hour that they would keep the cluster busy for LOAD of its time if each ran on one GPU; on
more they need more. Each policy is played in a process of its own, one after the other. `philly=0.1`: a tenth of the
jobs on a tenth of the hosts.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from bench.measured_service import verdict
from bench.policies.columns import gpu_hours
from schedulearn.scheduler.sim.arguments import Contender, equal_hosts, parse_policies, parse_trace
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.result import Summary, summarize
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import TraceJob

JOBS, HOSTS, GPUS = 20_000, 250, 8
LOAD = 0.7
GAP_S = 60.0
BUDGET_S = 600.0
POLICIES = "goodput:speed,tiresias"


class Played(NamedTuple):
    summary: Summary
    seconds: float
    busy: float
    """Seconds of the processor."""
    peak_mb: float


def trace(jobs: int, gpus: int) -> list[TraceJob]:
    """So many that come as the cluster can do them."""
    drawn = parse_trace(f"poisson:{jobs}@1", 0)
    hours = {job.application.name: gpu_hours(job) for job in {job.application.name: job for job in drawn}.values()}
    mean = sum(hours[job.application.name] for job in drawn) / len(drawn)
    return parse_trace(f"poisson:{jobs}@{LOAD * gpus / mean:.3f}", 0)


def play(contender: Contender, share: float) -> Played:
    hosts = equal_hosts(max(1, round(HOSTS * share)), GPUS)
    jobs = trace(max(1, round(JOBS * share)), len(hosts) * GPUS)
    began, busy = time.perf_counter(), time.process_time()
    summary = summarize(simulate(contender.make(), jobs, hosts, Conditions(gap=GAP_S)))
    took = time.perf_counter() - began, time.process_time() - busy
    return Played(summary, *took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main(share: float = 1.0) -> bool:
    results = []
    for contender in parse_policies(POLICIES):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:  # so that each has its own peak
            played = pool.submit(play, contender, share).result()
        told = played.summary
        what = f"{contender.label}, {told.jobs} jobs on {max(1, round(HOSTS * share)) * GPUS} GPUs"
        took = (
            f"{played.seconds:.0f} s, {played.busy:.0f} s of them computing, {told.decisions} decisions of "
            f"{told.decision_ms:.0f} ms, {told.makespan / 3600:.0f} h played, {played.peak_mb:.0f} MB at most"
        )
        results.append(verdict(what, took, f"<= {BUDGET_S:.0f} s", played.seconds <= BUDGET_S and not told.unfinished))
    return all(results)
