"""`python -m bench.policies.yardstick ARTIFACT [--bound]`: what `bench allocation` compares with, into
bench/data/pollux.json.

For each trace the figures of Pollux that its authors published, from the completion times of `ARTIFACT`'s
`results-jobload/pollux-1.0/summary.json`. ARTIFACT: the folder `simulator` of petuum/adaptdl, branch `osdi21-artifact`.
With `--bound`, which takes ten minutes: the lower bound of `bound.py`, and the mean completion time under
`foresight.py` as the service works; they hang on the simulator, so run it anew whenever that changes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.policies.bound import market
from bench.policies.foresight import Foresight
from schedulearn.scheduler.sim.arguments import equal_hosts
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.result import Summary, summarize
from schedulearn.scheduler.sim.run import JobResult, Run
from schedulearn.scheduler.sim.simulator import simulate
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


def summary_of(jobs: Sequence[TraceJob], times: Mapping[str, float]) -> Summary:
    """Of jobs that took so long from submission to end; what they held nobody published."""
    outcomes = [JobResult(job, job.submitted_at, job.submitted_at + times[job.id], 0.0, 0, 0.0) for job in jobs]
    return summarize(Run(tuple(outcomes), (), tuple(equal_hosts(16, 4)), (), ()))


def main() -> None:
    artifact = Path(sys.argv[1])
    published = json.loads((artifact / "results-jobload/pollux-1.0/summary.json").read_text())["jcts"]
    found = {}
    for path in sorted((DATA / "workloads").glob("*.csv")):
        jobs = load_trace(path)
        summary = summary_of(jobs, published[path.stem])
        figures = {name: round(float(getattr(summary, name)), 2) for name in FIGURES}
        found[path.stem] = figures | (clairvoyant(jobs) if "--bound" in sys.argv else {})
        print(path.stem, found[path.stem], file=sys.stderr, flush=True)
    FILE.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
