"""Figures in the docs are those that the command beside them prints."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from schedulearn.api.cli import cli

ROOT = Path(__file__).parents[2]


def block(page: str, heading: str) -> str:
    """The part of a page under a heading."""
    text = (ROOT / "docs" / page).read_text()
    return text.partition(f"\n{heading}\n")[2].partition("\n## ")[0]


def command(text: str) -> list[str]:
    """The words of the first call of `simulate` in a page, without the program's name."""
    [call] = re.findall(r"^    schedulearn (simulate (?:.*\\\n)*.*)", text, re.M)
    return shlex.split(call.replace("\\\n", " "))


def simulated(words: list[str], *more: str) -> dict[str, dict[str, Any]]:
    done = CliRunner().invoke(cli, [*words, *more, "--json"])
    assert done.exit_code == 0, done.output
    return {each["metric"]: each["summary"] for each in json.loads(done.stdout)["policies"]}


def table(text: str) -> list[list[str]]:
    """Cells of the first table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines[2:]]


def slower(seconds: float, than: float) -> str:
    percent = round(100 * (seconds / than - 1))
    return f"{percent} % slower" if percent else "the same"


def test_the_figures_of_the_thesiss_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = block("simulator.md", "## The thesis's scenario")
    words = command(text)
    unknown, declared = simulated(words), simulated(words, "--lengths", "declared")
    base = unknown["thesis-default"]["mean_jct"]
    rows = []
    for metric, found in unknown.items():
        against = "" if metric == "thesis-default" else slower(found["mean_jct"], base)
        known = declared[metric]
        rows.append(
            [
                f"`{metric}`", f"{found['mean_jct']:.0f}", against, f"{found['makespan']:.0f}",
                f"{found['host_hours']:.3f}", f"{known['mean_jct']:.0f}, {known['host_hours']:.3f}",
            ]
        )  # fmt: skip
    assert table(text) == rows
    more = unknown["thesis-speed"]["host_hours"] / unknown["thesis-default"]["host_hours"]
    [told] = re.findall(r"most of such a batch is wasted: (\d+) % more host-hours", text)
    assert int(told) == round(100 * more - 100)


def test_the_example_of_who_can_starve(tmp_path: Path) -> None:
    jobs = [{"name": f"small-{at}", "time": 90 * at, "seconds": 600, "num_replicas": 1} for at in range(480)]
    jobs.append({"name": "large", "time": 900, "seconds": 600, "num_replicas": 4})
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"jobs": sorted(jobs, key=lambda each: float(str(each["time"])))}))
    waits = {
        160: {"fifo", "elastic-fifo", "ffdl"},
        5020: {"tiresias", "elastic-tiresias"},
        42460: {"afs-l", "elastic-srtf", "goodput:default", "las", "srtf"},
    }
    policies = ",".join(sorted(set.union(*waits.values())))
    words = ["simulate", str(trace), "--hosts", "1", "--gpus", "8", "--policy", policies, "--json"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    found: dict[int, set[str]] = {}
    for policy in json.loads(done.stdout)["policies"]:
        [large] = [each for each in policy["jobs"] if each["id"] == "large"]
        found.setdefault(round(large["started_at"] - large["submitted_at"]), set()).add(policy["policy"])
    assert found == waits
    text = (ROOT / "docs/policies.md").read_text().partition("#### Who can starve")[2].partition("**Speedups")[0]
    assert all(f"{wait:,} s" in text for wait in waits)


def test_the_policies_that_are_compared_on_polluxs_first_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that know no goodput, which are fast to play; 6 s of processor time, on one of the three traces."""
    monkeypatch.chdir(ROOT)
    names = ("afs-l", "elastic-fifo", "ffdl", "tiresias")
    trace = ["simulate", "bench/data/workloads/workload-1.csv", "--hosts", "16", "--gpus", "4"]
    done = CliRunner().invoke(cli, [*trace, "--policy", ",".join(names), "--json"])
    assert done.exit_code == 0, done.output
    found = {each["policy"]: each["summary"] for each in json.loads(done.stdout)["policies"]}
    text = (ROOT / "docs/policies.md").read_text()
    shown = {row[0].strip("`"): row[1:4] for row in table(text[text.index("| policy | 1: mean JCT s |") :])}
    assert {name: shown[name] for name in names} == {
        name: [f"{one['mean_jct']:.0f}", f"{one['host_hours']:.1f}", f"{one['mean_unfairness']:.2f}"]
        for name, one in found.items()
    }
