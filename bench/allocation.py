"""The goodput policy against Pollux's genetic algorithm, its own promises and the lower bound (8 minutes).

Each budget is for the mean over the three traces. `pollux.json` holds what it is compared with (`bench.yardstick`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from bench.service import verdict
from bench.yardstick import DATA, FILE
from schedulearn.scheduler.policy import make_policy
from schedulearn.scheduler.sim.arguments import equal_hosts, parse_trace
from schedulearn.scheduler.sim.result import Summary, summarize
from schedulearn.scheduler.sim.simulator import POLLUX, Conditions, simulate
from schedulearn.scheduler.sim.workload import TraceJob, load_trace

SERVICE = Conditions()
KNOWN = Conditions(lengths="declared")
JITTERED = replace(SERVICE, cold_start=15.0, stall_up=8.0, stall_down=2.0, learn_after=45.0, interval=45.0)
RANDOM = ("poisson:160@20", "diurnal:160@15")


def main() -> bool:
    yardstick = json.loads(FILE.read_text())
    traces = {name: load_trace(DATA / "workloads" / f"{name}.csv") for name in yardstick}
    bound = mean(there["lower_bound"] for there in yardstick.values())
    pollux = mean(there["mean_jct"] for there in yardstick.values())
    print(f"  Pollux {pollux:.0f} s; whoever knew everything before: at least {bound:.0f} s ({bound / pollux:.2f})")
    kept = []
    for what, conditions, budget, longest in (
        ("as Pollux was measured", POLLUX, 0.95, 1.03),
        ("as the service works, lengths unknown", SERVICE, 0.85, 1.03),
        ("as the service works, lengths predicted", replace(SERVICE, lengths="predicted"), 0.85, 1.05),
        ("the same with lengths known", KNOWN, 0.80, 1.05),
        ("the same with lengths off by half", replace(KNOWN, length_error=1.5), 0.85, 1.05),
    ):
        runs = [_play("goodput", "speed", jobs, conditions) for jobs in traces.values()]
        kept.append(_ratio(f"speed, {what}", runs, yardstick, "mean_jct", budget))
        kept.append(_ratio("  p99", runs, yardstick, "p99_jct", 1.0))
        kept.append(_ratio("  makespan", runs, yardstick, "makespan", longest))
    runs = [_play("goodput", "default", jobs, POLLUX) for jobs in traces.values()]
    kept.append(_ratio("default, as Pollux was measured", runs, yardstick, "mean_jct", 1.0))
    kept.append(_ratio("  mean finish-time fairness", runs, yardstick, "mean_unfairness", 1.0))
    kept.append(_ratio("  worst finish-time fairness", runs, yardstick, "worst_unfairness", 1.0))
    kept += _promises("the three traces", list(traces.values()), SERVICE)
    kept += _promises("random traces", [parse_trace(text, seed) for seed, text in enumerate(RANDOM)], SERVICE)
    kept += _promises("other constants", list(traces.values())[:1], JITTERED)
    return all(kept)


def _play(algorithm: str, metric: str, jobs: Sequence[TraceJob], conditions: Conditions) -> Summary:
    return summarize(simulate(make_policy(algorithm, metric), jobs, equal_hosts(16, 4), conditions))


def _ratio(what: str, runs: list[Summary], yardstick: dict[str, dict[str, float]], figure: str, budget: float) -> bool:
    ratio = mean(float(getattr(run, figure)) for run in runs) / mean(there[figure] for there in yardstick.values())
    each = ", ".join(
        f"{float(getattr(run, figure)) / there[figure]:.3f}"
        for run, there in zip(runs, yardstick.values(), strict=True)
    )
    return verdict(what, f"{ratio:.3f} of Pollux ({each})", f"<= {budget:.2f}", ratio <= budget)


def _promises(where: str, traces: list[list[TraceJob]], conditions: Conditions) -> list[bool]:
    """`speed` the fastest, `default` the fairest on average, `cost` frugal within its bound."""
    tables = {
        (algorithm, metric): [_play(algorithm, metric, jobs, conditions) for jobs in traces]
        for algorithm, metric in (
            ("goodput", "speed"), ("goodput", "default"), ("goodput", "cost"),
            ("afs-l", "default"), ("ffdl", "default"), ("elastic-fifo", "default"), ("elastic-tiresias", "default"),
        )
    }  # fmt: skip

    def best_other(chosen: str, figure: str) -> tuple[float, str]:
        found = {
            metric if algorithm == "goodput" else algorithm: mean(float(getattr(run, figure)) for run in runs)
            for (algorithm, metric), runs in tables.items()
            if metric != chosen
        }
        name = min(found, key=lambda other: found[other])
        return found[name], name

    speed, default, cost = (tables["goodput", metric] for metric in ("speed", "default", "cost"))
    jct, name = best_other("speed", "mean_jct")
    ratio = mean(run.mean_jct for run in speed) / jct
    kept = [verdict(f"{where}: mean JCT of speed", f"{ratio:.3f} of the next ({name})", "<= 1", ratio <= 1)]
    fairness, name = best_other("default", "mean_unfairness")
    ratio = mean(run.mean_unfairness for run in default) / fairness
    kept.append(verdict(f"{where}: mean FTF of default", f"{ratio:.3f} of the next ({name})", "<= 1", ratio <= 1))
    hours = mean(run.host_hours for run in cost) / mean(run.host_hours for run in default)
    longer = mean(run.mean_jct for run in cost) / mean(run.mean_jct for run in default)
    kept.append(verdict(f"{where}: host-hours of cost", f"{hours:.3f} of default", "<= 0.80", hours <= 0.80))
    kept.append(verdict(f"{where}: mean JCT of cost", f"{longer:.3f} of default", "<= 1.25", longer <= 1.25))
    return kept
