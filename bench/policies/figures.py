"""The tables of the docs whose command always prints the same: written between their marks, or compared with them.

    python -m bench.policies.figures [--check] [NAME...]

`--check` writes nothing, and exits 1 if a page has other figures. Takes about three minutes of processor time.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from bench.policies import deadlines, rigid
from bench.policies.paired import paired_ratio
from bench.statistics import noise_memory
from schedulearn.main import cli

ROOT = Path(__file__).parents[2]
COMPARED = (
    "goodput:speed", "goodput:default", "goodput:cost", "goodput:balanced", "afs-l", "elastic-fifo", "ffdl", "tiresias",
)  # fmt: skip
"""The policies of the first table of docs/policies.md, in its order."""
TRACES = (1, 2, 3)
_SHOWN = {"mean_jct": ".0f", "host_hours": ".1f", "mean_unfairness": ".2f"}

Summaries = Mapping[str, Mapping[str, Any]]
"""Policy or metric -> the figures that `simulate --json` tells of it."""


class Table(NamedTuple):
    page: str
    lines: Callable[[str], Sequence[str]]
    """From the text of the page to the lines of the table."""


def simulated(words: Sequence[str], *, by: str = "policy") -> Summaries:
    done = CliRunner().invoke(cli, ["simulate", *words, "--json"])
    if done.exit_code:
        raise RuntimeError(f"simulate {shlex.join(words)} failed: {done.output}")
    return {each[by]: each["summary"] for each in json.loads(done.stdout)["policies"]}


def on_trace(trace: int, policies: Sequence[str]) -> dict[str, list[str]]:
    """Policy -> its cells, on one of Pollux' traces."""
    file = str(ROOT / f"bench/data/workloads/workload-{trace}.csv")
    found = simulated([file, "--hosts", "16", "--gpus", "4", "--policy", ",".join(policies)])
    return {name: [f"{one[key]:{form}}" for key, form in _SHOWN.items()] for name, one in found.items()}


def _traces(_: str) -> list[str]:
    found = [on_trace(trace, COMPARED) for trace in TRACES]
    rows = {name: [cell for cells in found for cell in cells[name]] for name in COMPARED}
    best = [min(map(float, column)) for column in zip(*rows.values(), strict=True)]
    head = [f"{f'{trace}: ' * (key == 'mean_jct')}{name}" for trace in TRACES for key, name in zip(
        _SHOWN, ("mean JCT s", "host-hours", "FTF mean"), strict=True
    )]  # fmt: skip
    return [
        _row(["policy", *head]),
        _row(["---", *["---:"] * len(head)]),
        *(
            _row([f"`{name}`", *(f"**{cell}**" if float(cell) == least else cell for cell, least in zip(
                cells, best, strict=True
            ))])
            for name, cells in rows.items()
        ),
    ]  # fmt: skip


def command_of(page: str) -> list[str]:
    """The words of the first call of `simulate` with several lines in a page, without `schedulearn simulate`."""
    [call] = re.findall(r"^    schedulearn simulate (.*\\\n(?:.*\\\n)*.*)", page, re.M)
    return [str(ROOT / word) if word.startswith("bench/") else word for word in shlex.split(call.replace("\\\n", " "))]


def _thesis(page: str) -> list[str]:
    words = command_of(page)
    unknown, declared = simulated(words, by="metric"), simulated([*words, "--lengths", "declared"], by="metric")
    base = unknown["thesis-default"]["mean_jct"]
    head = [
        "metric", "mean JCT s", "against `thesis-default`", "makespan s", "host-hours",
        "with `--lengths declared`: mean JCT s, host-hours",
    ]  # fmt: skip
    lines = [_row(head), _row(["---"] * len(head))]
    for metric, found in unknown.items():
        known = declared[metric]
        cells = [
            f"`{metric}`", f"{found['mean_jct']:.0f}",
            "" if metric == "thesis-default" else slower(found["mean_jct"], base),
            f"{found['makespan']:.0f}", f"{found['host_hours']:.3f}",
            f"{known['mean_jct']:.0f}, {known['host_hours']:.3f}",
        ]  # fmt: skip
        lines.append(_row(cells))
    return lines


def _deadlines(_: str) -> list[str]:
    head = ["policy", "deadlines met", "without heeding them", "mean JCT over that without"]
    lines = [_row(head), _row(["---", *["---:"] * 3])]
    for policy in deadlines.POLICIES:
        heeding, ignoring = deadlines.compare(policy, deadlines.SETTING, deadlines.TRACES, deadlines.HOSTS, "declared")
        ratio = paired_ratio([each.mean_jct for each in heeding], [each.mean_jct for each in ignoring])
        shares = (f"{deadlines.met(runs).mean():.3f}" for runs in (heeding, ignoring))
        lines.append(_row([f"`{policy}`", *shares, str(ratio)]))
    return lines


def _rigid(_: str) -> list[str]:
    head = ["policy", "run times", *(f"{name}, {hosts * rigid.GPUS} GPUs" for name, hosts in rigid.CLUSTERS.items())]
    lines = [_row(head), _row(["---", "---", *["---:"] * len(rigid.CLUSTERS)])]
    for policy in rigid.BUDGETS:
        for lengths in ("predicted", "declared") if policy != "fifo" else ("predicted",):
            cells = [str(rigid.ratios(cluster, policy, lengths)) for cluster in rigid.CLUSTERS]
            lines.append(_row([f"`{policy}`", lengths, *cells]))
    return lines


def slower(seconds: float, than: float) -> str:
    percent = round(100 * (seconds / than - 1))
    return f"{percent} % slower" if percent else "the same"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


TABLES = {
    "traces": Table("policies.md", _traces),
    "thesis": Table("simulator.md", _thesis),
    "deadlines": Table("policies.md", _deadlines),
    "rigid": Table("policies.md", _rigid),
    "noise-memory": Table("measurements.md", lambda _: noise_memory.table()),
}


def marked(name: str, page: str) -> re.Match[str]:
    """The table of this name in a page, between its marks."""
    found = re.search(rf"(<!-- figures: {name} -->\n)(.*?)(\n?<!-- end of figures -->)", page, re.S)
    if found is None:
        raise ValueError(f"docs/{TABLES[name].page} has no mark for the figures {name!r}")
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.policies.figures", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TABLES)}; default: all")
    parser.add_argument("--check", action="store_true", help="only compares")
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - set(TABLES):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    other = []
    for name in given.names or TABLES:
        file = ROOT / "docs" / TABLES[name].page
        page = file.read_text()
        place, table = marked(name, page), "\n".join(TABLES[name].lines(page))
        if place[2] != table:
            other.append(name)
            print(f"{name}: docs/{file.name} {'has other figures:' if given.check else 'is written anew:'}\n{table}")
            if not given.check:
                file.write_text(page[: place.start(2)] + table + page[place.end(2) :])
    print(f"of {len(given.names or TABLES)} tables {len(other)} had other figures")
    return 1 if given.check and other else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
