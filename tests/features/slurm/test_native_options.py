"""Options of Slurm's own sbatch: read as Slurm reads them, or refused with their place."""

from __future__ import annotations

from typing import Any

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
