"""Options of Slurm's own sbatch: read as Slurm reads them, or refused with their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matrices import each

from schedulearn.features.slurm.options import SBATCH, parse
from schedulearn.features.slurm.sbatch import Imported, from_sbatch


def made(words: str, body: str = "true", **native: str) -> Imported:
    given, _ = parse(words.split(), SBATCH)
    return from_sbatch(f"#!/bin/bash\n{body}\n", "x", "img", given=given, native=native)


@each(
    [
        ("--gpus=-1", "--gpus=-1: -1 is not a number of GPUs"),
        ("--gres=gpu:1K", "--gres=gpu:1K: 1K is not a number of GPUs"),
        ("--gres=gpu:a100:b", "--gres=gpu:a100:b: a100:b is not a number of GPUs"),
        ("--gres=gpu:2,gpu:a100:1", "--gres=gpu:2,gpu:a100:1: ask for GPUs with and without their type"),
        ("--gres=gpu:a100:2 --gpus=2", "--gpus=2, --gres=gpu:a100:2: ask for GPUs with and without their type"),
    ],
    "words", "says",
)  # fmt: skip
def test_counts_of_gpus_that_slurm_reads_otherwise_are_refused(words: str, says: str) -> None:
    assert says in "\n".join(made(words).untranslated)


@each([("--gres=gpu:0", 0), ("--gres=none", 0), ("--gpus=2080ti:2", 2), ("--gpus=x", 1)], "words", "gpus")
def test_counts_of_gpus_that_slurm_takes_are_taken(words: str, gpus: int) -> None:
    found = made(words)
    assert found.untranslated == []
    assert found.jobs[0]["required_gpus"] == gpus


@each([("1,1", ["1"]), ("3,1-2,2", ["1", "2", "3"])], "spans", "tasks")
def test_each_task_of_an_array_runs_once_and_in_order(spans: str, tasks: list[str]) -> None:
    jobs: list[dict[str, Any]] = made(f"--array={spans}").jobs
    assert [job["env"]["SLURM_ARRAY_TASK_ID"] for job in jobs] == tasks
    assert jobs[0]["env"]["SLURM_ARRAY_TASK_COUNT"] == str(len(tasks))


def test_export_all_sends_the_variables_of_the_shell_but_not_of_the_machine() -> None:
    shell = {"LR": "0.1", "WANDB_PROJECT": "x", "PATH": "/bin", "BASH_FUNC_f%%": "() { :; }", "SBATCH_QUIET": "1"}
    for words in ("--export=ALL", "--export=all,FOO=1"):
        env = made(words, **shell).jobs[0]["env"]
        assert env["WANDB_PROJECT"] == "x"
        assert env["LR"] == "0.1"
        assert not {"PATH", "BASH_FUNC_f%%", "SBATCH_QUIET", "all"} & env.keys()
    assert not {"LR", "WANDB_PROJECT"} & made("--export=NONE", **shell).jobs[0]["env"].keys()


@each([("python train.py",), ("cd src\npython -m sub.train --x y",), ("bash ./run.sh",)], "body")
def test_variables_that_a_named_program_uses_are_sent(body: str, folder: Path) -> None:
    env = made("", body, LR="0.1", RATE="2", OTHER="x").jobs[0]["env"]
    assert {"LR", "RATE"} & env.keys()
    assert "OTHER" not in env


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to submit from, with programs that read variables."""
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    for path, text in (("train.py", "os.environ['LR']"), ("sub/train.py", 'os.getenv("LR")'), ("run.sh", "$RATE")):
        (work / path).write_text(text)
    (tmp_path / "outside.py").write_text("os.environ['OTHER']")
    monkeypatch.chdir(work)
    return work


def test_files_outside_of_the_folder_are_not_read(folder: Path) -> None:
    assert "OTHER" not in made("", "python ../outside.py; python train.py", LR="1", OTHER="x").jobs[0]["env"]


def test_a_comment_is_the_description() -> None:
    assert made("--comment=first").jobs[0]["description"] == "first"
