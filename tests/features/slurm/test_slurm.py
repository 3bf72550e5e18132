"""import slurm, init, and each command of docs/from-slurm.md."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from matrices import each
from services import COMMAND, IMAGE, Service, invoke

from schedulearn.api.cli.job_files.reading import read_jobs, read_yaml
from schedulearn.features.slurm.sbatch import from_sbatch
from schedulearn.scheduler.specs.job import JobFields, JobSpec

PAGE = (Path(__file__).parents[3] / "docs/from-slurm.md").read_text()


TRUE = {"type": "t", "container_image": IMAGE, "command": "true", "required_gpus": 0, "launcher": "none"}


def block(language: str) -> str:
    [text] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    return str(text)


@pytest.mark.process
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
    assert "line 6: --partition=gpu: there are no partitions" in shown["import"].stderr
    assert "succeeded" in shown["wait"].stdout
    assert [row.split()[1] for row in shown["ls"].stdout.splitlines()] == ["NAME", "digits", "earlier-3", "earlier-2"]
    assert re.search(r"^name +digits$", shown["show"].stdout, re.M)
    assert re.fullmatch(r"job [0-9a-z]{10} trains\n", shown["resubmit"].stdout)
    assert shown["resubmit"].stdout != shown["logs"].stdout, "another job"
    assert shown["usage"].stdout.startswith("USER")
    assert "active" in shown["hosts"].stdout


def job(*options: str, body: str = "true") -> JobSpec:
    text = "#!/bin/bash\n" + "".join(f"#SBATCH {option}\n" for option in options) + body
    [made] = from_sbatch(text, "name", "img").jobs
    return JobSpec(**made)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-J x"], {"name": "x", "required_gpus": 0, "launcher": "none"}),
        (
            ["--mail-type=END,FAIL", "--mail-user=ada@example.org"],
            {"notify": ["ada@example.org"], "notify_on": ["end", "failure"]},
        ),
        (["--mail-type=all"], {"notify": ["me"], "notify_on": ["start", "end", "failure", "preemption"]}),
        (
            ["--mail-type=BEGIN,REQUEUE", "--mail-user=ada,bob@example.org"],
            {"notify": ["me", "bob@example.org"], "notify_on": ["start", "preemption"]},
        ),
        (["--mail-type=NONE", "--mail-user=ada@example.org"], {"notify": [], "notify_on": None}),
        (["--mail-user=ada@example.org"], {"notify": [], "notify_on": None}),
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
        (["-N2", "--ntasks-per-node=4", "--gpus-per-task=1", "-c8"], {"required_gpus": 8, "cpus": 32}),
        (["-N2", "--ntasks-per-node=4", "-c8", "--mem-per-cpu=512M"], {"cpus": 32, "memory": 16 << 30}),
        (["-N2", "-n8", "-c8"], {"cpus": 32}),
        (["-N4", "--gres=gpu:2", "--mem-per-gpu=1G"], {"required_gpus": 8, "memory": 2 << 30}),
        (["-N2", "--gpus-per-node=4", "--cpus-per-gpu=3"], {"required_gpus": 8, "cpus": 12}),
        (["--gpus=4", "--ntasks-per-gpu=2", "-c2"], {"cpus": 16}),
        (["--gres=gpu:a100:2"], {"required_gpus": 2, "gpu_type": "a100"}),
        (["-G 2", "-C v100-32g"], {"gpu_type": "v100-32g"}),
        (["-C a100"], {"gpu_type": None}),
        (["--gres=tmpfs:1,gpu:2,gpu:1"], {"required_gpus": 3}),
        (["--mem=4000"], {"memory": 4000 << 20}),
        (["--gpus=2", "--mem-per-gpu=16G"], {"memory": 32 << 30}),
        (["--export=ALL,A=1"], {"env": {"A": "1"}}),
        (["-A lab", "--comment=x  # a comment"], {"labels": {"account": "lab"}}),
        (["-w gpu1", "-x gpu3,gpu-4"], {"hosts": ["gpu1"], "exclude_hosts": ["gpu3", "gpu-4"]}),
        (["-G 2", "--exclusive"], {"exclusive": True}),
        (["--hold"], {"hold": True, "start_after": None}),
        (["-b now+90"], {"start_after": timedelta(seconds=90), "hold": False}),
        (["--begin=now+2hours", "-H"], {"start_after": timedelta(hours=2), "hold": True}),
        (["--begin=now+1week"], {"start_after": timedelta(days=7)}),
        (["--begin=2150-01-20T12:34:00"], {"start_after": datetime(2150, 1, 20, 12, 34).astimezone()}),
        (["--begin=now"], {"start_after": None}),
        (["--signal=B:TERM@120"], {"grace_period": 120}),
        (["--deadline=2150-01-01T00:00:00", "--container-image=nvcr.io/x:1"], {"container_image": "nvcr.io/x:1"}),
        (["--requeue"], {"preemptible": True}),
        (["--requeue", "--no-requeue"], {"preemptible": False}),
    ],
    ids=str,
)
def test_options_of_sbatch_become_keys(options: list[str], expected: dict[str, object]) -> None:
    made = job(*options).model_dump()
    assert {key: made[key] for key in expected} == expected


@each(["23:59", "00:00:30", "noon", "teatime"], "begin")
def test_a_job_begins_at_the_next_such_time_of_day(begin: str) -> None:
    at = job(f"--begin={begin}").start_after
    assert isinstance(at, datetime)
    local, now = at.astimezone(), datetime.now(UTC)
    assert now - timedelta(minutes=1) < at <= now + timedelta(hours=25)
    assert (local.hour, local.minute) == {"23:59": (23, 59), "noon": (12, 0), "teatime": (16, 0)}.get(begin, (0, 0))


def test_a_begin_that_is_not_understood_is_told() -> None:
    for begin in ("now+2fortnights", "25:00", "010130", "2026-13-01", "tomorrow"):
        made = from_sbatch(f"#!/bin/sh\n#SBATCH --begin={begin}\ntrue", "n", "img")
        assert "start_after" not in made.jobs[0]
        assert made.untranslated == [f"line 2: --begin={begin}: set start_after, such as 2h or 2026-12-24T18:00+01:00"]


def test_what_has_no_counterpart_is_told_with_its_line() -> None:
    text = """#!/bin/sh
#SBATCH -p gpu --gpus=a100:1
#SBATCH --frobnicate

module load cuda
srun python train.py $SLURM_PROCID $SLURM_JOB_ID
#SBATCH --mem=1G
"""
    made = from_sbatch(text, "n", "img")
    told = "\n".join(made.notes)
    for words in ("there are no partitions", "line 3: --frobnicate: has no counterpart",
                  "line 5: loads a module", "line 6: calls srun", "line 6: SLURM_PROCID is not set",
                  "line 7: comes after", "line 2: --partition=gpu", "gpu_type: a100"):  # fmt: skip
        assert words in told
    assert "memory" not in made.jobs[0]
    assert "export SLURM_JOB_ID=$SCHEDULEARN_JOB_ID" in made.jobs[0]["command"]


def test_an_array_is_a_list_of_jobs(service: Service) -> None:
    text = "#!/bin/sh\n#SBATCH -J a\n#SBATCH --array=1-5:2,9\necho $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT\n"
    printed = service.invoke("import", "slurm", "-", "--image", IMAGE, stdin=text)
    ids = service.invoke("submit", "-", stdin=printed.out).out.split()
    service.invoke("wait", *ids)
    assert [service.job(each)["name"] for each in ids] == ["a-1", "a-3", "a-5", "a-9"]
    assert service.logs(ids[3]) == "9 of 4\n"
    assert service.job(ids[0])["labels"] == {"array": "a"}


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no command"),
        ("#SBATCH --time=soon\ntrue", "is not a duration"),
        ("#SBATCH --mem=lots\ntrue", "is not a size"),
        ("#SBATCH --array=0-99999999\ntrue", "more than 10000"),
        ("#SBATCH --array=x\ntrue", "write e.g. 0-9"),
        ("#SBATCH --array=5-1\ntrue", "has 0 tasks"),
        ("#SBATCH -n many\ntrue", "is not a number"),
        ("#SBATCH 'unbalanced\ntrue", "line 1"),
        ("#SBATCH --array=1-4%x\ntrue", "is not a number of tasks"),
        ("#SBATCH --signal=@@\ntrue", "write e.g. B:USR1@120"),
        ("#SBATCH hetjob\ntrue", "several components"),
        ("#SBATCH words\ntrue", "is not an option of sbatch"),
    ],
)
def test_what_sbatch_would_refuse_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        from_sbatch(text, "n", "img")
    assert says in invoke("import", "slurm", "-", "--image", "x", stdin=text, code=2).err


def ran(text: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The command of the job that a script becomes, run as a container would run it."""
    [made] = from_sbatch(text, "name", "img", arguments).jobs
    given = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "SCHEDULEARN_NUM_NODES": "1", **(env or {})}
    given |= made.get("env", {})
    return subprocess.run(shlex.split(made["command"]), env=given, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize(
    ("text", "arguments", "code", "out"),
    [
        ("#!/bin/bash -e\nfalse\necho on\n", (), 1, ""),
        ("#!/bin/bash\nfalse\necho on\n", (), 0, "on\n"),
        ("#!/usr/bin/env -S bash -u\n: $NOT_SET\necho on\n", (), 127, ""),
        ("#!/bin/sh\necho ${1:?missing} $#\n", ("a b", "c"), 0, "a b 2\n"),
        ("#!/usr/bin/env python3\n#SBATCH -c 2\nimport os, sys\n"
         "print(os.environ['SLURM_CPUS_PER_TASK'], sys.argv[1:])\n", ("x",), 0, "2 ['x']\n"),
        ("#!/usr/bin/python3 -u\nimport sys\nsys.exit(3)\n", (), 3, ""),
        ("#!/usr/bin/perl -w\nprint 'perl ', @ARGV;\n", ("a", "b"), 0, "perl ab"),
        ("#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=4 -c8\necho $SLURM_NTASKS $SLURM_CPUS_PER_TASK\n", (), 0, "8 8\n"),
        ("#!/bin/bash\necho \"${SLURM_NTASKS-none}$SLURM_CPUS_PER_TASK\" $SLURM_JOB_NAME\n", (), 0, "none name\n"),
        ("#!/bin/bash\n#SBATCH --time=0:03 --signal=B:USR1@2\ntrap 'echo saved; exit 0' USR1\nsleep 9 & wait\n",
         (), 0, "saved\n"),
        ("#!/bin/bash\n#SBATCH --time=1:00 --signal=B:USR1@2\nsleep 0.1 & wait; echo done\n", (), 0, "done\n"),
    ],
)  # fmt: skip
def test_a_script_runs_as_its_first_line_and_options_say(
    text: str, arguments: tuple[str, ...], code: int, out: str
) -> None:
    done = ran(text, *arguments)
    assert (done.returncode, done.stdout) == (code, out), done.stderr


def untranslated(*lines: str, arguments: tuple[str, ...] = ()) -> str:
    return "\n".join(from_sbatch("#!/bin/bash\n" + "\n".join(lines), "n", "img", arguments).untranslated)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["echo seed=${1:?seed is missing}"], "line 2: uses ${1:?seed is missing}, an argument"),
        (['python train.py "$@"'], "line 2: uses $@"),
        (["master=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)"], "line 2: calls scontrol"),
        (['LAUNCHER="srun --ntasks-per-node=1"'], "line 2: calls srun"),
        (["clear; srun true"], "line 2: calls srun"),
        (["cd x && module load cuda"], "line 2: loads a module"),
        (["#SBATCH --signal=B:USR1@20", "true"], "line 2: --signal=B:USR1@20: is never sent without --time"),
        (["#SBATCH -t 10 --signal=USR1@20", "true"], "goes to the steps of srun only"),
        (["#SBATCH --dependency=afterok:12", "true"], "line 2: --dependency=afterok:12: name the other job by its id"),
        (["#SBATCH --mail-type=END,TIME_LIMIT_80", "true"], "TIME_LIMIT_80 has no counterpart"),
        (["#SBATCH --gpus=a100:1,h100:1", "true"], "several types"),
        (["#SBATCH -C bigmem", "true"], "line 2: --constraint=bigmem: hosts have labels here"),
        (["#SBATCH -w gpu1,gpu2", "true"], "line 2: --nodelist=gpu1,gpu2: set the key hosts"),
        (["#SBATCH -x gpu[1-3]", "true"], "line 2: --exclude=gpu[1-3]: write each host by name"),
        (["#SBATCH --exclusive", "true"], "line 2: --exclusive: only jobs with GPUs have hosts alone"),
        (["#SBATCH --exclusive=user -G1", "true"], "--exclusive=user: only jobs"),
        (["#SBATCH --gres=gpu:1,nvme:1", "true"], "line 2: --gres=gpu:1,nvme:1: nvme:1 has no counterpart"),
        (["#SBATCH --export=HOME,A=1", "true"], "line 2: --export=HOME,A=1: takes HOME of your shell"),
        (["echo $SLURM_PROCID"], "line 2: SLURM_PROCID is not set here"),
    ],
)  # fmt: skip
def test_what_is_not_translated_is_named_with_its_line(lines: list[str], says: str) -> None:
    assert says in untranslated(*lines)


@pytest.mark.parametrize(
    "lines",
    [
        ["f() {", '  echo "$1"', "}", "f x"],
        ["function f {", '  echo "$@"', "}"],
        ["awk '{print $1}' file"],
        ["# srun $1 module load"],
        ["echo ${SLURM_PROCID:-0}"],
        ["SLURM_TASK=1"],
        ["./srun.py --x=my-srun-log"],
        ["#SBATCH -o x.log -e y.log", "true"],
        ["#SBATCH --gres=gpu:a100:2 -C a100", "true"],
    ],
)
def test_what_is_translated_is_not_named(lines: list[str]) -> None:
    assert untranslated(*lines) == ""
    assert untranslated("echo $1", arguments=("x",)) == ""


@pytest.mark.process
def test_an_array_that_runs_one_after_the_other_is_a_sweep(service: Service) -> None:
    text = "#!/bin/bash\n#SBATCH -J chain\n#SBATCH --array=3-4%1\necho $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_MAX\n"
    printed = service.invoke("import", "slurm", "-", "--image", IMAGE, stdin=text)
    assert "schedulearn sweep start FILE" in printed.err
    assert "it is a sweep: schedulearn sweep start" in service.invoke("submit", "-", stdin=printed.out, code=2).err
    service.invoke("sweep", "start", "--wait", "-", stdin=printed.out)
    runs = service.invoke("--json", "sweep", "show", "last").json["table"]
    first, second = (service.job(run["job"]) for run in runs)
    assert [service.logs(job["id"]) for job in (first, second)] == ["3 of 4\n", "4 of 4\n"]
    assert first["finished_at"] <= second["submitted_at"]


@pytest.mark.process
def test_strict_prints_no_job_that_does_less_than_its_script() -> None:
    whole = "#!/bin/bash\n#SBATCH -o x.log\necho hello\n"
    assert "command" in invoke("import", "slurm", "-", "--strict", "--image", "x", stdin=whole).out
    less = invoke("import", "slurm", "-", "--strict", "--image", "x", stdin=whole + "srun true\n", code=1)
    assert less.out == ""
    assert "line 4: calls srun" in less.err
    assert "nothing printed" in less.err


@pytest.mark.process
def test_an_image_must_be_named() -> None:
    assert "--image" in invoke("import", "slurm", "-", stdin="true", code=2).err


@pytest.mark.process
def test_init_writes_a_file_with_every_key_that_can_be_submitted(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    invoke("init", str(file), "--image", IMAGE, "--launcher", "none", "--label", "a=b", "--", "echo", "it's on")
    text = file.read_text()
    assert all(re.search(rf"^(# )?{key}:", text, re.M) for key in JobFields.model_fields)
    assert service.invoke("submit", str(file)).out == "it's on\n"
    assert "--force" in invoke("init", str(file), code=2).err
    assert file.read_text() == text
    invoke("init", str(file), "--force")
    assert read_yaml(file.read_text())["command"] == "python train.py"


@pytest.mark.process
def test_the_defaults_that_init_writes_as_comments_are_the_defaults() -> None:
    text = invoke("init", "-").out
    plain = read_jobs(text, "job.yaml")
    assert isinstance(plain, dict)
    lines = [
        line for line in text.splitlines() if not line.startswith("# ") or re.match(r"# (?!default:)[a-z_]+: ?\S", line)
    ]
    everything = read_yaml("\n".join(line.removeprefix("# ") for line in lines if ":" in line))
    ours = {key: value for key, value in everything.items() if key in JobFields.model_fields}
    assert JobSpec(**ours) == JobSpec(**plain)


def test_init_asks_on_a_terminal_and_ctrl_c_leaves_nothing(service: Service, tmp_path: Path) -> None:
    shown = service.on_terminal("init", str(tmp_path / "j"), "--image", "i", "--gpus", "0", until="Command [")
    assert shown.code == 130
    assert "Command [python train.py]" in shown.out
    assert not (tmp_path / "j").exists()
