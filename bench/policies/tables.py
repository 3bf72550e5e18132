"""The tables of docs/policies.md: policies on workloads 1 to 3 as the service works, and `speed` against Pollux.

    python -m bench.policies.tables [--runs FILE] [--processes N]

Writes both tables into the page. `--runs`: a file that keeps each run, one a line, so that a stopped one goes on.
Five minutes of processor time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from bench.policies.paired import WORKLOADS, Case, paired_ratio
from bench.policies.yardstick import FILE
from schedulearn.scheduler.sim.arguments import equal_hosts, parse_policies
from schedulearn.scheduler.sim.conditions import Conditions

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
POLICIES = (
    "goodput:speed", "goodput:default", "goodput:cost", "goodput:balanced", "afs-l", "elastic-fifo", "ffdl", "tiresias",
)  # fmt: skip
SPEED = "goodput:speed"
COLUMNS = (("mean_jct", ".0f"), ("host_hours", ".1f"), ("mean_unfairness", ".2f"))
POLICY_HEAD = "| policy | 1: mean JCT s |"
POLLUX_HEAD = "| lengths of jobs | mean JCT |"
FIGURES = ("mean_jct", "p99_jct", "makespan")
LENGTHS = {"unknown": "unknown", "predicted": "predicted by families", "declared": "known"}
COPIES = (0, 1)


class Played(NamedTuple):
    policy: str
    workload: str
    copy: int
    lengths: str

    def run(self) -> dict[str, float]:
        [contender] = parse_policies(self.policy)
        trace = str(WORKLOADS / f"{self.workload}.csv")
        conditions = Conditions(lengths=self.lengths)
        summary = Case(contender, trace, self.copy, equal_hosts(16, 4), conditions).play()
        return {name: float(getattr(summary, name)) for name in {*dict(COLUMNS), *FIGURES}}


Runs = dict[Played, dict[str, float]]


def wanted(workloads: Sequence[str]) -> list[Played]:
    compared = [Played(policy, workload, 0, "unknown") for policy in POLICIES for workload in workloads]
    against = [Played(SPEED, name, copy, lengths) for lengths in LENGTHS for copy in COPIES for name in workloads]
    return list(dict.fromkeys([*compared, *against]))


def policy_rows(runs: Runs, workloads: Sequence[str]) -> list[str]:
    """The least value of each column is in bold."""
    rows = {policy: [f"`{policy}`"] for policy in POLICIES}
    for workload in workloads:
        for figure, form in COLUMNS:
            values = {policy: format(runs[Played(policy, workload, 0, "unknown")][figure], form) for policy in POLICIES}
            least = min(values.values(), key=float)
            for policy, value in values.items():
                rows[policy].append(f"**{value}**" if value == least else value)
    return [f"| {' | '.join(row)} |" for row in rows.values()]


def pollux_rows(runs: Runs, workloads: Sequence[str]) -> list[str]:
    published = json.loads(FILE.read_text())
    rows = []
    for lengths, name in LENGTHS.items():
        cells = [name]
        for figure in FIGURES:
            pairs = [
                (runs[Played(SPEED, workload, copy, lengths)][figure], published[workload][figure])
                for workload in workloads
                for copy in COPIES
            ]
            cells.append(str(paired_ratio([mine for mine, _ in pairs], [theirs for _, theirs in pairs])))
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def with_rows(page: str, head: str, rows: Sequence[str]) -> str:
    """The page with these rows in the table that begins with `head`. Raises ValueError if it has none."""
    lines = page.splitlines()
    [begin] = [at for at, line in enumerate(lines) if line.startswith(head)]
    end = begin + 2
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return "\n".join([*lines[: begin + 2], *rows, *lines[end:]]) + "\n"


def kept_runs(file: Path | None) -> Runs:
    if file is None or not file.exists():
        return {}
    lines = (json.loads(line) for line in file.read_text().splitlines())
    return {Played(*line["played"]): line["figures"] for line in lines}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.policies.tables", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    workloads = sorted(path.stem for path in WORKLOADS.glob("*.csv"))
    runs = kept_runs(given.runs)
    missing = [each for each in wanted(workloads) if each not in runs]
    with ProcessPoolExecutor(given.processes, multiprocessing.get_context("spawn")) as pool:
        for played, figures in zip(missing, pool.map(Played.run, missing), strict=True):
            runs[played] = figures
            line = json.dumps({"played": played, "figures": figures})
            print(line, flush=True)
            if given.runs is not None:
                with given.runs.open("a") as file:
                    file.write(line + "\n")
    page = with_rows(PAGE.read_text(), POLICY_HEAD, policy_rows(runs, workloads))
    PAGE.write_text(with_rows(page, POLLUX_HEAD, pollux_rows(runs, workloads)))


if __name__ == "__main__":
    main()
