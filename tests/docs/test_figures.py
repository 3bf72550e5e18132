"""Figures in the docs are those that the command beside them prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bench.__main__ import MODULES
from bench.policies import figures
from click.testing import CliRunner

from schedulearn.main import cli

ROOT = Path(__file__).parents[2]
INTERVAL = re.compile(r"\d\.\d+ \[\d\.\d+, \d\.\d+\]")


def rows_of(table: str) -> list[list[str]]:
    """The cells of each row, without the head."""
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in table.splitlines()[2:]]


@pytest.mark.slow
def test_the_figures_of_the_thesiss_scenario() -> None:
    page = (ROOT / "docs/simulator.md").read_text()
    table = "\n".join(figures.TABLES["thesis"].lines(page))
    assert figures.marked("thesis", page)[2] == table, "`make figures` writes it anew"
    hours = {cells[0]: float(cells[4]) for cells in rows_of(table)}
    more = hours["`thesis-speed`"] / hours["`thesis-default`"]
    assert f"most of such a batch is wasted: {100 * more - 100:.0f} % more host-hours" in page


@pytest.mark.long
def test_what_is_said_of_the_thesiss_scenario() -> None:
    page = (ROOT / "docs/simulator.md").read_text()
    text = " ".join(page.partition("## The thesis's scenario")[2].split())
    words = figures.command_of(page)
    one = figures.simulated([*words, "--hosts", "1", "--policy", "goodput:thesis-cost"])["goodput:thesis-cost"]
    two = figures.simulated([*words, "--policy", "goodput:thesis-default"])["goodput:thesis-default"]
    slower = figures.slower(one["mean_jct"], two["mean_jct"])
    assert f"with one it takes {one['mean_jct']:.0f} s ({slower}) and {one['host_hours']:.3f} host-hours" in text
    policies = ",".join(f"goodput:{metric}" for metric in ("thesis-default", "default", "speed", "cost"))
    plain = figures.simulated([words[0], "--hosts", "2", "--gpus", "1", "--policy", policies], by="metric")
    seconds = {name: f"{found['mean_jct']:.0f} s" for name, found in plain.items()}
    assert min(seconds.values()) == seconds["speed"]
    assert (
        f"{seconds['speed']}, against {seconds['default']} of `default` and {seconds['thesis-default']} of "
        f"`thesis-default`, for {plain['speed']['host_hours']:.3f} host-hours; `cost` takes {seconds['cost']} and "
        f"{plain['cost']['host_hours']:.3f}."
    ) in text


@pytest.mark.slow
def test_the_example_of_who_can_starve(tmp_path: Path) -> None:
    jobs = [{"name": f"small-{at}", "time": 90 * at, "seconds": 600, "num_replicas": 1} for at in range(480)]
    jobs.append({"name": "large", "time": 900, "seconds": 600, "num_replicas": 4})
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"jobs": sorted(jobs, key=lambda each: float(str(each["time"])))}))
    waits = {
        160: {"fifo", "elastic-fifo", "ffdl", "las", "srtf"},
        430: {"goodput:default"},
        5020: {"tiresias", "elastic-tiresias"},
        42460: {"afs-l", "elastic-srtf"},
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


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_what_deadlines_change() -> None:
    page = (ROOT / "docs/policies.md").read_text()
    assert figures.marked("deadlines", page)[2] == "\n".join(figures.TABLES["deadlines"].lines(page)), "`make figures`"


def test_how_far_the_noise_scale_lags() -> None:
    page = (ROOT / "docs/measurements.md").read_text()
    assert figures.marked("noise-memory", page)[2] == "\n".join(figures.TABLES["noise-memory"].lines(page)), (
        "`make figures` writes it anew"
    )


def test_each_test_that_the_page_of_corrections_names_is_there() -> None:
    rows = rows_of(
        (ROOT / "docs/measurements.md").read_text().partition("\n## What was wrong\n")[2].partition("\n## ")[0].strip()
    )
    assert [int(cells[0]) for cells in rows] == [*range(1, 15)], "a row for each correction"
    for number, *_, proofs in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:: (\w+))?`", proofs)
        assert named, f"{number}: which test holds it?"
        for file, function in named:
            assert f"def {function}" in (ROOT / file).read_text(), f"{number}: {file} has no {function}"


def test_tables_that_take_hours_are_those_that_were_measured() -> None:
    """Nobody changes them by hand: what a command printed is kept beside the data, with its commit."""
    page = (ROOT / "docs/policies.md").read_text()
    shown = dict(re.findall(r"<!-- measured: (\S+) -->\n(.*?\n)<!-- end of figures -->", page, re.S))
    kept = {}
    for file in (ROOT / "bench/data/tables").glob("*.md"):
        source, _, kept[file.stem] = file.read_text().partition("\n")
        told = re.fullmatch(r"<!-- python -m bench(?:\.\w+\.| )(\w+)( .*)?; as of commit [0-9a-f]{8} -->", source)
        assert told, f"{file}: which command, and as of which commit?"
        assert told[1] in MODULES
    assert shown == kept


@pytest.mark.parametrize("page", ["policies.md", "simulator.md"])
def test_no_table_with_measured_figures_stands_without_a_mark(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    unmarked = re.sub(r"<!-- (?:figures|measured): .*?<!-- end of figures -->", "", text, flags=re.S)
    rows = [line for line in unmarked.splitlines() if line.startswith("|") and len(INTERVAL.findall(line)) > 1]
    assert rows == [], "write it by `make figures`, or keep what its command printed in bench/data/tables"


@pytest.mark.parametrize("page", ["policies.md", "simulator.md"])
def test_intervals_in_prose_say_what_measured_them_and_when(page: str) -> None:
    text = re.sub(
        r"<!-- (?:figures|measured): .*?<!-- end of figures -->", "", (ROOT / "docs" / page).read_text(), flags=re.S
    )
    told = re.compile(r"`[^`]*bench.*commits? [0-9a-f]{8}.*\d+ November \d{4}", re.S)
    parts = [part for part in re.split(r"\n\s*\n|\n- |\n\|", text) if INTERVAL.search(part)]
    assert parts
    assert [part[:80] for part in parts if not told.search(part)] == []


def test_what_is_said_of_the_thesiss_figures_follows_from_the_table() -> None:
    text = (ROOT / "docs/simulator.md").read_text()
    metrics = {cells[0].strip("`"): cells for cells in rows_of(figures.marked("thesis", text)[2])}
    seconds, slower = metrics["thesis-default"][1], metrics["thesis-speed"][2].removesuffix(" slower")
    assert f"The policy of today gives {seconds} s and {slower}." in text


def test_what_is_said_of_pollux_follows_from_the_table() -> None:
    page = (ROOT / "docs/policies.md").read_text()
    said = re.search(r"lengths unknown, has ([\d.]+), ([\d.]+) and ([\d.]+) of its mean completion time: one run", page)
    assert said
    [speed] = [cells for cells in rows_of(compared()) if cells[0] == "`goodput:speed`"]
    published = json.loads((ROOT / "bench/data/pollux.json").read_text())
    ours = [float(speed[at].strip("*")) for at in (1, 4, 7)]
    for told, mean, pollux in zip(said.groups(), ours, published.values(), strict=True):
        assert float(told) == pytest.approx(mean / pollux["mean_jct"], abs=0.001)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_policies_that_are_compared_on_all_traces() -> None:
    page = (ROOT / "docs/policies.md").read_text()
    assert compared() == "\n".join(figures.TABLES["traces"].lines(page)), "`make figures` writes it anew"


def compared() -> str:
    return figures.marked("traces", (ROOT / "docs/policies.md").read_text())[2]
