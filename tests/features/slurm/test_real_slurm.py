"""What our parser, variables and tables say, compared with the answers of Debian's Slurm."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bench.service import slurm_answers, slurm_cases
from matrices import each

from schedulearn.features.slurm import listing
from schedulearn.features.slurm.fields import clock, megabytes
from schedulearn.features.slurm.formats import Column, by_letters, by_names, lines
from schedulearn.features.slurm.options import SBATCH, parse
from schedulearn.features.slurm.sbatch import from_sbatch

ANSWERS = json.loads((Path(__file__).parent / "real_answers.json").read_text())
CASES = slurm_cases.CASES
NOT_HERE = {
    "all-memory": "asks for all memory",
    "array-limited": "needs a sweep",
    "singleton": "",  # refused when its jobs are looked up: see test_programs.py
    "tasks-over-nodes": "4 tasks need 2 hosts",
    "two-nodes": "on several, the script runs once on each",
}
"""Scripts that Slurm runs and that are refused here, with words of the refusal."""
ASKS_THE_SERVICE = {"node-list"}
"""Refused only when the hosts are known: see test_programs.py."""


def made(name: str) -> Any:
    case = CASES[name]
    given, _ = parse(case.words.split(), SBATCH)
    return from_sbatch(case.text, f"{name}.sbatch", "img", given=given, native={"USER": "ada"})


def refusal(name: str) -> str:
    try:
        return "\n".join(made(name).untranslated)
    except ValueError as error:
        return str(error)


def ran(job: dict[str, Any]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The variables in the script and in each task of its step, run as a container would run it."""
    env = {"PATH": os.environ["PATH"], "SCHEDULEARN_JOB_ID": "000123abcd", "SCHEDULEARN_NUM_NODES": "1", **job["env"]}
    done = subprocess.run(shlex.split(job["command"]), env=env, capture_output=True, text=True, timeout=60, check=True)
    batch, _, step = done.stdout.partition("== step\n")
    return dict(re.findall(r"^(SLURM_\w+)=(.*)$", batch, re.M)), slurm_answers.step_variables(step)


@each(
    sorted(name for name, answer in ANSWERS["cases"].items() if "refused" in answer and name not in ASKS_THE_SERVICE),
    "name",
)
def test_what_slurm_refuses_is_refused_here_with_its_place(name: str) -> None:
    assert re.search(r"^line \d: ", refusal(name)), refusal(name)


@each(sorted(NOT_HERE), "name")
def test_what_would_differ_is_refused_with_its_line(name: str) -> None:
    assert "refused" not in ANSWERS["cases"][name]
    if NOT_HERE[name]:
        assert re.search(rf"^line \d: .*{NOT_HERE[name]}", refusal(name))


@each(sorted(name for name, answer in ANSWERS["cases"].items() if "asks" in answer and name not in NOT_HERE), "name")
def test_a_script_asks_for_the_same_as_with_slurm(name: str) -> None:
    asks, found = ANSWERS["cases"][name]["asks"], made(name)
    assert found.untranslated == []
    job = found.jobs[0]
    assert job["name"] == asks["JobName"]
    assert job["env"].get("SLURM_NTASKS", "1") == asks["NumTasks"]
    if "cpus-per-gpu" not in found.options:  # counted at the start there
        assert job["cpus"] == int(asks["NumCPUs"])
    assert found.options.get("cpus-per-task", "1") == asks["CPUs/Task"]
    assert (clock(job["max_duration"], hours=True) if "max_duration" in job else "UNLIMITED") == asks["TimeLimit"]
    resources = dict(re.findall(r"([\w/]+)=(\w+)", asks["TRES"]))
    if "memory" in job:
        assert megabytes(job["memory"]) == resources["mem"]
    else:
        assert "MinMemoryCPU" not in asks
        assert asks["MinMemoryNode"] == "0"
    assert job["required_gpus"] == gpus_of(asks)
    tasks = [each["env"]["SLURM_ARRAY_TASK_ID"] for each in found.jobs] if "array" in found.options else []
    assert tasks == array_of(asks.get("ArrayTaskId", ""))


def gpus_of(asks: dict[str, str]) -> int:
    for field, times in (("TresPerJob", 1), ("TresPerNode", 1), ("TresPerTask", int(asks["NumTasks"]))):
        if field in asks:
            return int(asks[field].rpartition(":")[2]) * times
    return 0


def array_of(text: str) -> list[str]:
    found: list[str] = []
    for span in filter(None, text.split(",")):
        first, _, last = span.partition("-")
        found += [str(number) for number in range(int(first), int(last or first) + 1)]
    return found


@each(sorted(name for name, answer in ANSWERS["cases"].items() if "batch" in answer and name not in NOT_HERE), "name")
def test_the_variables_of_a_script_and_of_its_step_are_those_of_slurm(name: str) -> None:
    answer = ANSWERS["cases"][name]
    batch, step = ran(made(name).jobs[0])
    assert slurm_answers.recorded(batch) == answer["batch"]
    assert step.keys() == answer["step"].keys()
    for rank, variables in answer["step"].items():
        assert slurm_answers.recorded(step[rank]) == {**answer["batch"], **variables}


def output_of(body: str, *options: str, code: int = 0, **env: str) -> list[str]:
    """Lines that a script prints, run as a container would run it."""
    text = "#!/bin/bash\n" + "".join(f"#SBATCH {option}\n" for option in options) + body
    made = from_sbatch(text, "x", "img", native={})
    assert made.untranslated == []
    [job] = made.jobs
    known = {"PATH": os.environ["PATH"], "SCHEDULEARN_JOB_ID": "000123abcd", **env, **job["env"]}
    done = subprocess.run(shlex.split(job["command"]), env=known, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout.splitlines()


def test_a_step_has_gpus_of_its_own_for_each_task() -> None:
    body = "srun sh -c 'echo $SLURM_PROCID:$CUDA_VISIBLE_DEVICES'\n"
    options = ("-n 2", "--gpus-per-task=2")
    assert sorted(output_of(body, *options, CUDA_VISIBLE_DEVICES="GPU-a,GPU-b,GPU-c,GPU-d")) == [
        "0:GPU-a,GPU-b",
        "1:GPU-c,GPU-d",
    ]
    assert sorted(output_of(body, *options)) == ["0:0,1", "1:2,3"]


def test_a_step_ends_with_the_highest_exit_code_and_kills_the_others_if_asked() -> None:
    assert output_of("srun sh -c 'exit $SLURM_PROCID'\necho $?", "-n 3") == ["2"]
    waits = "srun --kill-on-bad-exit=1 sh -c '[ $SLURM_PROCID = 1 ] && exit 5; exec sleep 600'\necho $?"
    assert output_of(waits, "-n 2") == ["143"]


def test_a_step_can_have_fewer_tasks_and_its_own_files(tmp_path: Path) -> None:
    assert output_of("srun -n1 echo $SLURM_NTASKS\nsrun -n 2 --ntasks-per-node=3 echo x", "-n 3") == ["3", "x", "x"]
    output_of(f"srun -o {tmp_path}/%t.log sh -c 'echo $SLURM_PROCID'", "-n 2")
    assert [(tmp_path / f"{rank}.log").read_text() for rank in "01"] == ["0\n", "1\n"]
    assert output_of("srun -n 9 true\necho $?", "-n 2") == ["1"], "more tasks than processors"
    assert output_of("cat <<EOF | srun cat\nstdin\nEOF") == ["stdin"]


def test_variables_of_the_user_survive() -> None:
    names = [
        "number",
        "text",
        "digit",
        "below",
        "count",
        "value",
        "label",
        "step",
        "rank",
        "first",
        "seen",
        "out",
        "err",
        "i",
    ]
    body = "srun sh -c 'env' | grep '^[a-z]*=mine$' | sort"
    assert output_of(body, **dict.fromkeys(names, "mine")) == sorted(f"{name}=mine" for name in names)
    assert output_of(body, "-n2", **dict.fromkeys(names, "mine")) == sorted(2 * [f"{name}=mine" for name in names])


def test_a_job_over_several_hosts_says_that_it_can_not_run() -> None:
    assert output_of("echo never", code=1, SCHEDULEARN_NUM_NODES="2") == []


def test_there_are_forty_cases_that_run_and_the_answers_are_of_all() -> None:
    assert CASES.keys() == ANSWERS["cases"].keys()
    assert len(CASES) >= 40
    assert sum("batch" in answer for answer in ANSWERS["cases"].values()) >= 35


@each(range(len(ANSWERS["formats"])), "index")
def test_a_table_has_the_columns_of_slurm(index: int) -> None:
    table = ANSWERS["formats"][index]
    letters = listing._JOB_LETTERS if table["command"] == "squeue" else listing._NODE_LETTERS
    names = listing._JOB_NAMES if table["command"] == "squeue" else listing._NODE_NAMES
    rows = [{letters[letter][0]: value for letter, value in row.items()} for row in table["values"]]
    columns = columns_of(table["words"], letters, names, rows)
    header = "-h" not in table["words"]
    assert list(lines(columns, rows, header=header)) == table["out"].splitlines()


def columns_of(words: list[str], letters: Any, names: Any, rows: list[dict[str, str]]) -> list[Column]:
    if "-O" in words:
        return by_names(words[words.index("-O") + 1], names)
    given = {"Node": ""} if "-N" in words else {}
    text = words[words.index("-o") + 1] if "-o" in words else listing._node_format(given, rows)
    return by_letters(text, letters)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(not shutil.which("slurmctld") or os.geteuid() != 0, reason="needs root and Slurm")
@pytest.mark.timeout(600)
def test_the_installed_slurm_answers_as_recorded() -> None:
    answers = slurm_answers.ask()
    if answers["version"] != ANSWERS["version"]:
        pytest.skip(f"the answers are of {ANSWERS['version']}, here is {answers['version']}")
    for name, answer in ANSWERS["cases"].items():
        assert answers["cases"][name] == answer, name
