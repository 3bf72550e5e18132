"""The commands for data sets as users run them, with jobs that are local processes: data in, a model out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import wait_for
from services import IMAGE, Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("data") / "data") as served:
        yield served


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    folder = tmp_path / "faces"
    folder.mkdir()
    (folder / "a.txt").write_text("1")
    return folder


def test_a_folder_is_pushed_listed_brought_back_and_removed(service: Service, faces: Path, tmp_path: Path) -> None:
    (faces / "out").symlink_to("/etc/passwd")
    pushed = service.invoke("data", "push", "faces", str(faces))
    assert pushed.out == "faces@1: 1 file, 1 B\n"
    assert "left out out (a link that leads outside)" in pushed.err
    (faces / "a.txt").write_text("22")
    assert json.loads(service.invoke("data", "push", "faces", str(faces), "--json").out)["reference"] == "faces@2"
    [header, line] = service.invoke("data", "ls").out.splitlines()
    assert header.split() == ["NAME", "SIZE", "FILES", "MADE", "BY", "FROM", "JOB"]
    assert line.split()[:4] == ["faces@2", "2", "B", "1"]
    assert len(service.invoke("data", "ls", "faces").out.splitlines()) == 3
    back = tmp_path / "back"
    assert service.invoke("data", "get", "faces@1", str(back)).out == f"{back}\n"
    assert (back / "a.txt").read_text() == "1"
    assert service.invoke("data", "rm", "faces@1").out == "faces@1 removed (1 file, 1 B)\n"
    assert json.loads(service.invoke("data", "rm", "faces", "--json").out)["items"][0]["version"] == 2
    assert json.loads(service.invoke("data", "ls", "--json").out) == {"items": []}


def test_what_can_not_be_meant_is_said(service: Service, tmp_path: Path) -> None:
    assert "such as faces@2" in service.invoke("data", "rm", "faces@new", code=2).err
    assert "there is no data set or model 'nothing'" in service.invoke("data", "ls", "nothing", code=1).err
    service.invoke("data", "push", "faces", str(tmp_path / "nowhere"), code=2)


def test_a_job_reads_its_data_and_leaves_a_model_that_the_next_one_reads(service: Service, faces: Path) -> None:
    service.invoke("data", "push", "numbers", str(faces))
    program = 'cat "$SCHEDULEARN_DATA_NUMBERS/a.txt" > "$SCHEDULEARN_OUTPUT_DIR/best.pt"'
    words = ("--image", IMAGE, "--launcher", "none", "--name", "train")
    given = ("--data", "numbers", "--keep", "weights=best.pt")
    job = service.invoke("submit", "-d", *words, *given, "--", "sh", "-c", program).out.strip()
    service.invoke("wait", job)
    wait_for(lambda: "weights@1" in service.invoke("data", "ls").out, what="the model", seconds=30)
    assert service.invoke("data", "ls", "weights").out.split()[-1] == job
    shown = service.invoke("show", job).out
    assert "numbers@1 at /data/numbers" in shown
    assert "best.pt as weights" in shown
    program = 'cd "$SCHEDULEARN_INPUT_TRAIN"; cmp best.pt "$SCHEDULEARN_DATA_WEIGHTS/best.pt" && cat best.pt'
    after = ("--after", job, "--data", "weights@1")
    next_one = service.invoke("submit", *words, *after, "--", "sh", "-c", program)
    assert next_one.out == "1"


def test_each_run_of_a_sweep_has_the_same_version(service: Service, faces: Path, tmp_path: Path) -> None:
    service.invoke("data", "push", "swept", str(faces))
    go = tmp_path / "go"
    body = {
        "name": "swept",
        "job": {
            "container_image": IMAGE, "launcher": "none", "data": ["swept"],
            "command": f"sh -c 'until test -e {go}; do sleep 0.05; done; test {{n}} -gt 0'",
        },
        "grid": {"n": [1, 2]},
        "max_parallel": 1,
    }  # fmt: skip
    (tmp_path / "sweep.json").write_text(json.dumps(body))
    sweep = service.invoke("sweep", str(tmp_path / "sweep.json")).out.split()[0]
    (faces / "a.txt").write_text("2")
    service.invoke("data", "push", "swept", str(faces))
    assert "needs swept@1" in service.invoke("data", "rm", "swept@1", code=1).err
    go.touch()
    service.invoke("sweep", "wait", sweep)
    jobs = json.loads(service.invoke("ls", "--all", "--json").out)["items"]
    assert [job["data"] for job in jobs if job["sweep"] == sweep] == [{"swept@1": "/data/swept"}] * 2
    service.invoke("data", "rm", "swept", "-y")
