"""Programs `sbatch`, `srun`, `salloc` and `scancel`."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath

import click

from schedulearn.api.cli.common import INTERRUPTED, CliSession, clean, exit_code, pass_session
from schedulearn.api.cli.follow import follow
from schedulearn.api.cli.submit import code_of, complete
from schedulearn.api.client.client import ApiError, ClientError, Job, Json
from schedulearn.features.slurm.fields import PARTITION, states_of
from schedulearn.features.slurm.numbers import ARRAY, find_jobs, number_of
from schedulearn.features.slurm.options import SBATCH, STEP, Syntax, parse
from schedulearn.features.slurm.programs import Program, say, tell_user
from schedulearn.features.slurm.sbatch import Imported, from_sbatch
from schedulearn.scheduler.core.states import TERMINAL, UNFINISHED, JobState

_LARGEST = 1 << 20
_MAX_AFTER = 100
_STEP_ONLY = {
    "label", "unbuffered", "kill-on-bad-exit", "pty", "mpi", "cpu-bind", "disable-status", "preserve-env", "overlap",
    "exact", "whole", "verbose",
}  # fmt: skip
_SHELLS = {"bash", "sh", "zsh", "dash", "ksh"}
_OF_SHELL = {"job-name", "time", "gpus", "gres", "gpus-per-node", "gpus-per-task", "cpus-per-task", "cpus-per-gpu",
             "nodes", "ntasks", "ntasks-per-node", "mem", "mem-per-cpu", "mem-per-gpu", "partition", "qos", "account",
             "container-image", "exclusive", "quiet", "comment"} | _STEP_ONLY  # fmt: skip
Options = Sequence[tuple[str, str]]


@click.command(cls=Program)
@click.pass_context
@pass_session
def sbatch(session: CliSession, context: click.Context, /, words: tuple[str, ...]) -> int:
    """Submit a batch script, as Slurm's sbatch.

    The folder goes with it, and the script runs in the image of --container-image, or in the service's default image.
    Nothing is submitted if an option would have another effect here; the message names its line.

    \b
    Examples:
      sbatch --gpus 1 --time 2:00:00 train.sbatch --seed 1
      jid=$(sbatch --parsable prepare.sbatch); sbatch --dependency=afterok:$jid train.sbatch
      sbatch --wrap "python train.py"
    """
    options, rest = parse(words, SBATCH)
    options = [*_of_environment(), *options]
    text, name, arguments = _script(options, rest)
    made = _made(session, text, name, arguments, options)
    if "test-only" in made.options:
        return _test_only(session, context, made)
    _tell(context, made)
    jobs = _submitted(session, made)
    number = jobs[0]["labels"].get(ARRAY) or number_of(jobs[0]["id"])
    click.echo(number if "parsable" in made.options else f"Submitted batch job {number}")
    if "wait" not in made.options:
        return 0
    return max(exit_code(session.client.wait(job["id"])) for job in jobs)


def _of_environment() -> list[tuple[str, str]]:
    """Return the options that variables such as SBATCH_TIMELIMIT set. Raises ValueError for one not known here."""
    found = []
    for name, value in sorted(os.environ.items()):
        option = _VARIABLES.get(name) or name.removeprefix("SBATCH_").lower().replace("_", "-")
        if not name.startswith("SBATCH_") or option in ("debug", "ignore-pbs"):
            continue
        if option not in SBATCH.valued | SBATCH.flags | SBATCH.optional:
            raise ValueError(f"the variable {name} is not known here: unset it, and give an option instead")
        found.append((option, "" if option in SBATCH.flags else value))
    return found


_VARIABLES = {
    "SBATCH_TIMELIMIT": "time",
    "SBATCH_ARRAY_INX": "array",
    "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_REQUEUE": "requeue",
    "SBATCH_NO_REQUEUE": "no-requeue",
}


def _script(options: Options, rest: list[str]) -> tuple[str, str, tuple[str, ...]]:
    """Return the text of the script, the job's name, and the arguments. Raises ValueError."""
    wrapped = [value for option, value in options if option == "wrap"]
    if wrapped:
        if rest:
            raise ValueError("Script arguments not permitted with --wrap option")
        return f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{wrapped[-1]}\n", "wrap", ()
    if rest and rest[0] != "-":
        try:
            with Path(rest[0]).open(encoding="utf-8") as file:
                text = file.read(_LARGEST + 1)
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"Unable to open file {rest[0]}: {error}") from error
        name = PurePath(rest[0]).name
    else:
        text, name = sys.stdin.read(_LARGEST + 1), "sbatch"
    if len(text) > _LARGEST:
        raise ValueError("a batch script has 1 MiB at most")
    if not text.strip():
        raise ValueError("Batch script is empty!")
    if not text.startswith("#!"):
        raise ValueError("This does not look like a batch script: its first line must begin with #! and a program")
    return text, name, tuple(rest[1:])


def _made(session: CliSession, text: str, name: str, arguments: tuple[str, ...], options: Options) -> Imported:
    """Return the jobs of a script. Raises ValueError if an option would have another effect here."""
    image = session.client.code_limits()["default_image"]
    made = from_sbatch(text, name, image, arguments, given=options, native=os.environ)
    if made.untranslated:
        raise ValueError("\n  ".join(["nothing was submitted, because here this would differ:", *made.untranslated]))
    _check_hosts(session, made)
    try:
        after = _after(session, made.options.get("dependency", ""))
    except (ValueError, ClientError) as error:
        raise ValueError(f"{made.places['dependency']}: {error}") from error
    if after:
        made.jobs = [{**job, "after": after} for job in made.jobs]
    return made


def _check_hosts(session: CliSession, made: Imported) -> None:
    """Raise ValueError for a host that there is not, as Slurm does."""
    named = {"hosts": "nodelist", "exclude_hosts": "exclude"}
    if not named.keys() & made.jobs[0].keys():
        return
    known = {host["id"] for host in session.client.hosts()}
    for key, option in named.items():
        if missing := [host for host in made.jobs[0].get(key, []) if host not in known]:
            raise ValueError(f"{made.places[option]}: there is no host {missing[0]}; see sinfo -N")


def _after(session: CliSession, text: str) -> Json | None:
    """Return the key `after` for `afterok:1:2,afterok:3`. Raises ValueError, ClientError."""
    if not text:
        return None
    kinds: set[str] = set()
    numbers: list[str] = []
    for part in text.split(","):
        kind, *given = part.split(":")
        if kind not in ("afterok", "afterany") or not given or "?" in part or any("+" in each for each in given):
            raise ValueError(
                f"--dependency={text}: only afterok and afterany have a counterpart here, joined by commas"
            )
        kinds.add(kind)
        numbers += given
    if len(kinds) > 1:
        raise ValueError("a job has either afterok or afterany, not both")
    jobs = [job.id for job in find_jobs(session, numbers)]
    if len(jobs) > _MAX_AFTER:
        raise ValueError(f"means {len(jobs)} jobs, and a job can wait for {_MAX_AFTER}")
    return {"jobs": jobs, "when": "ok" if kinds == {"afterok"} else "any"}


def _tell(context: click.Context, made: Imported) -> None:
    if "quiet" not in made.options:
        for remark in made.remarks:
            say(context, remark)


def _submitted(session: CliSession, made: Imported) -> list[Json]:
    """Send the folder, submit the jobs, all or none, and return them."""
    code = code_of(session, made.options.get("chdir") or ".")
    jobs = [complete({**job, "code": code}, {}, {}, {}) for job in made.jobs]
    if len(jobs) == 1:
        return [session.client.submit(jobs[0])]
    try:
        items: list[Json] = session.client.submit_batch(jobs)["items"]
    except ApiError as error:
        if error.status != 413:
            raise
        raise ValueError(
            f"{made.places['array']}: {len(jobs)} tasks are too many for one request: submit them as several arrays"
        ) from error
    return items


def _test_only(session: CliSession, context: click.Context, made: Imported) -> int:
    """Print when the job would start. Nothing is stored."""
    spec = complete(made.jobs[0], {}, {}, {})
    eta = session.client.expect(spec)
    if eta["start"] is None:
        raise ValueError("allocation failure: the start can't be predicted, or the job can't run here")
    say(context, f"Job would start at {eta['start']} using {spec['cpus']} processors in partition main")
    return 0


@click.command(cls=Program)
@click.pass_context
@pass_session
def srun(session: CliSession, context: click.Context, /, words: tuple[str, ...]) -> int:
    """Run a command as a job, as Slurm's srun outside of a job.

    Its output comes here, and the exit code is the job's. Ctrl-C cancels it. `--pty bash` starts a shell, and with
    --jobid a command in a running job.

    \b
    Examples:
      srun --gpus 1 python train.py
      srun --gres gpu:1 --mem 16G --pty bash
      srun --jobid 29876543210987 --pty bash
    """
    options, rest = parse(words, STEP)
    given = dict(options)
    if "jobid" in given:
        return _in_job(session, context, given, rest)
    if not rest:
        raise ValueError("name a command: srun python train.py")
    if "pty" in given:
        return _shell(session, context, options, rest)
    if given.get("mpi", "none") != "none":
        raise ValueError(
            f"--mpi={given['mpi']}: only none can be given here; start MPI's own launcher in a batch script"
        )
    ignored = {"input"} if given.get("input") == "none" else set()
    refused = sorted(({"output", "error", "input", "multi-prog", "wait", "dependency"} & given.keys()) - ignored)
    if refused:
        raise ValueError(f"--{refused[0]} can't be given to srun here; redirect in the shell, or use sbatch")
    steps = [f"--{option}={value}" if value else f"--{option}" for option, value in options if option in _OF_STEP]
    text = f"#!/bin/sh\nexec srun {shlex.join([*steps, '--', *rest])}\n"
    job_options = [each for each in options if each[0] not in _STEP_ONLY | ignored]
    if not ignored:
        _check_input(context)
    made = _made(session, text, PurePath(rest[0]).name, (), job_options)
    _tell(context, made)
    [job] = _submitted(session, made)
    try:
        with _interrupted_by(signal.SIGTERM, signal.SIGHUP):
            return follow(session, job, quiet="quiet" in given)
    except KeyboardInterrupt as error:
        session.client.cancel(job["id"])
        return error.args[0] if error.args else INTERRUPTED


@contextmanager
def _interrupted_by(*numbers: signal.Signals) -> Iterator[None]:
    """Let `timeout 60 srun ...`, and a terminal that closes, cancel the job as Ctrl-C does; `nohup` is respected."""

    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt(128 + number)

    heard = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


_OF_STEP = {"label", "kill-on-bad-exit"}


def _check_input(context: click.Context) -> None:
    """Raise ValueError if stdin has something to read, because a job doesn't get it. Waits for no writer."""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError, AttributeError):  # closed, or not of this process
        found = bool(sys.stdin and sys.stdin.read(1))
    else:
        if stat.S_ISREG(mode):
            found = os.lseek(descriptor, 0, os.SEEK_CUR) < os.fstat(descriptor).st_size
        elif not stat.S_ISFIFO(mode):
            return
        elif select.select([descriptor], [], [], _INPUT_S)[0]:
            found = bool(os.read(descriptor, 1))
        else:
            say(context, "stdin is a pipe, and is not sent to the job")
            return
    if found:
        raise ValueError("stdin is not sent to a job: read a file of the folder instead, or write -i none")


_INPUT_S = 0.2
"""Seconds in which a pipe must have something to read. It may be one that nobody writes to."""


def _in_job(session: CliSession, context: click.Context, given: dict[str, str], rest: list[str]) -> int:
    """Run a command in a running job."""
    refused = sorted(given.keys() - {"jobid", "overlap", "ntasks", "quiet", "nodes"} - _STEP_ONLY)
    if refused or given.get("ntasks", "1") != "1" or given.get("nodes", "1") != "1":
        raise ValueError(f"--{refused[0] if refused else 'ntasks'} can't be given together with --jobid here")
    [job] = find_jobs(session, [given["jobid"]])
    return int(_call(context, "exec", job=job.id, command=tuple(rest), rank=None, terminal="pty" in given or None))


def _shell(session: CliSession, context: click.Context, options: Options, rest: Sequence[str]) -> int:
    """Start a job with a shell. Raises ValueError for other commands."""
    if rest and (PurePath(rest[0]).name not in _SHELLS or set(rest[1:]) - {"-i", "-l", "--login", "-"}):
        raise ValueError(f"{shlex.join(rest)}: only a shell can be started so; run the command in it")
    if refused := sorted({option for option, _ in options} - _OF_SHELL):
        raise ValueError(f"--{refused[0]} can't be given to an interactive job here")
    made = _made(session, "#!/bin/sh\n:\n", "interactive", (), [each for each in options if each[0] not in _STEP_ONLY])
    _tell(context, made)
    [job] = made.jobs
    return int(
        _call(
            context,
            "shell",
            gpus=job["required_gpus"],
            image=job["container_image"],
            code=None,
            priority=None,
            max_duration=job.get("max_duration"),
            cpus=job["cpus"],
            memory=str(job["memory"]) if "memory" in job else None,
        )
    )


def _call(context: click.Context, name: str, **parameters: object) -> int:
    """Run another command of `schedulearn`, of a feature that this one can't import."""
    root = context.find_root().command
    command = root.get_command(context, name) if isinstance(root, click.Group) else None
    if command is None:
        raise ClientError(f"this needs the command `schedulearn {name}`")
    return int(context.invoke(command, **parameters) or 0)


@click.command(cls=Program)
@click.pass_context
@pass_session
def salloc(session: CliSession, context: click.Context, /, words: tuple[str, ...]) -> int:
    """Start a shell on resources of the cluster, as Slurm's salloc.

    The shell runs in the job, not on this machine.

    \b
    Example:
      salloc --gpus 2 --time 1:00:00
    """
    options, rest = parse(words, Syntax("salloc", STEP.short, STEP.valued, STEP.flags, STEP.optional))
    return _shell(session, context, options, rest)


_CANCEL = Syntax(
    "scancel",
    {"u": "user", "n": "name", "t": "state", "p": "partition", "s": "signal", "q": "quiet", "v": "verbose", "A":
     "account", "f": "full", "b": "batch", "i": "interactive", "H": "hurry", "Q": "quiet"},
    frozenset({"user", "name", "jobname", "state", "partition", "signal", "account"}),
    frozenset({"me", "quiet", "verbose", "full", "batch", "interactive", "hurry"}),
)  # fmt: skip


@click.command(cls=Program)
@click.pass_context
@pass_session
def scancel(session: CliSession, context: click.Context, /, words: tuple[str, ...]) -> int:
    """Cancel jobs, as Slurm's scancel: by number, or all that match the options.

    \b
    Examples:
      scancel 29876543210987
      scancel 1234567890123_[1-3]
      scancel --me --state PENDING
    """
    options, rest = _interspersed(words, _CANCEL)
    given = dict(options)
    if refused := sorted({"signal", "full", "batch", "interactive"} & given.keys()):
        raise ValueError(
            f"--{refused[0]} has no counterpart here: a job gets SIGTERM, and SIGKILL after its grace period"
        )
    chosen = {"user", "me", "name", "jobname", "state", "account", "partition"} & given.keys()
    if not rest and not chosen:
        raise ValueError("No job identification provided")
    failed = False
    jobs: list[Json] = []
    for word in rest:
        try:
            jobs += find_jobs(session, [word])
        except ClientError as error:
            failed = True
            click.echo(f"scancel: error: Kill job error on job id {clean(word)}: {clean(str(error))}", err=True)
    if not rest:
        user = session.user() if "me" in given else given.get("user")
        jobs = session.client.all_jobs(UNFINISHED, user=user)["items"]
        tell_user(session, context, given, jobs)
    for job in jobs:
        if JobState(job["state"]) not in TERMINAL and _matches(job, given):
            failed |= not _cancelled(session, job)
    return int(failed)


def _matches(job: Json, given: dict[str, str]) -> bool:
    names = given.get("name") or given.get("jobname")
    return (
        ("user" not in given or job["user"] == given["user"])
        and (not names or job["name"] in names.split(","))
        and ("state" not in given or JobState(job["state"]) in states_of(given["state"]))
        and ("account" not in given or job["labels"].get("account") == given["account"])
        and given.get("partition", PARTITION) == PARTITION
    )


def _cancelled(session: CliSession, job: Json) -> bool:
    """Cancel a job; return whether that was allowed."""
    try:
        session.client.cancel(Job(job))
    except ClientError as error:
        click.echo(f"scancel: error: Kill job error on job id {number_of(job['id'])}: {clean(str(error))}", err=True)
        return False
    return True


def _interspersed(words: Sequence[str], syntax: Syntax) -> tuple[list[tuple[str, str]], list[str]]:
    """Parse words in which options may also come after others. Raises ValueError."""
    options: list[tuple[str, str]] = []
    others: list[str] = []
    rest = list(words)
    while rest:
        found, rest = parse(rest, syntax)
        options += found
        if rest:
            others.append(rest.pop(0))
    return options, [each for word in others for each in re.split(r"\s+", word) if each]
