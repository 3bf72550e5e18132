"""`python -m bench.policies.yardstick` (an hour): what `bench allocation` compares with, into bench/data/pollux.json.

For each trace the figures of Pollux's genetic algorithm under its own conditions (seed 0), the lower bound of
`bound.py`, and the mean completion time under `foresight.py` as the service works. Run it anew whenever the simulator
changes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.policies.bound import market
from bench.policies.foresight import Foresight
from bench.policies.pollux import Pollux
from schedulearn.scheduler.sim.arguments import equal_hosts
from schedulearn.scheduler.sim.conditions import POLLUX, Conditions
from schedulearn.scheduler.sim.result import summarize
from schedulearn.scheduler.sim.simulator import Simulation, simulate
from schedulearn.scheduler.sim.workload import TraceJob, load_trace

DATA = Path(__file__).parents[1] / "data"
FILE = DATA / "pollux.json"
FIGURES = ("mean_jct", "median_jct", "p99_jct", "makespan", "mean_unfairness", "worst_unfairness")


def clairvoyant(jobs: Sequence[TraceJob]) -> dict[str, float]:
    """What could be had by whoever knew all before: if nothing cost time, and as the service works."""
    prices = market(jobs, 16, 4)
    known = Conditions(lengths="declared")
    summary = summarize(simulate(Foresight(prices, jobs), jobs, equal_hosts(16, 4), known))
    return {"lower_bound": round(prices.bound, 1), "foresight": round(summary.mean_jct, 2)}


def main() -> None:
    found = {}
    for path in sorted((DATA / "workloads").glob("*.csv")):
        jobs = load_trace(path)

        def show(done: int, total: int, name: str = path.stem) -> None:
            print(f"\r{name}: {done} of {total} jobs", end="", file=sys.stderr, flush=True)

        summary = summarize(Simulation(Pollux(), jobs, equal_hosts(16, 4), POLLUX, progress=show).run())
        print("", file=sys.stderr)
        figures = {name: round(float(getattr(summary, name)), 2) for name in FIGURES}
        found[path.stem] = figures | clairvoyant(jobs)
        FILE.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
