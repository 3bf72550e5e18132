"""import slurm, init, and each command of docs/from-slurm.md."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from services import COMMAND, IMAGE, Service, run

from schedulearn.api.cli import cli
from schedulearn.api.cli.job_files.reading import read_jobs, read_yaml
from schedulearn.api.cli.job_files.slurm import from_sbatch
from schedulearn.scheduler.specs.job import JobFields, JobSpec

PAGE = (Path(__file__).parents[2] / "docs/from-slurm.md").read_text()


TRUE = {"type": "t", "container_image": IMAGE, "command": "true", "required_gpus": 0, "launcher": "none"}


def block(language: str) -> str:
    [text] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    return str(text)


def test_every_command_of_the_page_runs_as_printed(service: Service, tmp_path: Path) -> None:
    (tmp_path / "train.sbatch").write_text(block("bash"))
    env = {**service.env, "SCHEDULEARN_URL": service.url, "PATH": f"{Path(COMMAND).parent}:/usr/bin:/bin"}
    lines = block("sh").replace("schedulearn/pytorch", IMAGE).splitlines()
    service.call("POST", "/api/v1/jobs:batch", [{**TRUE, "name": f"earlier-{n}"} for n in range(4)])
    shown = {}
    for line in lines:
        done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        shown[line.split()[1]] = done
    assert re.fullmatch(r"job [0-9a-z]{10} trains\n", shown["logs"].stdout)
    assert "line 6: --mail-type: add a webhook" in shown["import"].stderr
    assert "succeeded" in shown["wait"].stdout
    assert [row.split()[1] for row in shown["ls"].stdout.splitlines()] == ["NAME", "digits", "earlier-3", "earlier-2"]
    assert re.search(r"^name +digits$", shown["show"].stdout, re.M)
    assert re.fullmatch(r"job [0-9a-z]{10} trains\n", shown["resubmit"].stdout)
    assert shown["resubmit"].stdout != shown["logs"].stdout, "another job"
    assert shown["usage"].stdout.startswith("USER")
    assert "active" in shown["hosts"].stdout


def test_every_command_that_the_page_names_is_one() -> None:
    named = set(re.findall(r"`schedulearn (\w+)", PAGE))
    assert len(named) > 12
    assert named <= cli.commands.keys()


def job(*options: str, body: str = "true") -> JobSpec:
    text = "#!/bin/bash\n" + "".join(f"#SBATCH {option}\n" for option in options) + body
    [made] = from_sbatch(text, "name", "img").jobs
    return JobSpec(**made)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-J x"], {"name": "x", "required_gpus": 0, "launcher": "none"}),
        (["--gpus=4"], {"required_gpus": 4}),
        (["-G a100:2"], {"required_gpus": 2}),
        (["--gres=gpu:v100:2", "-N2"], {"required_gpus": 4}),
        (["--gres gpu"], {"required_gpus": 1}),
        (["--gpus-per-task=2", "--ntasks=3"], {"required_gpus": 6}),
        (["-t 90"], {"max_duration": 5400}),
        (["-t1:30"], {"max_duration": 90}),
        (["--time=2:00:00"], {"max_duration": 7200}),
        (["--time=1-12"], {"max_duration": 129_600}),
        (["--time=1-12:30:15"], {"max_duration": 131_415}),
        (["--time=UNLIMITED"], {"max_duration": None}),
        (["-c 4", "--mem-per-cpu=2G"], {"cpus": 4, "memory": 8 << 30}),
        (["--mem=4000"], {"memory": 4000 << 20}),
        (["--gpus=2", "--mem-per-gpu=16G"], {"memory": 32 << 30}),
        (["--export=ALL,A=1"], {"env": {"A": "1"}}),
        (["-A lab", "--comment=x  # a comment"], {"labels": {"account": "lab"}}),
        (["--signal=B:TERM@120"], {"grace_period": 120}),
        (["--deadline=2150-01-01T00:00:00", "--container-image=nvcr.io/x:1"], {"container_image": "nvcr.io/x:1"}),
    ],
    ids=str,
)
def test_options_of_sbatch_become_keys(options: list[str], expected: dict[str, object]) -> None:
    made = job(*options).model_dump()
    assert {key: made[key] for key in expected} == expected


def test_what_has_no_counterpart_is_told_with_its_line() -> None:
    text = """#!/bin/sh
#SBATCH -p gpu --gpus=a100:1
#SBATCH --frobnicate

module load cuda
srun python train.py $SLURM_NODEID $SLURM_JOB_ID
#SBATCH --mem=1G
"""
    made = from_sbatch(text, "n", "img")
    told = "\n".join(made.notes)
    for words in ("line 2: --partition: there are no partitions", "line 3: --frobnicate: has no counterpart",
                  "line 5: loads a module", "line 6: calls srun", "SLURM_NODEID: is not set", "line 7: comes after",
                  "the type of GPU (a100)"):  # fmt: skip
        assert words in told
    assert "memory" not in made.jobs[0]
    assert "export SLURM_JOB_ID=$SCHEDULEARN_JOB_ID" in made.jobs[0]["command"]


def test_an_array_is_a_list_of_jobs(service: Service) -> None:
    text = "#!/bin/sh\n#SBATCH -J a\n#SBATCH --array=1-5:2,9%2\necho $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT\n"
    printed = service.run("import", "slurm", "-", "--image", IMAGE, stdin=text)
    assert "max_parallel" in printed.err
    ids = service.run("submit", "-", stdin=printed.out).out.split()
    service.run("wait", *ids)
    assert [service.job(each)["name"] for each in ids] == ["a-1", "a-3", "a-5", "a-9"]
    assert service.logs(ids[3]) == "9 of 4\n"
    assert service.job(ids[0])["labels"] == {"array": "a"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no command"),
        ("#SBATCH --time=soon\ntrue", "is no length of time"),
        ("#SBATCH --mem=lots\ntrue", "is no size"),
        ("#SBATCH --array=0-99999999\ntrue", "more than 10000"),
        ("#SBATCH --array=x\ntrue", "write e.g. 0-9"),
        ("#SBATCH --array=5-1\ntrue", "has 0 tasks"),
        ("#SBATCH -n many\ntrue", "is no number"),
        ("#SBATCH 'unbalanced\ntrue", "line 1"),
        ("#SBATCH words\ntrue", "is no option of sbatch"),
    ],
)
def test_what_sbatch_would_refuse_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        from_sbatch(text, "n", "img")
    assert says in run("import", "slurm", "-", "--image", "x", stdin=text, code=2).err


def test_an_image_must_be_named() -> None:
    assert "--image" in run("import", "slurm", "-", stdin="true", code=2).err


def test_init_writes_a_file_with_every_key_that_can_be_submitted(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    run("init", str(file), "--image", IMAGE, "--launcher", "none", "--label", "a=b", "--", "echo", "it's on")
    text = file.read_text()
    assert all(re.search(rf"^(# )?{key}:", text, re.M) for key in JobFields.model_fields)
    assert service.run("submit", str(file)).out == "it's on\n"
    assert "--force" in run("init", str(file), code=2).err
    assert file.read_text() == text
    run("init", str(file), "--force")
    assert read_yaml(file.read_text())["command"] == "python train.py"


def test_the_defaults_that_init_writes_as_comments_are_the_defaults() -> None:
    text = run("init", "-").out
    plain = read_jobs(text, "job.yaml")
    assert isinstance(plain, dict)
    lines = [line for line in text.splitlines() if not line.startswith("# ") or re.match(r"# [a-z_]+: ?\S", line)]
    everything = read_yaml("\n".join(line.removeprefix("# ") for line in lines if ":" in line))
    ours = {key: value for key, value in everything.items() if key in JobFields.model_fields}
    assert JobSpec(**ours) == JobSpec(**plain)


def test_init_asks_on_a_terminal_and_ctrl_c_leaves_nothing(service: Service, tmp_path: Path) -> None:
    shown = service.on_terminal("init", str(tmp_path / "j"), "--image", "i", "--gpus", "0", until="Command [")
    assert shown.code == 130
    assert "Command [python train.py]" in shown.out
    assert not (tmp_path / "j").exists()
