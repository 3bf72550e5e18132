"""Deadlines: what `goodput` and `edf` gain by heeding them, against themselves without. Budget: more are met.

    python -m bench.policies.deadlines [--traces N] [--jobs 40] [--per-hour 8] [--hosts 4x4] [--share 0.5]
        [--slack 1.2-4] [--policy goodput:speed] [--lengths declared|predicted|unknown] [--processes N]

Random traces of Pollux's applications; a `--share` of the jobs gets a deadline: `--slack` times, drawn evenly, what it
would take alone on the GPUs that its user asks for. Each trace is played by both, so that what is compared is paired.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bench.measured_service import verdict
from bench.policies.paired import paired_ratio
from schedulearn.scheduler.sim.arguments import Contender, equal_hosts, parse_policies
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.result import Summary, summarize, time_alone
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import TraceJob, poisson, random_trace

TRACES = 6


class Setting(NamedTuple):
    jobs: int
    per_hour: float
    share: float
    slack: tuple[float, float]
    width: int
    """GPUs of a host."""


SETTING, HOSTS = Setting(40, 8, 0.5, (1.2, 4.0), 4), 4
POLICIES = ("goodput:speed", "goodput:default", "edf")


def with_deadlines(setting: Setting, seed: int) -> list[TraceJob]:
    dice = random.Random(seed)
    jobs = random_trace(seed, setting.jobs, lambda dice: poisson(dice, setting.per_hour))
    return [
        replace(job, deadline=job.submitted_at + dice.uniform(*setting.slack) * _alone(job, setting.width))
        if dice.random() < setting.share
        else job
        for job in jobs
    ]


def _alone(job: TraceJob, width: int) -> float:
    return time_alone(job.application, job.required_gpus, width, job.required_gpus, job.most_gpus)


class Play(NamedTuple):
    """One run of one trace."""

    contender: Contender
    setting: Setting
    seed: int
    hosts: int
    lengths: str


def play(given: Play) -> Summary:
    setting = given.setting
    machines, conditions = equal_hosts(given.hosts, setting.width), replace(Conditions(), lengths=given.lengths)
    return summarize(simulate(given.contender.make(), with_deadlines(setting, given.seed), machines, conditions))


def pairs_of(policy: str) -> tuple[Contender, Contender]:
    """The policy, and itself without deadlines: `edf` without them is `fifo`."""
    [heeds] = parse_policies(policy)
    if heeds.algorithm == "edf":
        return heeds, replace(heeds, algorithm="fifo")
    return heeds, replace(heeds, params={**heeds.params, "deadline_share": 0})


def compare(
    policy: str, setting: Setting, traces: int, hosts: int, lengths: str, processes: int = 1
) -> tuple[list[Summary], list[Summary]]:
    """Each trace under the policy, and under itself without deadlines."""
    cases = [Play(each, setting, seed, hosts, lengths) for each in pairs_of(policy) for seed in range(traces)]
    if processes <= 1:
        found = [play(case) for case in cases]
    else:
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
            found = list(pool.map(play, cases))
    return found[:traces], found[traces:]


def met(summaries: Sequence[Summary]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([1 - each.late / max(1, each.deadlines) for each in summaries])


def report(policy: str, heeding: Sequence[Summary], ignoring: Sequence[Summary]) -> bool:
    mine, others = met(heeding), met(ignoring)
    jct = paired_ratio([each.mean_jct for each in heeding], [each.mean_jct for each in ignoring])
    worst = paired_ratio([each.p99_jct for each in heeding], [each.p99_jct for each in ignoring])
    print(f"  {policy}: mean JCT {jct} of its own without deadlines, p99 {worst}, {len(mine)} traces", flush=True)
    shown = f"{mine.mean():.3f} against {others.mean():.3f}"
    return verdict(f"deadlines met, {policy}", shown, "more than without", float(mine.mean()) > float(others.mean()))


def main(traces: float = TRACES) -> bool:
    kept = True
    for policy in POLICIES:
        kept = report(policy, *compare(policy, SETTING, int(traces), HOSTS, "declared")) and kept
    return kept


def _command(arguments: list[str]) -> bool:
    parser = argparse.ArgumentParser(prog="python -m bench.policies.deadlines", description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=int, default=TRACES)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--per-hour", type=float, default=8)
    parser.add_argument("--hosts", default="4x4")
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--slack", default="1.2-4")
    parser.add_argument("--policy", action="append")
    parser.add_argument("--lengths", choices=("declared", "predicted", "unknown"), default="declared")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args(arguments)
    hosts, width = map(int, given.hosts.split("x"))
    low, high = map(float, given.slack.split("-"))
    setting = Setting(given.jobs, given.per_hour, given.share, (low, high), width)
    kept = [
        report(policy, *compare(policy, setting, given.traces, hosts, given.lengths, given.processes))
        for policy in given.policy or POLICIES
    ]
    return all(kept)


if __name__ == "__main__":
    sys.exit(0 if _command(sys.argv[1:]) else 1)
