"""run: what is sent of a folder that git knows, and of one that a job's outputs were brought to."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from services import IMAGE, Service

from schedulearn.api.client.code import CodeListing, is_brought, list_files, mark_brought


def write(folder: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


def git(folder: Path, *words: str) -> str:
    options = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *options, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def paths(found: CodeListing) -> set[str]:
    return {entry.path for entry in found.entries}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the configuration of git of nobody."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


@pytest.fixture
def project(home: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "nets"
    folder.mkdir()
    git(folder, "init", "--quiet")
    return folder


def test_git_says_what_is_sent(home: Path, project: Path) -> None:
    """Also by what was committed against the rules, and by the rules that stand elsewhere."""
    write(home, {".config/git/ignore": "*.secret\n"})
    write(project, {".git/info/exclude": "id_rsa\n", ".gitignore": "*.pt\n/data/\n", "base.pt": "", "train.py": ""})
    git(project, "add", "--force", ".")
    git(project, "commit", "--quiet", "-m", "one")
    write(project, {"id_rsa": "", "my.secret": "", "last.pt": "", "data/a": "", "data/b": "", "new.py": ""})
    write(project, {"__pycache__/x.pyc": "", "lib/venv/pyvenv.cfg": "", "lib/venv/x.py": "", "lib/a b\n\u00e4.py": ""})
    (project / "empty").mkdir()
    found = list_files(project)
    said = git(project, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    assert paths(found) == {path for path in said if path and "venv" not in path and "__pycache__" not in path}
    assert paths(found) == {".gitignore", "base.pt", "train.py", "new.py", "lib/a b\n\u00e4.py"}
    assert set(found.ignored) == {"id_rsa", "my.secret", "last.pt", "data/"}
    assert found.left_out == ["lib/venv/ (a virtual environment)"]


def test_a_rule_of_the_repository_brings_caches_back(project: Path) -> None:
    write(project, {".gitignore": "!__pycache__/\n", "__pycache__/x": "", "node_modules/x": ""})
    assert paths(list_files(project)) == {".gitignore", "__pycache__/x"}


def test_a_folder_inside_a_repository(project: Path) -> None:
    write(
        project,
        {".gitignore": "*.log\nnets/out/\n", "other.py": "", "nets/a.py": "", "nets/a.log": "", "nets/out/x": ""},
    )
    found = list_files(project / "nets")
    assert (paths(found), found.ignored) == ({"a.py"}, ["a.log", "out/"])
    inside = list_files(project / "nets/out")
    assert paths(inside) == {"x"}, "whoever sends a folder that is ignored as a whole means it"


def test_files_that_are_deleted_linked_in_conflict_or_odd(project: Path) -> None:
    write(project, {"gone.py": "", "a.py": "1", "tool.sh": "", "pkg/x": ""})
    (project / "link").symlink_to("a.py")
    (project / "to-folder").symlink_to("pkg")
    (project / "far").symlink_to("/etc")
    (project / "tool.sh").chmod(0o755)
    git(project, "add", ".")
    git(project, "commit", "--quiet", "-m", "one")
    git(project, "checkout", "--quiet", "-b", "other")
    write(project, {"a.py": "2"})
    git(project, "commit", "--quiet", "-am", "two")
    git(project, "checkout", "--quiet", "-")
    write(project, {"a.py": "3"})
    git(project, "commit", "--quiet", "-am", "three")
    subprocess.run(["git", "merge", "other"], cwd=project, capture_output=True, check=False)
    (project / "gone.py").unlink()
    Path(os.fsdecode(os.fsencode(project) + b"/caf\xe9")).touch()
    os.mkfifo(project / "pipe")
    found = list_files(project)
    entries = {entry.path: entry for entry in found.entries}
    assert sorted(entries) == sorted(entry.path for entry in found.entries)
    assert entries.keys() == {"a.py", "tool.sh", "pkg/x", "link", "to-folder"}
    assert (entries["tool.sh"].executable, entries["link"].target) == (True, "a.py")
    assert [each.partition(" (")[2] for each in sorted(found.left_out)] == [
        "its name is not UTF-8)", "a link that leads outside, to /etc)",
    ]  # fmt: skip


def test_submodules_and_repositories_inside_come_along(project: Path, tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    write(lib, {"lib.py": "", ".gitignore": "*.tmp\n"})
    git(lib, "init", "--quiet")
    git(lib, "add", ".")
    git(lib, "commit", "--quiet", "-m", "lib")
    git(project, "submodule", "--quiet", "add", str(lib), "third/lib")
    write(project, {"third/lib/new.py": "", "third/lib/x.tmp": "", "own/x.py": ""})
    git(project / "own", "init", "--quiet")
    assert paths(list_files(project)) == {
        ".gitmodules", "third/lib/lib.py", "third/lib/.gitignore", "third/lib/new.py", "own/x.py",
    }  # fmt: skip
    assert list_files(project).ignored == ["third/lib/x.tmp"]
    git(project, "commit", "--quiet", "-am", "one")
    git(project, "submodule", "--quiet", "deinit", "--force", "third/lib")
    assert list_files(project).left_out == ["third/lib/ (a submodule that was not fetched)"]


def test_without_git_the_rules_in_the_folder_are_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, {".gitignore": "*.log\n", "a.log": "", "a.py": ""})
    monkeypatch.setenv("PATH", "/nonexistent")
    found = list_files(project)
    assert (paths(found), found.ignored, found.note) == ({".gitignore", "a.py"}, ["a.log"], "")


def test_a_repository_that_git_refuses_is_told(project: Path) -> None:
    write(project, {".git/config": "[core", "a.py": ""})
    found = list_files(project)
    assert paths(found) == {"a.py"}
    assert found.note.startswith("git failed (fatal: bad config")


def test_an_ignore_file_of_our_own_goes_before_git(project: Path) -> None:
    write(project, {".gitignore": "*.pt\n", "base.pt": "", "a.py": "", ".schedulearnignore": "a.py\n.*ignore\n"})
    found = list_files(project)
    assert (paths(found), sorted(found.ignored)) == ({"base.pt"}, [".gitignore", ".schedulearnignore", "a.py"])


def test_left_out_files_are_counted_and_named_before_sending(
    service: Service, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {".gitignore": "*.pt\n", "a.py": "", **{f"{n}.pt": "" for n in range(7)}})
    monkeypatch.chdir(project)
    told = service.invoke("run", "--image", IMAGE, "-d", "--", "true").err
    assert "left out 7 ignored files or folders: 0.pt, 1.pt, 2.pt, 3.pt, 4.pt, ...\n" in told
    assert told.index("left out") < told.index("sending")


@pytest.mark.process
@pytest.mark.parametrize("own", [False, True])
def test_outputs_that_were_brought_are_not_sent_next_time(
    service: Service, project: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    write(project, {"a.sh": "echo 1 > $SCHEDULEARN_OUTPUT_DIR/best.pt", **({".schedulearnignore": ""} if own else {})})
    monkeypatch.chdir(project)
    run = ("run", "--image", IMAGE, "--", "sh", "a.sh")
    before = service.invoke(*run).err
    assert service.invoke("cp", "last:/outputs", "results").out == "results\n"
    assert (project / "results/best.pt").read_text() == "1\n"
    after = service.invoke(*run).err
    assert "sending" in before
    assert "the service has this code" in after
    assert "left out 1 ignored file or folder: results/" in after


def test_a_jobs_own_ignore_file_is_kept(tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": "own"})
    mark_brought(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "own"
    assert not is_brought(tmp_path)
