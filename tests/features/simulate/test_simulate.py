"""simulate: as a process where that matters, else within this one, which is quicker."""

import json
import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from services import Service, invoke, run
from terminals import without_escapes

from schedulearn.main import cli
from schedulearn.scheduler.sim.result import Summary

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Jobs of a minute or two, one of them with a name that would do harm on a page and on a terminal."""
    file = tmp_path / "trace.csv"
    rows = ["evil,0,short,1", "b,10,short,2", "c,20,short,1", "d,400,long,4"]
    applications = {"short": {"seconds": 60}, "long": {"seconds": 120}}
    (tmp_path / "applications.json").write_text(json.dumps(applications))
    file.write_text("\n".join(["name,time,application,num_replicas", *rows]).replace("evil", f"{EVIL}\x1b[31m"))
    return file


def simulate(trace: Path | str, *arguments: str, code: int = 0) -> Result:
    known = ("--applications", str(Path(trace).with_name("applications.json"))) if isinstance(trace, Path) else ()
    done = CliRunner().invoke(cli, ["simulate", str(trace), *known, "--jobs", "1", *arguments])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.process
def test_the_command_prints_one_document_for_all_policies_in_the_order_asked_for(trace: Path) -> None:
    known = str(trace.with_name("applications.json"))
    policies = ("--policy", "goodput:default,tiresias", "--hosts", "2", "--gpus", "2")
    done = run("simulate", str(trace), *policies, "--json", "--applications", known, "--jobs", "2")
    assert done.err == ""
    document = done.json
    assert list(document) == ["trace", "hosts", "conditions", "policies"]
    assert document["trace"] == {"source": str(trace), "jobs": 4, "past": 0, "applications": {"long": 1, "short": 3}}
    assert document["hosts"][1] == {"id": "host-2", "gpus": 2, "gpu_type": "gpu", "speed": 1}
    assert document["conditions"]["interval"] == 60
    assert [each["policy"] for each in document["policies"]] == ["goodput:default", "tiresias"]
    for each in document["policies"]:
        assert set(each["summary"]) == set(Summary.__dataclass_fields__)
        assert each["summary"]["unfinished"] == 0
        assert [job["id"] for job in each["jobs"]][1:] == ["b", "c", "d"]
        assert each["jobs"][1] == {
            "id": "b", "application": "short", "required_gpus": 2, "elastic": False, "submitted_at": 10,
            "started_at": 10, "ended_at": 80, "jct": 70, "gpu_seconds": 140, "restarts": 0, "stall_seconds": 10,
        }  # fmt: skip


def test_every_key_of_the_document_is_described(trace: Path) -> None:
    text = (Path(__file__).parents[3] / "docs/simulator.md").read_text()
    document = json.loads(simulate(trace, "--policy", "fifo", "--json").output)

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value).union(*map(keys, value.values()))
        return set().union(*map(keys, value)) if isinstance(value, list) else set()

    assert keys(document) - {"short", "long"} <= set(re.findall(r"`(\w+)`", text))


def test_what_never_happens_is_null_and_told(trace: Path) -> None:
    done = simulate(trace, "--policy", "fifo", "--hosts", "3", "--gpus", "1", "--json")
    jobs = json.loads(done.stdout)["policies"][0]["jobs"]
    assert [job["ended_at"] is None for job in jobs] == [False, False, False, True]
    assert (jobs[3]["started_at"], jobs[3]["jct"]) == (None, None)
    table = simulate(trace, "--policy", "fifo", "--hosts", "3", "--gpus", "1")
    assert "1 jobs never ended under fifo" in table.stderr
    assert "never ended" in table.stdout


def test_the_table_has_a_row_a_policy_and_marks_the_best(trace: Path) -> None:
    policies = "fifo/backfill=true,gandiva/quantum=30"
    lines = simulate(trace, "--policy", policies, "--hosts", "1", "--gpus", "1").stdout.splitlines()
    assert lines[0].startswith("4 jobs of ")
    assert lines[2].split()[:3] == ["policy", "mean", "JCT"]
    assert [line.split()[0] for line in lines[3:]] == policies.split(",")
    assert lines[3].split()[-2] == "1.00"  # against itself
    assert lines[3].split()[1].endswith("*")  # the mean: those who take turns both end late
    assert not lines[4].split()[1].endswith("*")


def test_conditions_are_changed_one_by_one(trace: Path) -> None:
    def conditions(*arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(simulate(trace, "--policy", "fifo", "--json", *arguments).stdout)[
            "conditions"
        ]
        return found

    pollux = conditions("--conditions", "pollux", "--interval", "30", "--memory", "--seed", "7")
    assert (pollux["interval"], pollux["on_events"], pollux["stall_up"], pollux["seed"]) == (30, False, 30, 7)
    assert pollux["family_memory"] is True
    changed = conditions("--restart", "8", "--stall-down", "2", "--ticks", "--lengths", "declared")
    assert (changed["cold_start"], changed["stall_up"], changed["stall_down"]) == (8, 8, 2)
    assert (changed["on_events"], changed["lengths"]) == (False, "declared")
    assert conditions("--types", "x=1x4,y=1x4@2.5")["speeds"] == {"x": 1, "y": 2.5}


def test_what_an_earlier_trace_teaches_is_known_from_the_start(tmp_path: Path) -> None:
    """A job alone starts on one GPU, to be measured; one whose application was seen starts on as many as are of use."""
    file = tmp_path / "trace.csv"
    file.write_text("name,time,application\na,0,cifar10\n")
    how = ("--policy", "goodput:speed", "--hosts", "2", "--lengths", "predicted", "--json")

    def played(*arguments: str) -> tuple[dict[str, Any], dict[str, Any]]:
        document = json.loads(CliRunner().invoke(cli, ["simulate", str(file), *how, *arguments]).stdout)
        return document["trace"], document["policies"][0]["jobs"][0]

    before, cold = played()
    after, warm = played("--after", str(file))
    assert (before["past"], after["past"], after["jobs"]) == (0, 1, 1)
    assert warm["restarts"] < cold["restarts"]
    assert warm["jct"] < cold["jct"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "fifo,nope"], ["'nope'", "valid: afs-l"]),
        (["--policy", "goodput:sped"], ["'sped'", "default, speed, cost"]),
        (["--policy", "gandiva/quantums=3"], ["'quantums'", "quantum"]),
        (["--types", "t4"], ["'t4'", "t4=6x4"]),
        (["--hosts", "0"], ["--hosts"]),
        (["--html", "/nowhere/at/all.html"], ["--html", "/nowhere/at"]),
        (["--own", "/nowhere.py:P"], ["/nowhere.py"]),
        (["--after", "/nowhere.csv"], ["/nowhere.csv"]),
        (["--after", "bursts:1x1", "--no-memory"], ["--after", "--memory"]),
    ],
)
def test_wrong_arguments_end_with_2_and_say_what_is_valid(
    trace: Path, arguments: Sequence[str], words: Sequence[str]
) -> None:
    done = simulate(trace, *arguments, code=2)
    assert done.stdout == ""
    assert all(word in done.stderr for word in words), done.stderr


@pytest.mark.process
def test_a_wrong_trace_is_named_with_line_and_field(trace: Path) -> None:
    trace.write_text(f"name,time,application\na,1,{EVIL}\x1b[31m\n")
    error = invoke("simulate", str(trace), code=2).err
    assert f"{trace}, line 2: application" in error
    assert "\x1b" not in error
    assert "there is no trace 'nowhere'" in invoke("simulate", "nowhere", code=2).err


@pytest.mark.process
def test_a_policy_of_ones_own_takes_part(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "from schedulearn.scheduler.policies.classic.fifo import Fifo\nclass Mine(Fifo):\n    name = 'mine'\n"
    )
    arguments = ("--own", f"{file}:Mine", "--applications", str(trace.with_name("applications.json")))
    found = run("simulate", str(trace), "--policy", "mine,fifo", "--jobs", "2", "--json", *arguments).json["policies"]
    assert found[0]["policy"] == "mine"
    assert found[0]["jobs"] == found[1]["jobs"]


class _Page(HTMLParser):
    """What a browser would make of it: tags with their attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_is_one_page_by_itself_and_names_are_text(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = simulate(trace, "--policy", "fifo,gandiva,goodput:default", "--hosts", "1", "--html", str(file))
    assert "report.html" in without_escapes(done.stderr)
    page = _Page(file.read_text())
    tags = [tag for tag, _ in page.tags]
    assert not {"img", "script", "link", "iframe"} & set(tags)
    assert not [
        name for _, attributes in page.tags for name in attributes if name in ("src", "href") or name[:2] == "on"
    ]
    assert "url(" not in file.read_text()
    assert f"{EVIL}\x1b[31m: 1 GPU on host-1" in page.text
    assert tags.count("details") == 3
    assert page.text.count("goodput:default") >= 5  # the table, three legends, who had what
    assert "Completion times" in page.text
    assert tags.count("rect") >= 3 * 4


def test_ones_own_past_is_played_on_ones_own_hosts(service: Service) -> None:
    job = service.submit_shell("sleep 1", name="past")
    service.wait(job, "succeeded")
    done = service.invoke("simulate", "history", "--policy", "fifo,goodput:speed", "--json").json
    there = {(host["id"], host["gpus"]) for host in done["hosts"]}
    assert len(there) == 1, "the hosts of the service"
    assert done["trace"]["source"] == "history"
    for each in done["policies"]:
        assert job in {played["id"] for played in each["jobs"]}
        assert each["summary"]["unfinished"] == 0
    small = service.invoke("simulate", "history", "--last", "1", "--hosts", "3", "--gpus", "2", "--json").json
    assert [host["gpus"] for host in small["hosts"]] == [2, 2, 2]
    assert small["trace"]["jobs"] == 1


def test_a_service_without_a_past_says_so(start_service: Callable[..., Service]) -> None:
    assert "there is no history" in start_service().invoke("simulate", "history", code=2).err


def test_hosts_are_switched_within_the_bounds_that_are_given(trace: Path) -> None:
    asked = ("--policy", "fifo", "--hosts", "3", "--gpus", "4", "--scaling", "--initial-hosts", "1", "--json")
    [found] = json.loads(simulate(trace, *asked, "--boot", "30", "--scale-window", "60").stdout)["policies"]
    assert found["jobs"][1]["started_at"] == 10, "the first host has room for it"
    assert {job["ended_at"] is None for job in found["jobs"]} == {False}
    assert "does nothing without --scaling" in simulate(trace, "--most-hosts", "2", code=2).output
    assert (
        "the maximum of 1 is below the minimum of 2 hosts"
        in simulate(trace, "--scaling", "--least-hosts", "2", "--most-hosts", "1", code=2).output
    )
