"""`schedulearn sweep` and what hangs on it, as users run it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import wait_for
from services import IMAGE, Service

YAML = f"""
name: lr search
job:
  container_image: {IMAGE}
  launcher: none
  command: sh -c 'test {{lr}} != 0.5'
grid:
  lr: [1e-3, 0.5]
  env.WHEN: [2026-01-01]
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("sweeps") / "data") as served:
        yield served


def test_a_sweep_from_start_to_retry(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(YAML)
    started = service.invoke("sweep", str(file)).out
    sweep = started.split()[0]
    assert started == f"{sweep} running: Started with 2 runs.\n"
    assert (
        service.invoke("sweep", "wait", "last", code=1).out == f"{sweep} completed: Of 2 runs 1 succeeded, 1 failed.\n"
    )
    lines = service.invoke("sweep", "show", sweep).out.splitlines()
    assert lines[0] == f"{sweep} lr search, completed: Of 2 runs 1 succeeded, 1 failed."
    assert lines[1].split()[:4] == ["RUN", "lr", "env.WHEN", "JOB"]
    assert [line.split()[:3] + line.split()[4:5] for line in lines[2:]] == [
        ["1", "0.001", "2026-01-01", "succeeded"], ["2", "0.5", "2026-01-01", "failed"],
    ]  # fmt: skip
    [listed] = service.invoke("sweep", "ls", "--json").json["items"]
    assert (listed["id"], listed["state"], listed["parameters"]) == (sweep, "completed", ["lr", "env.WHEN"])
    assert sweep in service.invoke("sweep", "ls").out
    assert service.invoke("sweep", "retry", sweep).out == f"{sweep} running: Started again with 1 runs.\n"
    service.invoke("sweep", "wait", sweep, code=1)
    assert [run["tries"] for run in service.invoke("sweep", "show", sweep, "--json").json["table"]] == [1, 2]
    assert "has ended already" in service.invoke("sweep", "cancel", sweep, code=1).err


def test_a_sweep_as_json_from_stdin_is_cancelled(service: Service) -> None:
    job = {"name": "slow", "container_image": IMAGE, "launcher": "none", "command": "sleep {s}"}
    body = json.dumps({"job": job, "grid": {"s": [60] * 9}, "max_parallel": 6})
    started = service.invoke("sweep", "start", "--json", "-", stdin=body).json
    assert (started["name"], started["state"], started["runs"]) == ("slow", "running", 9)
    service.invoke("sweep", "cancel", started["id"])
    ended = service.invoke("sweep", "wait", started["id"], "--json", code=130).json
    assert (ended["state"], ended["counts"]["cancelled"] + ended["counts"]["pending"]) == ("cancelled", 9)


def test_a_search_shows_its_kind_and_best_value(service: Service, tmp_path: Path) -> None:
    """The values are read from the logs."""
    job = {"container_image": IMAGE, "launcher": "none", "command": "echo epoch 1/1 loss={x}", "required_gpus": 0}
    search = {"name": "found", "job": job, "search": "grid", "parameters": {"x": {"min": 1, "max": 2}},
              "goal": {"metric": "loss"}, "prune": "median"}  # fmt: skip
    sweep = service.invoke("sweep", "start", "--json", "-", stdin=json.dumps(search)).json["id"]
    service.invoke("sweep", "wait", sweep)
    line = "Search by grid, 2 of 2 trials; pruned by median: 0 so far; best loss 1 in run 1."
    wait_for(lambda: service.invoke("sweep", "show", sweep).out.splitlines()[1] == line, what=line)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- 1", "must hold one sweep"),
        ("a: [", "neither JSON nor YAML"),
        ('{"a": NaN}', "not JSON compliant"),
        ("a: !!python/object/apply:os.system [id]", "neither JSON nor YAML"),
    ],
)
def test_a_file_that_is_no_sweep_is_told_apart(service: Service, text: str, words: str) -> None:
    assert words in service.invoke("sweep", "-", stdin=text, code=2).err


def test_what_the_service_refuses_is_told(service: Service) -> None:
    assert (
        "give one of grid, random, list and search"
        in service.invoke("sweep", "-", stdin="name: x\njob: {}", code=1).err
    )
    assert "there is no sweep" in service.invoke("sweep", "show", "0000000000", code=1).err


def test_a_job_is_submitted_after_others(service: Service) -> None:
    first = service.submit("sleep 60")
    flags = ("submit", "-d", "--image", IMAGE, "--launcher", "none", "--after", first)
    second = service.invoke(*flags, "--", "true").out.strip()
    assert f"{first} (ok)" in service.invoke("show", second).out
    either = service.invoke(*flags, "--after-any", "--", "true").out.strip()
    service.invoke("cancel", first)
    assert service.wait(second, "cancelled")["reason"] == "predecessor_failed"
    service.wait(either, "succeeded")
    assert "needs --after" in service.invoke("submit", "--after-any", "--image", IMAGE, "--", "true", code=2).err
