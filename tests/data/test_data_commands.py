"""The commands for data sets, against a service; and jobs that name them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from apis import Api, serve_api
from click.testing import CliRunner, Result
from clusters import wait_for

from schedulearn.api.cli import cli
from schedulearn.api.client.client import ClientError


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    with serve_api(tmp_path / "service") as served:
        monkeypatch.setenv("SCHEDULEARN_URL", str(served.http.base_url))
        monkeypatch.chdir(tmp_path)
        yield served


def call(*words: str) -> Result:
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_a_folder_is_pushed_listed_brought_back_and_removed(api: Api) -> None:
    Path("faces").mkdir()
    Path("faces/a.txt").write_text("1")
    Path("faces/out").symlink_to("/etc/passwd")
    pushed = call("data", "push", "faces", "faces")
    assert (pushed.stdout, pushed.stderr) == ("faces@1: 1 file, 1 B\n", "left out out (a link that leads outside)\n")
    Path("faces/a.txt").write_text("22")
    assert json.loads(call("data", "push", "faces", "faces", "--json").stdout)["reference"] == "faces@2"
    [header, line] = call("data", "ls").stdout.splitlines()
    assert header.split() == ["NAME", "SIZE", "FILES", "MADE", "BY", "FROM", "JOB"]
    assert line.split()[:4] == ["faces@2", "2", "B", "1"]
    assert len(call("data", "ls", "faces").stdout.splitlines()) == 3
    assert call("data", "get", "faces@1", "back").stdout == "back\n"
    assert Path("back/a.txt").read_text() == "1"
    assert call("data", "rm", "faces@1").stdout == "faces@1 removed (1 file, 1 B)\n"
    assert json.loads(call("data", "rm", "faces", "--json").stdout)["items"][0]["version"] == 2
    assert json.loads(call("data", "ls", "--json").stdout) == {"items": []}


def test_what_can_not_be_meant_is_said(api: Api) -> None:
    wrong = CliRunner().invoke(cli, ["data", "rm", "faces@new"])
    assert (wrong.exit_code, "such as faces@2" in wrong.output) == (2, True)
    with pytest.raises(ClientError, match="there is no data set or model 'faces'"):
        call("data", "ls", "faces")
    assert CliRunner().invoke(cli, ["data", "push", "faces", "nowhere"]).exit_code == 2


def test_jobs_name_data_and_what_they_keep(api: Api) -> None:
    Path("faces").mkdir()
    Path("faces/a.txt").write_text("1")
    call("data", "push", "faces", "faces")
    words = ("--image", "img", "--data", "faces@1=/train", "--keep", "model=best.pt", "--", "true")
    job = call("submit", "-d", *words).stdout.strip()
    api.wait(job, "running")
    shown = call("show", job).stdout
    assert "faces@1 at /train" in shown
    assert "best.pt as model" in shown
    api.runtime.write_output(job, "best.pt", b"weights")
    api.runtime.finish(f"schedulearn-{job}-1-0")
    wait_for(lambda: "model@1" in call("data", "ls").stdout, what="the model")
    assert call("data", "ls", "model").stdout.split()[-1] == job
    again = call("resubmit", job, "-d", "--data", "faces").stdout.strip()
    assert api.job(again)["data"] == {"faces@1": "/data/faces"}


def test_each_run_of_a_sweep_has_the_same_version(api: Api) -> None:
    Path("faces").mkdir()
    Path("faces/a.txt").write_text("1")
    call("data", "push", "faces", "faces")
    job = {"container_image": "img", "command": "train {lr}", "required_gpus": 1, "data": ["faces"]}
    body = {"name": "s", "job": job, "grid": {"lr": [1, 2]}, "max_parallel": 1}
    sweep = api.http.post("/api/v1/sweeps", json=body)
    assert sweep.status_code == 201, sweep.text
    Path("faces/a.txt").write_text("2")
    call("data", "push", "faces", "faces")
    refused = api.http.delete("/api/v1/data/faces?version=1")
    assert refused.status_code == 409
    for _ in range(2):
        wait_for(lambda: api.runtime.tasks(), what="a run")
        [task] = api.runtime.tasks()
        api.wait(task.job_id, "running")
        assert api.job(task.job_id)["data"] == {"faces@1": "/data/faces"}
        api.runtime.finish(task.task_id)
        wait_for(lambda task=task: task not in api.runtime.tasks(), what="its end")
