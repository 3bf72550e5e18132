"""run: the code of a folder as a job."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from services import IMAGE, Service

from schedulearn.api.cli.submit import code_of
from schedulearn.api.client.code import list_files, packed_code
from schedulearn.api.client.errors import ClientError

RUN = ("run", "--image", IMAGE)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as people have them, and this one to be in."""
    folder = tmp_path / "nets"
    write(folder, {"train.sh": "echo trained on $(cat data/small) in $PWD; ls", "data/small": "42"})
    monkeypatch.chdir(folder)
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


def paths(folder: Path) -> set[str]:
    return {entry.path for entry in list_files(folder).entries}


def test_a_folder_runs_as_it_is_and_is_sent_once(service: Service, project: Path) -> None:
    first = service.invoke(*RUN, "--", "sh", "train.sh")
    assert "trained on 42 in" in first.out
    assert first.out.splitlines()[1:] == ["data", "train.sh"]
    assert f"sending {project}: 2 files" in first.err
    assert "the service has this code: 2 files" in service.invoke(*RUN, "--", "sh", "train.sh").err
    write(project, {"train.sh": "echo better"})
    edited = service.invoke(*RUN, "--", "sh", "train.sh")
    assert (edited.out, "sending" in edited.err) == ("better\n", True)


def test_at_the_end_it_says_where_the_model_is_and_what_was_lost(service: Service, project: Path) -> None:
    write(project, {"train.sh": "head -c 2000000 /dev/zero > model.pt; echo 1 > $SCHEDULEARN_OUTPUT_DIR/best.pt"})
    told = service.invoke(*RUN, "--", "sh", "train.sh").err
    [job] = re.findall(r"job (\w+) succeeded", told)
    assert f"its outputs are best.pt: `schedulearn cp {job}:/outputs .` brings them here" in told
    assert re.search(r"model\.pt \(2\.0 MB\) was written to the attempt's own folder, which is deleted with it", told)
    assert "outputs" not in service.invoke(*RUN, "--", "true").err
    assert service.invoke("cp", f"{job}:/outputs", ".").code == 0
    assert (project / "outputs" / "best.pt").read_text() == "1\n"


def test_its_exit_code_is_that_of_the_job(service: Service, project: Path) -> None:
    service.invoke(*RUN, "--", "sh", "-c", "exit 7", code=7)


def test_the_very_same_code_runs_again_whatever_became_of_the_folder(service: Service, project: Path) -> None:
    job = service.job(service.invoke(*RUN, "-d", "--", "sh", "train.sh").out.strip())
    write(project, {"train.sh": "echo other"})
    flags = ("--image", IMAGE, "--launcher", "none", "--code", job["code"]["digest"])
    assert "trained on 42" in service.invoke("submit", *flags, "--", "sh", "train.sh").out


def test_the_commit_and_changes_are_shown(service: Service, project: Path) -> None:
    def git(*words: str) -> str:
        options = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
        return subprocess.run(["git", *options, *words], capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    commit = git("rev-parse", "HEAD")
    clean = service.invoke(*RUN, "-d", "--", "true").out.strip()
    assert (service.job(clean)["code"]["commit"], service.job(clean)["code"]["dirty"]) == (commit, False)
    write(project, {"more.py": ""})
    dirty = service.invoke(*RUN, "-d", "--", "true").out.strip()
    assert (service.job(dirty)["code"]["commit"], service.job(dirty)["code"]["dirty"]) == (commit, True)
    digest = service.job(dirty)["code"]["digest"]
    assert f"{digest[:19]} (commit {commit[:12]}, changed since)" in service.invoke("show", dirty).out


def test_each_attempt_runs_it_from_the_beginning(service: Service, project: Path) -> None:
    """Nothing that an attempt changed is there at the next one."""
    write(project, {"train.sh": "ls; touch left-over; exit $((1 - SCHEDULEARN_RESTARTS))"})
    done = service.invoke(*RUN, "--max-restarts", "1", "--", "sh", "train.sh")
    assert done.out.split() == ["data", "train.sh"] * 2


def test_what_is_ignored_stays_here(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "*.log\n/out/\n!keep.log\n", "a.log": "", "keep.log": "", "out/x": "", "src/out/y": "",
            "src/.gitignore": "secret\n!b.log", "src/secret": "", "src/b.log": "", "secret": "",
            ".git/config": "", "__pycache__/x.pyc": "", "venv/pyvenv.cfg": "", "venv/lib/x.py": "", "train.py": "",
        },
    )  # fmt: skip
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("train.py")
    (tmp_path / "far").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    sent = {"keep.log", "src/out/y", "src/b.log", "secret", "train.py", "empty", "link", ".gitignore", "src/.gitignore"}
    assert paths(tmp_path) == sent
    left = list_files(tmp_path).left_out
    assert sorted(each.partition(" ")[0] for each in left) == ["far", "pipe", "venv/"]
    write(tmp_path, {".schedulearnignore": "src\n.*ignore\n"})
    assert paths(tmp_path) == {"a.log", "keep.log", "out/x", "secret", "train.py", "empty", "link"}


def test_the_same_files_are_the_same_code_wherever_and_whenever(tmp_path: Path) -> None:
    digests = []
    for name in ("here", "there"):
        write(tmp_path / name, {"train.py": "x", "deep/er/data": "y"})
        os.utime(tmp_path / name / "train.py", (len(digests), 1))
        with packed_code(tmp_path / name, 1 << 20, 100) as code:
            digests.append(code.written.digest)
    assert digests[0] == digests[1]


def test_too_much_is_told_with_the_largest_folders(
    start_service: Callable[..., Service], project: Path, tmp_path: Path
) -> None:
    service = start_service(env={"SCHEDULEARN_CODE_LIMIT": "100k"})
    write(project, {"weights/last/model.pt": "x" * 90_000, "weights/old.pt": "x" * 60_000})
    told = service.invoke(*RUN, "--", "true", code=1).err
    assert "4 files with 147 KiB; the service takes 50000 files and 100 KiB" in told
    assert "The largest: weights/last (88 KiB), weights/old.pt (59 KiB), train.sh" in told
    assert ".schedulearnignore" in told
    assert service.call("GET", "/api/v1/jobs")["items"] == []
    assert list((tmp_path / "data" / "code").iterdir()) == []


def test_a_home_folder_is_never_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "homes" / "ada"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for folder in (home, home.parent, Path("/")):
        with pytest.raises(ClientError, match="is a home folder or has one in it"), packed_code(folder, 1, 1):
            pass


def test_without_a_command_it_says_how(service: Service, project: Path) -> None:
    assert "schedulearn run -- python train.py" in service.invoke("run", code=2).err


def test_the_first_word_that_is_no_option_begins_the_command(service: Service, project: Path) -> None:
    write(project, {"train.sh": 'echo "$@"'})
    words = ("sh", "train.sh", "--gpus", "9", "--", "-h", "a b")
    for dashes in ((), ("--",)):
        done = service.invoke(*RUN, "--gpus", "1", *dashes, *words)
        assert done.out == "--gpus 9 -- -h a b\n"
    job = service.job(service.invoke(*RUN, "-d", *words).out.strip())
    assert (job["command"], job["required_gpus"]) == ("sh train.sh --gpus 9 -- -h 'a b'", 1)
    assert "not both" in service.invoke(*RUN, "--command", "true", "false", code=2).err
    assert "write `python train.sh`" not in service.invoke(*RUN, "./train.sh", code=126).err
    assert "or `./train.sh`" in service.invoke(*RUN, "train.sh", code=127).err


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("sha256:" + "a" * 64, {"digest": "sha256:" + "a" * 64}),
        ("https://github.com/ada/nets.git", {"git": "https://github.com/ada/nets.git"}),
        ("https://github.com/ada/nets@v2/x", {"git": "https://github.com/ada/nets", "ref": "v2/x"}),
        ("https://ada@github.com/nets", {"git": "https://ada@github.com/nets"}),
    ],
)
def test_what_is_no_folder_is_named(where: str, code: Any) -> None:
    assert code_of(None, where) == code  # type: ignore[arg-type]  # nothing is sent
