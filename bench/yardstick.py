"""`python -m bench.yardstick`: what `bench allocation` compares with, written to bench/data/pollux.json (45 minutes).

For each trace the figures of Pollux's genetic algorithm under its own conditions (seed 0), and the lower bound of
`bound.py`. Run it anew whenever the simulator changes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.bound import lower_bound
from bench.pollux import Pollux
from schedulearn.scheduler.sim.arguments import equal_hosts
from schedulearn.scheduler.sim.result import summarize
from schedulearn.scheduler.sim.simulator import POLLUX, Simulation
from schedulearn.scheduler.sim.workload import load_trace

DATA = Path(__file__).with_name("data")
FILE = DATA / "pollux.json"
FIGURES = ("mean_jct", "median_jct", "p99_jct", "makespan", "mean_unfairness", "worst_unfairness")


def main() -> None:
    found = {}
    for path in sorted((DATA / "workloads").glob("*.csv")):
        jobs = load_trace(path)

        def show(done: int, total: int, name: str = path.stem) -> None:
            print(f"\r{name}: {done} of {total} jobs", end="", file=sys.stderr, flush=True)

        summary = summarize(Simulation(Pollux(), jobs, equal_hosts(16, 4), POLLUX, progress=show).run())
        print("", file=sys.stderr)
        figures = {name: round(float(getattr(summary, name)), 2) for name in FIGURES}
        found[path.stem] = {**figures, "lower_bound": round(lower_bound(jobs, 16, 4), 1)}
        FILE.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
