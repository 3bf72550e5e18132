"""What code needs beside its image: requirements, installed once for all, and a setup command in each container."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.wheels import make_wheel, serve_folder
from services import IMAGE, Service

OWN = "own"
"""No environment of ours: jobs without a launcher run in that of the service."""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    make_wheel(tmp_path / "wheels", "greeting", "def main():\n    print('good morning')\n")
    with serve_folder(tmp_path / "wheels") as url:
        yield url


@pytest.fixture
def project(tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "nets"
    folder.mkdir()
    (folder / "train.py").write_text("import greeting, numpy\ngreeting.main(); print(numpy.arange(3).sum())\n")
    (folder / "needs.txt").write_text(f"--no-index\n--find-links {index}\ngreeting==1.0  # ours\n\n")
    monkeypatch.chdir(folder)
    return folder


def kinds(service: Service, job_id: str) -> list[str]:
    return [event["kind"] for event in service.call("GET", f"/api/v1/jobs/{job_id}/events")["items"]]


def test_requirements_are_installed_once_and_the_image_is_seen_below(
    service: Service, project: Path, index: str
) -> None:
    run = ("run", "--image", OWN, "--requirements", "needs.txt")
    first = service.invoke(*run, "--", "python", "train.py")
    assert first.out == "good morning\n3\n"
    assert "is pulling" in first.err
    again = service.invoke(*run, "--", "greeting")
    assert again.out == "good morning\n", "programs of requirements are on PATH"
    assert "is pulling" not in again.err
    job = service.job(service.invoke("ls", "--all", "--json").json["items"][0]["id"])
    assert job["requirements"] == ["--no-index", f"--find-links {index}", "greeting==1.0"]
    same = service.submit("greeting", container_image=OWN, launcher="none", requirements=job["requirements"])
    assert service.wait(same, "succeeded", "failed")["state"] == "succeeded"
    assert "job.pulling" not in kinds(service, same)
    [stored] = [each["name"] for each in service.call("GET", "/api/v1/hosts/local/disk")["images"]]
    assert stored.startswith("schedulearn/layer:")


def test_requirements_that_cannot_be_had_are_told_in_the_words_of_pip(service: Service) -> None:
    job = service.submit("true", container_image=OWN, launcher="none", requirements=["--no-index", "nowhere==1"])
    failed = service.wait(job, "failed", "succeeded")
    assert failed["reason"] == "image_unavailable"
    assert "No matching distribution found for nowhere==1" in failed["message"]


@pytest.mark.parametrize(
    ("requirements", "told"),
    [
        (["-r more.txt"], "the option -r"), (["-e ."], "the option -e"), (["./nets"], "use setup"),
        (["--target=/etc"], "the option --target"), ("../needs.txt", "name of a file"), ("needs.txt", "set code"),
        (["x"] * 1001, "1000 lines"), (["x" * 70_000], "64 KiB"), ([5], "requirements"),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_requirements_that_no_job_can_have_are_refused(service: Service, requirements: object, told: str) -> None:
    body = {"name": "n", "type": "t", "container_image": OWN, "command": "true", "required_gpus": 1}
    answer = service.http.post(f"{service.url}/api/v1/jobs", json={**body, "requirements": requirements})
    assert (answer.status_code, told in answer.json()["detail"]) == (422, True), answer.text


def test_a_file_that_is_not_in_the_code_is_told(service: Service, project: Path) -> None:
    told = service.invoke("run", "--requirements", "other.txt", "--", "true", code=1).err
    assert "there is no file other.txt in the code sha256:" in told


def test_setup_runs_before_the_command_with_its_words_as_they_are(service: Service, project: Path) -> None:
    run = ("run", "--image", IMAGE, "--setup", "sh -c 'echo \"$0 is set up\" > made' 'the  \"$HOME\" of nets'")
    assert service.invoke(*run, "--", "cat", "made").out == 'the  "$HOME" of nets is set up\n'


@pytest.mark.parametrize(("setup", "code"), [("sh -c 'exit 5'", 5), ("no-such-program", 127), ("exit 3", 3)])
def test_a_setup_that_fails_is_told_and_the_command_does_not_run(service: Service, setup: str, code: int) -> None:
    done = service.invoke(
        "submit", "--image", IMAGE, "--launcher", "none", "--setup", setup, "--", "echo", "trained", code=code
    )
    assert "trained" not in done.out
    assert f"exit code {code}: the setup command failed, so the command did not run" in done.err
