"""The goodput policy against what was published of Pollux, and its own promises.

Twenty minutes. Each budget is for the mean over the traces. `pollux.json` holds what `bench.policies.yardstick` found.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from bench.measured_service import verdict
from bench.policies.yardstick import DATA, FILE
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.sim.arguments import Contender, equal_hosts, parse_trace
from schedulearn.scheduler.sim.comparison import Comparison
from schedulearn.scheduler.sim.conditions import POLLUX, Conditions
from schedulearn.scheduler.sim.result import Summary, summarize
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import TraceJob, load_trace

SERVICE = Conditions()
KNOWN = Conditions(lengths="declared")
JITTERED = replace(SERVICE, cold_start=15.0, stall_up=8.0, stall_down=2.0, learn_after=45.0, interval=45.0)
RANDOM = [(text, seed) for text in ("poisson:160@20", "diurnal:160@15") for seed in range(3)]


def main() -> bool:
    yardstick = json.loads(FILE.read_text())
    traces = {name: load_trace(DATA / "workloads" / f"{name}.csv") for name in yardstick}
    pollux = mean(there["mean_jct"] for there in yardstick.values())
    print(f"  Pollux, as published: {pollux:.0f} s")
    for figure in ("lower_bound", "foresight"):  # there where the yardstick was made with `--bound`
        found = [there[figure] for there in yardstick.values() if figure in there]
        if len(found) == len(yardstick):
            print(f"  {figure}: {mean(found):.0f} s ({mean(found) / pollux:.3f})")
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
    names = list(traces)
    learned = [_after(traces[names[at - 1]], traces[name]) for at, name in enumerate(names)]
    kept.append(_ratio("speed, lengths predicted from an earlier trace", learned, yardstick, "mean_jct", 0.80))
    runs = [_play("goodput", "default", jobs, POLLUX) for jobs in traces.values()]
    kept.append(_ratio("default, as Pollux was measured", runs, yardstick, "mean_jct", 1.0))
    kept.append(_ratio("  mean finish-time fairness", runs, yardstick, "mean_unfairness", 1.0))
    kept.append(_ratio("  worst finish-time fairness", runs, yardstick, "worst_unfairness", 1.0))
    for where, played, conditions in (
        ("the three traces", list(traces.values()), SERVICE),
        ("random traces", [parse_trace(text, seed) for text, seed in RANDOM], SERVICE),
        ("other constants", list(traces.values()), JITTERED),
    ):
        kept += _promises(where, played, conditions)
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


def _after(earlier: Sequence[TraceJob], jobs: Sequence[TraceJob]) -> Summary:
    """As in a service that has seen another trace before: profiles and lengths of its applications are known."""
    conditions = replace(SERVICE, lengths="predicted")
    comparison = Comparison("", jobs, equal_hosts(16, 4), conditions, past=earlier)
    return comparison.play(Contender("goodput", "speed", {})).summary


def _promises(where: str, traces: list[list[TraceJob]], conditions: Conditions) -> list[bool]:
    """Each metric is the best of all in what it is for, and `cost` is frugal within its bound."""
    tables = {
        algorithm if algorithm != "goodput" else metric: [_play(algorithm, metric, jobs, conditions) for jobs in traces]
        for algorithm, metric in (
            ("goodput", "speed"), ("goodput", "default"), ("goodput", "cost"),
            ("afs-l", "default"), ("ffdl", "default"), ("elastic-fifo", "default"), ("elastic-tiresias", "default"),
        )
    }  # fmt: skip
    kept = []
    for metric, figure in (("speed", "mean_jct"), ("default", "mean_unfairness"), ("cost", "host_hours")):
        means = {name: mean(float(getattr(run, figure)) for run in runs) for name, runs in tables.items()}
        mine = means.pop(metric)
        name = min(means, key=lambda other: means[other])
        seen = f"{mine / means[name]:.3f} of the next ({name})"
        won = sum(
            all(getattr(run, figure) <= getattr(runs[at], figure) for runs in tables.values())
            for at, run in enumerate(tables[metric])
        )
        what = f"{where}: {figure} of {metric}"
        kept.append(verdict(what, f"{seen}, the best on {won} of {len(traces)}", "<= 1", mine <= means[name]))
    cost, default = tables["cost"], tables["default"]
    hours = mean(run.host_hours for run in cost) / mean(run.host_hours for run in default)
    longer = mean(run.mean_jct for run in cost) / mean(run.mean_jct for run in default)
    kept.append(verdict(f"{where}: host-hours of cost", f"{hours:.3f} of default", "<= 0.80", hours <= 0.80))
    kept.append(verdict(f"{where}: mean JCT of cost", f"{longer:.3f} of default", "<= 1.25", longer <= 1.25))
    return kept
