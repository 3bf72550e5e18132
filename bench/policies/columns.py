"""Each metric in what it is for, against every other policy, on random traces: paired, with intervals.

    python -m bench.policies.columns [--traces 20] [--first 0] [--jobs 80] [--processes N] [--policies LIST]
        [--lengths unknown|predicted|declared] [--bound] [--rigid SHARE]

Traces are made by their number: equal hosts or two or three types, arrivals one by one or five at once, and loads from
0.3 to 2 times what the cluster can do. `python -m bench columns` plays the first six. A ratio below 1: better.
`--bound`, some minutes a trace: how far below that of `default` a mean completion time can be at most on those of
equal hosts (`bound.py`), and how far it is where everything is known before (`foresight.py`).
`--rigid 0.7`: that share of the jobs is rigid, with run times and GPUs of jobs of Philly (`rigid.py`).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import repeat
from typing import NamedTuple

from bench.measured_service import verdict
from bench.policies.paired import Case, numbered_trace, paired_ratio, play_all
from bench.policies.rigid import with_rigid
from bench.policies.yardstick import clairvoyant
from schedulearn.scheduler.core.model import HostView
from schedulearn.scheduler.sim.application import packed
from schedulearn.scheduler.sim.arguments import equal_hosts, parse_policies, parse_trace, parse_types
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.result import Summary
from schedulearn.scheduler.sim.workload import TraceJob

CLUSTERS = ("", "", "t4=6x4,a100=2x8@2.5", "t4=8x4,v100=4x4@1.8,a100=2x8@2.5")
"""An empty one: 16 equal hosts of 4 GPUs. As often equal as mixed."""
POLICIES = "goodput:speed,goodput:default,goodput:cost,afs-l,ffdl,elastic-fifo,elastic-tiresias,tiresias"
AIMS = {"goodput:speed": "mean_jct", "goodput:default": "mean_unfairness", "goodput:cost": "host_hours"}
COMPARED = "goodput:default"  # what is left to gain is told in its times
BURST = 5  # jobs at once, of traces whose jobs come so
LEAST_LOAD, MOST_LOAD = 0.3, 2.0


class Setting(NamedTuple):
    trace: str
    hosts: Sequence[HostView]
    speeds: Mapping[str, float]
    load: float
    rigid: float


def setting(number: int, jobs: int, rigid: float = 0.0) -> Setting:
    """The same one for the same number, whichever others are played."""
    dice = random.Random(number)
    cluster, bursts = dice.choice(CLUSTERS), dice.random() < 0.5
    load = LEAST_LOAD * (MOST_LOAD / LEAST_LOAD) ** dice.random()
    hosts, speeds = parse_types(cluster) if cluster else (equal_hosts(16, 4), {})
    power = sum(host.gpus * speeds.get(host.gpu_type, 1.0) for host in hosts)
    times = -(-jobs // BURST)

    def trace(per_hour: float) -> str:
        return f"bursts:{BURST}x{times}@{BURST * 3600 / per_hour:.3f}" if bursts else f"poisson:{jobs}@{per_hour:.3f}"

    drawn = with_rigid(parse_trace(trace(1.0), number), rigid)  # the same jobs, however close they come
    per_hour = load * power / (sum(gpu_hours(job) for job in drawn) / len(drawn))
    return Setting(f"{trace(per_hour)}#{number}", hosts, speeds, load, rigid)


def gpu_hours(job: TraceJob) -> float:
    """Of one GPU that was measured on: no schedule does the work in fewer."""
    application = job.application
    if application.times is None:
        return application.total_steps * job.required_gpus / 3600
    parts = [end - begin for begin, end in zip((0.0, *application.noise.ends), application.noise.ends, strict=False)]
    rates = application.fastest(packed(1, 1))
    return sum(part * application.total_steps / rate for part, rate in zip(parts, rates, strict=True)) / 3600


def play(
    numbers: Sequence[int], jobs: int, policies: str, processes: int, lengths: str = "unknown", rigid: float = 0.0
) -> dict[str, list[Summary]]:
    """Policy -> what came, by trace."""
    settings = [setting(number, jobs, rigid) for number in numbers]
    contenders = parse_policies(policies)
    cases = [
        Case(contender, each.trace, 0, each.hosts, replace(Conditions(), speeds=each.speeds, lengths=lengths), rigid)
        for contender in contenders
        for each in settings
    ]
    found = play_all(cases, processes)
    width = len(settings)
    return {each.label: found[at * width : (at + 1) * width] for at, each in enumerate(contenders)}


def judge(found: Mapping[str, Sequence[Summary]]) -> bool:
    """Prints how each metric does in its column. It keeps its promise if nobody is ahead of it beyond the interval."""
    kept = []
    for metric, figure in AIMS.items():
        if metric not in found:
            continue
        mine = [float(getattr(run, figure)) for run in found[metric]]
        best = [min(float(getattr(run, figure)) for run in runs) for runs in zip(*found.values(), strict=True)]
        won = sum(a <= b * (1 + 1e-9) for a, b in zip(mine, best, strict=True))
        print(f"  {metric}: {figure}, the best on {won} of {len(mine)} traces", flush=True)
        for other, runs in found.items():
            if other != metric:
                ratio = paired_ratio(mine, [float(getattr(run, figure)) for run in runs])
                kept.append(verdict(f"  of {other}", str(ratio), "not above 1 for sure", ratio.low <= 1))
    return all(kept)


def room(number: int, jobs: int) -> dict[str, float]:
    """Of a trace of equal hosts: `clairvoyant`."""
    return clairvoyant(numbered_trace(setting(number, jobs).trace))


def tell_room(numbers: Sequence[int], jobs: int, found: Mapping[str, Sequence[Summary]], processes: int) -> None:
    """Prints what is left to gain where hosts are equal, and what each policy has, in mean times of `default`."""
    equal = [at for at, number in enumerate(numbers) if not setting(number, jobs).speeds]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        rooms = list(pool.map(room, [numbers[at] for at in equal], repeat(jobs)))
    rows = {name: [each[name] for each in rooms] for name in ("lower_bound", "foresight")}
    rows |= {name: [runs[at].mean_jct for at in equal] for name, runs in found.items()}
    print(f"  mean_jct on the {len(equal)} traces of equal hosts, of {COMPARED}", flush=True)
    for name, means in rows.items():
        if name != COMPARED:
            print(f"    {name}: {paired_ratio(means, rows[COMPARED])}", flush=True)


def main() -> bool:
    return judge(play(range(6), 40, POLICIES, os.cpu_count() or 1))


def command() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.policies.columns", description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--jobs", type=int, default=80, help="of each trace")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--lengths", choices=("unknown", "predicted", "declared"), default="unknown")
    parser.add_argument("--bound", action="store_true", help="what is left to gain, on equal hosts")
    parser.add_argument("--rigid", type=float, default=0.0, help="share of rigid jobs")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.bound and COMPARED not in given.policies.split(","):
        parser.error(f"--bound compares with {COMPARED}: --policies must name it")
    if given.bound and given.rigid:
        parser.error("--bound knows of elastic jobs only: leave out --rigid")
    numbers = range(given.first, given.first + given.traces)
    for number in numbers:
        each = setting(number, given.jobs, given.rigid)
        gpus = sum(host.gpus for host in each.hosts)
        types = ",".join(sorted(each.speeds)) or "equal"
        print(f"  {number}: {each.trace}, {gpus} GPUs ({types}), {each.load:.2f} times capacity", flush=True)
    found = play(numbers, given.jobs, given.policies, given.processes, given.lengths, given.rigid)
    judge(found)
    if given.bound:
        tell_room(numbers, given.jobs, found, given.processes)


if __name__ == "__main__":
    command()
