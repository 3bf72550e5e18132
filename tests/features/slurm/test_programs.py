"""Slurm's programs over a real service: scripts that use them, their tables, their refusals and the roles."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from clusters import wait_for
from matrices import each
from services import COMMAND, IMAGE, Result, Service, invoke
from terminals import read_until, type_in

from schedulearn.features.slurm.hostlist import compress, expand
from schedulearn.features.slurm.numbers import id_of_number, number_of

IN = f"--container-image={IMAGE}"
LONG = "#!/bin/sh\nsleep 600\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to submit from."""
    made = tmp_path / "work"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


def slurm(service: Service, *words: str, stdin: str = "", code: int = 0) -> Result:
    return service.invoke("slurm", *words, stdin=stdin, code=code)


def submit(service: Service, *words: str, script: str = LONG) -> str:
    return slurm(service, "sbatch", "--parsable", IN, *words, stdin=script).out.strip()


def job_of(service: Service, number: str) -> dict[str, object]:
    return service.job(id_of_number(int(number)))


def test_a_script_is_submitted_shown_and_cancelled_by_its_number(service: Service, folder: Path) -> None:
    (folder / "train.sh").write_text("#!/bin/bash\n#SBATCH -n2 --mem=1G\n#SBATCH --time=2:00:00\nsleep 600\n")
    said = slurm(service, "sbatch", "-J", "digits", IN, "train.sh").out
    [number] = re.findall(r"^Submitted batch job (\d{11,16})$", said, re.M)
    job = job_of(service, number)
    assert (job["name"], job["cpus"], job["memory"], job["max_duration"]) == ("digits", 2, 1 << 30, 7200)
    assert number_of(str(job["id"])) == int(number)
    wait_for(lambda: slurm(service, "squeue", "-h", "-j", number, "-o", "%T").out == "RUNNING\n", what="it to run")
    header, row = slurm(service, "squeue", "-j", number).out.splitlines()
    assert header == "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
    assert row.split()[:3] == [number, "main", "digits"]
    shown = slurm(service, "scontrol", "show", "job", number).out
    assert f"JobId={number} JobName=digits" in shown
    assert "NumCPUs=2 NumTasks=2" in shown
    slurm(service, "scancel", number)
    service.wait(str(job["id"]), "cancelled")
    assert slurm(service, "squeue", "-h", "-j", number).out == ""
    assert slurm(service, "sacct", "-n", "-X", "-P", "-j", number, "-o", "State,ExitCode").out == "CANCELLED|0:15\n"


@pytest.mark.process
def test_a_pipeline_in_shell_runs_unchanged(service: Service, folder: Path) -> None:
    bin_ = folder.parent / "bin"
    invoke("slurm", "install", "--into", str(bin_), PATH=str(bin_))
    (folder / "work.sh").write_text(
        "#!/bin/bash\n#SBATCH -n 2\ncat data.txt\nsrun -l sh -c 'echo task $SLURM_PROCID of $SLURM_NTASKS'\n"
        "scontrol show hostnames $SLURM_JOB_NODELIST | wc -l\necho id $SLURM_JOB_ID lr $LR\nexit $1\n"
    )
    (folder / "data.txt").write_text("hello\n")
    (folder / "pipeline.sh").write_text(
        "set -e\n"
        f"jid=$(sbatch {IN} work.sh 0 | awk '{{print $4}}')\n"
        f"next=$(sbatch --parsable {IN} --dependency=afterok:$jid --wrap 'exit 3')\n"
        'while [ -n "$(squeue -h -j $jid,$next)" ]; do sleep 0.2; done\n'
        "sacct -j $jid,$next -X -n -P -o JobID,State,ExitCode\necho jobs $jid $next\n"
    )
    env = {**service.env, "SCHEDULEARN_URL": service.url, "PATH": f"{bin_}:/usr/bin:/bin", "LR": "0.1"}
    done = subprocess.run(["sh", "pipeline.sh"], cwd=folder, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split()[-2:]
    assert done.stdout.splitlines()[:2] == [f"{first}|COMPLETED|0:0", f"{second}|FAILED|3:0"]
    log = service.logs(id_of_number(int(first))).splitlines()
    assert sorted(log) == sorted(["hello", "0: task 0 of 2", "1: task 1 of 2", "1", f"id {first} lr 0.1"])


def test_srun_gives_the_output_and_the_exit_code(service: Service, folder: Path) -> None:
    (folder / "here.txt").write_text("from the folder\n")
    done = slurm(service, "srun", "-Q", IN, "sh", "-c", "cat here.txt; exit 7", code=7)
    assert done.out == "from the folder\n"
    assert slurm(service, "srun", "-Q", "-i", "none", "--mpi=none", IN, "cat", stdin="not sent").out == ""
    labelled = slurm(service, "srun", "-Q", "-l", "-n2", IN, "sh", "-c", "echo $SLURM_PROCID")
    assert sorted(labelled.out.splitlines()) == ["0: 0", "1: 1"]


@pytest.mark.process
@pytest.mark.parametrize("shell", ["echo text | {}", "{} <text.txt", "{} <<E\ntext\nE\n"])
def test_srun_tells_that_it_would_lose_its_input(service: Service, folder: Path, shell: str) -> None:
    (folder / "text.txt").write_text("text")
    command = shell.format(f"{COMMAND} slurm srun {IN} cat")
    env = {**service.env, "SCHEDULEARN_URL": service.url}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "stdin is not sent to a job" in done.stderr


@pytest.mark.process
def test_srun_pty_and_salloc_are_shells(service: Service) -> None:
    with service.window("slurm", "srun", "--gres=gpu:2", IN, "--pty", "bash") as (fd, client):
        read_until(fd, "ends with this shell")
        type_in(fd, "echo gpus $NVIDIA_VISIBLE_DEVICES\n")
        read_until(fd, "gpus GPU-")
        type_in(fd, "exit 5\n")
        assert client.wait(30) == 5
    done = service.run("slurm", "salloc", "-n1", "--mem=64M", IN, stdin="echo $((6*7))\nexit 4\n", code=4)
    assert done.out == "42\n"
    assert service.call("GET", "/api/v1/jobs?limit=1")["items"][0]["memory"] == 64 << 20


def test_an_array_has_one_number(service: Service) -> None:
    blocker = service.submit_shell("sleep 600", gpus=4)
    service.wait(blocker, "running")
    array = submit(service, "--array=1-3", "--gpus=1", "-J", "many")
    assert slurm(service, "squeue", "-h", "-j", array, "-o", "%i %j").out == f"{array}_[1-3] many\n"
    each_ = slurm(service, "squeue", "-r", "-h", "-j", array, "-o", "%i").out.split()
    assert sorted(each_) == [f"{array}_{index}" for index in (1, 2, 3)]
    after = submit(service, f"--dependency=afterany:{array}")
    jobs = job_of(service, after)["after"]
    assert isinstance(jobs, dict)
    assert (len(jobs["jobs"]), jobs["when"]) == (3, "any")
    assert "Dependency" in slurm(service, "squeue", "-h", "-j", after, "-o", "%r").out
    slurm(service, "scancel", f"{array}_[1-2]")
    assert slurm(service, "squeue", "-h", "-j", array, "-o", "%i").out == f"{array}_3\n"
    slurm(service, "scancel", array, after)
    assert slurm(service, "squeue", "-h", "-j", array).out == ""


def test_an_array_that_is_too_large_for_one_request_is_refused_as_a_whole(service: Service) -> None:
    before = service.call("GET", "/api/v1/jobs?limit=1")["counts"]
    done = slurm(service, "sbatch", IN, "--array=1-2000", stdin=LONG, code=1)
    assert "--array=1-2000: 2000 tasks are too many for one request" in done.err
    assert service.call("GET", "/api/v1/jobs?limit=1")["counts"] == before


def test_the_tasks_of_an_array_have_its_variables(service: Service) -> None:
    script = "#!/bin/sh\necho $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT in $SLURM_ARRAY_JOB_ID\n"
    array = submit(service, "-a", "3,7", script=script)
    rows = wait_for(
        lambda: rows if len(rows := states(service, array)) == 2 and {*rows.values()} == {"COMPLETED"} else None,
        what="both to end",
    )
    assert set(rows) == {f"{array}_3", f"{array}_7"}
    logs = {
        service.logs(str(job["id"])) for job in service.call("GET", f"/api/v1/jobs?label=slurm-array={array}")["items"]
    }
    assert logs == {f"3 of 2 in {array}\n", f"7 of 2 in {array}\n"}


def states(service: Service, number: str) -> dict[str, str]:
    out = slurm(service, "sacct", "-X", "-n", "-P", "-j", number, "-o", "JobID,State").out
    return dict(line.split("|") for line in out.splitlines())


def test_hold_release_and_priorities(service: Service) -> None:
    number = submit(service, "--hold", "-J", "held")
    row = slurm(service, "squeue", "-h", "-j", number, "-o", "%.2t %R").out
    assert row == "PD (JobHeldUser)\n"
    assert number in slurm(service, "sprio", "-h", "-o", "%i %Y").out
    slurm(service, "scontrol", "release", number)
    service.wait(id_of_number(int(number)), "running")
    assert number in slurm(service, "scontrol", "hold", number, code=1).err
    slurm(service, "scancel", "--me", "--name=held", "--state=R")
    service.wait(id_of_number(int(number)), "cancelled")


def test_hosts_are_nodes_of_one_partition(service: Service) -> None:
    header, row = slurm(service, "sinfo").out.splitlines()
    assert header == "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST"
    assert re.fullmatch(r"main\*        up   infinite      1 {2,3}(idle|mix|alloc) local", row)
    assert slurm(service, "sinfo", "-N", "-h", "-o", "%N %G").out.startswith("local gpu:")
    assert slurm(service, "sinfo", "-h", "-p", "other").out == ""
    header, row = slurm(service, "sinfo", "-s").out.splitlines()
    assert header == "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST"
    assert re.fullmatch(r"main\*        up   infinite          (1/0|0/1)/0/1 local", row)
    assert "NodeName=local" in slurm(service, "scontrol", "show", "node", "local").out
    assert "not found" in slurm(service, "scontrol", "show", "node", "elsewhere", code=1).err
    job = service.submit_shell("sleep 600", gpus=4)
    service.wait(job, "running")
    assert slurm(service, "sinfo", "-h", "-o", "%t").out == "alloc\n"


@each(
    [
        (["sbatch"], "", "Batch script is empty"),
        (["sbatch"], "true\n", "does not look like a batch script"),
        (["sbatch", "--nonsense"], LONG, "--nonsense is not known"),
        (["sbatch", "--wrap=true", "x"], "", "arguments not permitted"),
        (["sbatch", "missing.sh"], "", "Unable to open file missing.sh"),
        (["sbatch", IN], "#!/bin/sh\n#SBATCH -N2\ntrue\n", "line 2: --nodes=2: the service chooses the hosts"),
        (["sbatch", IN], "#!/bin/sh\n#SBATCH -a 0-9%2\ntrue\n", "line 2: --array=0-9%2: %2 needs a sweep"),
        (["sbatch", IN], "#!/bin/sh\nsbatch next.sh\n", "line 2: calls sbatch"),
        (["sbatch", IN], "#!/bin/sh\n#SBATCH --mem=0\ntrue\n", "line 2: --mem=0: asks for all memory"),
        (["sbatch", IN], "#!/bin/sh\nsrun --gres=gpu:1 true\n", "line 2: srun --gres can't be given inside a job"),
        (["sbatch", IN], "#!/bin/sh\nsrun \\\n  --mpi pmix true\n", "line 2: srun --mpi pmix: only none"),
        (["sbatch", IN], "#!/bin/sh\nL='srun -p x'\n$L true\n", "line 2: srun -p can't be given"),
        (["sbatch", IN], "#!/bin/sh\n#SBATCH --exclusive\ntrue\n", "line 2: --exclusive: takes a whole host"),
        (["sbatch", IN, "--gpus=2"], "#!/bin/sh\n#SBATCH --gres=gpu:1\ntrue\n", "ask for different numbers of GPUs"),
        (["sbatch", IN], "#!/bin/sh\n#SBATCH -w elsewhere\ntrue\n", "line 2: --nodelist=elsewhere: there is no host"),
        (["sbatch", IN], "#!/bin/sh\n#SBATCH -x elsewhere\ntrue\n", "line 2: --exclude=elsewhere: there is no host"),
        (["sbatch", IN], "#!/bin/sh\n#SBATCH --reservation=x\ntrue\n", "line 2: --reservation=x"),
        (["sbatch", IN, "--dependency=singleton"], LONG, "--dependency=singleton: only afterok and afterany"),
        (["sbatch", IN, "--dependency=afterok:1,afterany:2"], LONG, "not both"),
        (["sbatch", IN, "--dependency=afterok:29876543210987"], LONG, "afterok:29876543210987: Invalid job id"),
        (["srun"], "", "name a command"),
        (["srun", "-o", "x.log", "true"], "", "--output can't be given"),
        (["srun", IN, "cat"], "text", "stdin is not sent to a job"),
        (["srun", IN, "--mpi=pmix", "true"], "", "--mpi=pmix: only none"),
        (["srun", "--pty", IN, "python"], "", "only a shell"),
        (["salloc", "make"], "", "only a shell"),
        (["scancel"], "", "No job identification"),
        (["scancel", "-s", "USR1", "1"], "", "--signal has no counterpart"),
        (["scancel", "12"], "", "Invalid job id specified"),
        (["squeue", "-t", "NOPE"], "", "Invalid job state specified: NOPE"),
        (["squeue", "-o", "%!"], "", "invalid format"),
        (["squeue", "-j", "77"], "", "Invalid job id specified"),
        (["squeue", "-o", "%.99999i"], "", "width of at most"),
        (["sacct", "-o", "Nope"], "", "Invalid field requested"),
        (["sacct", "-S", "soon"], "", "Invalid time specification"),
        (["scontrol", "update", "x"], "", "use `schedulearn prio JOB N"),
        (["scontrol", "show", "steps"], "", "invalid entity: steps"),
        (["scontrol", "show", "hostnames", "a[1-999999999]"], "", "more than 100000 hosts"),
    ],
    "words", "stdin", "says",
)  # fmt: skip
def test_what_can_not_be_done_is_refused_and_stores_nothing(
    service: Service, words: list[str], stdin: str, says: str
) -> None:
    before = service.call("GET", "/api/v1/jobs?limit=1")["counts"]
    done = slurm(service, *words, stdin=stdin, code=1)
    assert says in done.err
    assert done.err.startswith(f"{words[0]}: error: ")
    assert done.out == ""
    assert service.call("GET", "/api/v1/jobs?limit=1")["counts"] == before


def test_only_a_jobs_user_changes_it(service: Service) -> None:
    users = {name: service.add_person(name, role) for name, role in (("eve", "user"), ("vic", "viewer"))}
    number = submit(service, "-J", "mine")

    def as_(name: str, *words: str, stdin: str = "", code: int = 0) -> Result:
        return invoke("slurm", *words, stdin=stdin, code=code, url=service.url, SCHEDULEARN_TOKEN=users[name])

    assert number in as_("vic", "squeue", "-h").out
    assert "error" in as_("eve", "scancel", number, code=1).err
    assert "error" in as_("eve", "scontrol", "hold", number, code=1).err
    assert as_("eve", "scancel", "--me").out == ""
    assert "error" in as_("vic", "sbatch", IN, stdin=LONG, code=1).err
    assert "error" in as_("vic", "srun", IN, "true", code=1).err
    assert as_("eve", "squeue", "-h", "--me").out == ""
    theirs = as_("eve", "sbatch", "--parsable", IN, stdin=LONG).out.strip()
    assert job_of(service, theirs)["user"] == "eve"
    as_("eve", "scancel", "-u", "eve")
    service.wait(id_of_number(int(theirs)), "cancelled")
    assert job_of(service, number)["state"] not in ("cancelled", "stopping")


def test_a_name_without_jobs_is_told(service: Service) -> None:
    number = submit(service, "--hold")
    user = job_of(service, number)["user"]
    for words in (["squeue", "-h", "-u", "ada.l"], ["sacct", "-n", "-u", "ada.l"], ["scancel", "-u", "ada.l"]):
        done = slurm(service, *words)
        assert done.out == ""
        assert f"{words[0]}: no such jobs of ada.l; you are {user} here" in done.err
    assert slurm(service, "squeue", "-h", "-u", str(user)).err == ""


def test_scancel_of_another_partition_cancels_nothing(service: Service) -> None:
    number = submit(service, "--hold")
    slurm(service, "scancel", "--me", "-p", "debug")
    assert slurm(service, "squeue", "-h", "-j", number, "-o", "%T").out == "PENDING\n"
    slurm(service, "scancel", "--me", "-p", "main")
    assert slurm(service, "squeue", "-h", "-j", number).out == ""


@pytest.mark.process
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_srun_cancels_its_job(service: Service, sent: signal.Signals) -> None:
    ignored = signal.signal(sent, signal.SIG_DFL)  # under `nohup`, the program would ignore SIGHUP
    with service.begin("slurm", "srun", "-J", "signalled", IN, "sleep", "600") as process:
        signal.signal(sent, ignored)
        wait_for(lambda: slurm(service, "squeue", "-h", "-n", "signalled", "-t", "R").out, what="it to run")
        process.send_signal(sent)
        assert process.wait(30) == 128 + sent
    wait_for(lambda: not slurm(service, "squeue", "-h", "-n", "signalled").out, what="it to be cancelled")


def test_a_label_of_another_user_adds_no_job_to_an_array(service: Service) -> None:
    eve = service.add_person("eve2", "user")
    array = submit(service, "--array=1-2", "--hold")
    for task in ("3", "1"):
        given = ("--label", f"slurm-array={array}", "--label", f"slurm-task={task}", "--hold", "--image", IMAGE)
        invoke("submit", "-d", *given, "--", "false", url=service.url, SCHEDULEARN_TOKEN=eve)
    assert slurm(service, "squeue", "-h", "-j", array, "-o", "%i").out == f"{array}_[1-2]\n"
    after = submit(service, f"--dependency=afterok:{array}")
    jobs = job_of(service, after)["after"]
    assert isinstance(jobs, dict)
    assert len(jobs["jobs"]) == 2
    slurm(service, "scancel", f"{array}_1", array, after)
    assert len(slurm(service, "squeue", "-h", "-u", "eve2", "-r").out.splitlines()) == 2


def test_only_what_the_script_uses_of_the_shell_is_sent(service: Service) -> None:
    script = "#!/bin/sh\necho $LR ${RATE:-1} $HOME $SECRET_OF_MINE\n"
    env = {"LR": "0.1", "RATE": "2", "OTHER": "x"}
    sent = ["sbatch", "--parsable", IN, "--hold"]
    number = invoke("slurm", *sent, stdin=script, url=service.url, **env, SCHEDULEARN_TOKEN=service.token).out.strip()
    given = job_of(service, number)["env"]
    assert isinstance(given, dict)
    assert {"LR", "RATE"} <= given.keys()
    assert not {"OTHER", "HOME", "PATH"} & given.keys()
    number = invoke(
        "slurm", *sent, "--export=NONE", stdin=script, url=service.url, **env, SCHEDULEARN_TOKEN=service.token
    ).out.strip()
    none = job_of(service, number)["env"]
    assert isinstance(none, dict)
    assert "LR" not in none


def test_test_only_stores_nothing(service: Service) -> None:
    before = service.call("GET", "/api/v1/jobs?limit=1")["counts"]
    assert "would start at" in slurm(service, "sbatch", "--test-only", IN, stdin=LONG).err
    assert service.call("GET", "/api/v1/jobs?limit=1")["counts"] == before


def test_programs_are_installed_and_never_over_a_real_slurm(tmp_path: Path) -> None:
    mine, real = tmp_path / "bin", tmp_path / "slurm"
    real.mkdir()
    (real / "squeue").write_text("#!/bin/sh\necho real\n")
    (real / "squeue").chmod(0o755)
    refused = invoke("slurm", "install", "--into", str(mine), code=1, PATH=str(real)).err
    assert f"{real}/squeue is not ours" in refused
    assert not mine.exists()
    assert "sbatch" in invoke("slurm", "install", "--into", str(mine), PATH="/nowhere").out
    said = subprocess.run([mine / "squeue", "--help"], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    assert "squeue --me" in said.stdout, said.stderr
    invoke("slurm", "install", "--into", str(mine), PATH=str(mine))
    (mine / "sinfo").write_text("another's")
    invoke("slurm", "uninstall", "--from", str(mine))
    assert [file.name for file in mine.iterdir()] == ["sinfo"]
    assert (real / "squeue").exists()


@each(
    [
        ("gpu[1-3,7],login", ["gpu1", "gpu2", "gpu3", "gpu7", "login"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("a", ["a"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
    ],
    "text", "hosts",
)  # fmt: skip
def test_lists_of_hosts(text: str, hosts: list[str]) -> None:
    assert expand(text) == hosts
    assert expand(compress(hosts)) == hosts


def test_numbers_and_ids_are_the_same() -> None:
    for job_id in ("0000000000", "0yc6ghw3k5", "zzzzzzzzzz"):
        assert id_of_number(number_of(job_id)) == job_id
