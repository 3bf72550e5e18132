"""Commands `submit` and `run`.

`submit` takes jobs from flags or from a file; `run` also sends the code of a folder.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any

import click

from schedulearn.api.cli.common import (
    INTERRUPTED,
    CliSession,
    Command,
    clean,
    exit_code,
    key_and_value,
    pass_session,
    print_json,
    whoami,
)
from schedulearn.api.cli.follow import follow
from schedulearn.api.cli.job_files.reading import LARGEST, read_jobs
from schedulearn.api.cli.times import Parsed, parse_instant, parse_seconds, parse_start, show_time
from schedulearn.api.client.client import Job, Json
from schedulearn.scheduler.core.planning.job_family import family_of

if TYPE_CHECKING:
    from schedulearn.api.client.code import CodeListing

NO_KEYS = ("file", "env_from", "refuse_late", "as_found", "every", "time_zone", "overlap")
"""Parameters of `submit` that are not keys of a job. Commands that reuse its options leave them out."""
_WORDS = "schedulearn.submit.words"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TOLD = 5
"""Maximum files reported one by one as left out."""


class WordsCommand(Command):
    """Command whose words after `--` are kept apart, so that a file before them can't be mistaken for one of them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta[_WORDS] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)


def given_words(context: click.Context) -> tuple[str, ...]:
    """Return the words after `--`."""
    return tuple(context.meta.get(_WORDS, ()))


class SubmitCommand(WordsCommand):
    """Command whose words after `--` are the job's command."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "[FILE | -- COMMAND...]"]


class _JobFile(click.File):
    """File with jobs. For a program in its place, the error says that `--` is missing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        how = "a command goes after `--`: schedulearn submit [OPTIONS] -- python train.py"
        if str(value).endswith((".py", ".sh")):
            self.fail(f"{clean(str(value))!r} is not a job file; {how}", param, ctx)
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(f"{clean(error.message)}; {how}", param, ctx)


@click.command(cls=SubmitCommand)
@click.argument("file", required=False, type=_JobFile("r", encoding="utf-8"))
@click.option("-d", "--detach", is_flag=True, help="Don't follow the job: print its ID and exit.")
@click.option("--env-from", metavar="JOB", help="Equal job to take masked environment values from.")
@click.option("--refuse-late", is_flag=True, help="Don't submit a job that is expected to miss its deadline.")
@click.option("--as-found", is_flag=True, help="Use the GPUs and batch size of the newest search for its family.")
@click.option("--every", metavar="CRON", help='Submit it again and again, as in "0 3 * * *". See `schedule`.')
@click.option("--time-zone", metavar="NAME", help="With --every: as in Europe/Berlin.  [default: the service's]")
@click.option(
    "--overlap",
    type=click.Choice(["skip", "queue"]),
    help="With --every: if the previous run has not ended.  [default: skip]",
)
@click.option("--name", help="Name of the job.  [default: from the command]")
@click.option("--type", "type_", metavar="TEXT", help="Framework, for display and filters.  [default: Pytorch]")
@click.option("--description", metavar="TEXT", help="Description of the job.")
@click.option("--image", "container_image", metavar="IMAGE", help="Container image.  [default: the service's]")
@click.option(
    "--pull",
    type=click.Choice(["missing", "always"]),
    help="always: pull an existing image again, in case its tag was moved.  [default: missing]",
)
@click.option("--command", metavar="LINE", help="Command as one line, instead of words after `--`.")
@click.option(
    "--gpus",
    "required_gpus",
    type=int,
    metavar="N",
    help="Number of GPUs; for an elastic job, at the start.  [default: 1]",
)
@click.option("--gpu-type", metavar="TYPES", help="Types of the GPUs by words, as a100,h100.  [default: any]")
@click.option("--gpu-memory-min", metavar="SIZE", help="Minimum memory of each GPU, e.g. 24g.  [default: any]")
@click.option("--hosts", metavar="WHERE", help="Hosts by name or label, as gpu1,gpu2 or room=b2.  [default: any]")
@click.option("--exclude-hosts", metavar="WHERE", help="Hosts where it does not run, by name or label.")
@click.option(
    "--exclusive", is_flag=True, default=None, help="It runs only on hosts where no other job runs, if not elastic."
)
@click.option("--elastic", is_flag=True, help="It may be stopped and resumed with another number of GPUs.")
@click.option(
    "--preemptible", is_flag=True, default=None, help="Jobs of higher priority may stop it. It then starts again."
)
@click.option("--min-gpus", type=int, metavar="N", help="Minimum GPUs, if elastic.")
@click.option("--max-gpus", type=int, metavar="N", help="Maximum GPUs, if elastic.")
@click.option(
    "--resize", type=click.Choice(["restart", "in-place"]), help="Way of resizing, if elastic.  [default: restart]"
)
@click.option(
    "--batch-size", type=int, metavar="N", help="Batch size of all workers together.  [default: the script's]"
)
@click.option("--max-batch-size", type=int, metavar="N", help="Maximum batch size.  [default: the script's]")
@click.option("--epochs", type=int, metavar="N", help="Number of epochs.  [default: the script's]")
@click.option("--family", metavar="TEXT", help="Jobs of a family share predictions.  [default: image and command]")
@click.option("--priority", type=int, metavar="N", help="Priority, 0 to 100; higher first.  [default: 50]")
@click.option("--weight", type=float, metavar="N", help="Weight against other jobs.  [default: 1]")
@click.option(
    "--metric", metavar="NAME", help="Objective of this job: default, speed or cost.  [default: the policy's]"
)
@click.option(
    "--deadline", type=Parsed(parse_instant), metavar="WHEN", help="Time by which it should end, or 2h from now."
)
@click.option(
    "--start-after",
    type=Parsed(parse_start),
    metavar="WHEN",
    help="Earliest start: 18:00, a time with a date, or 2h from now.",
)
@click.option("--hold", is_flag=True, default=None, help="Submit it held: it starts after `release`.")
@click.option(
    "--grace-period",
    type=Parsed(parse_seconds),
    metavar="TIME",
    help="Time for a checkpoint before SIGKILL.  [default: 10s, elastic 60s]",
)
@click.option(
    "--max-duration", type=Parsed(parse_seconds), metavar="TIME", help="Maximum run time: seconds, 30m, 2h, 1d."
)
@click.option("--max-restarts", type=int, metavar="N", help="Maximum retries after failures.  [default: 0]")
@click.option("--on-hang", metavar="WHAT", help="warn, restart or end if it seems to hang.  [default: the service's]")
@click.option("--launcher", metavar="NAME", help="Launcher: horovod, torchrun or none.  [default: horovod]")
@click.option(
    "--env",
    "env",
    multiple=True,
    metavar="KEY[=VALUE]",
    help="Environment variable; without a value, this shell's. Repeatable.",
)
@click.option(
    "--secret", "secrets", multiple=True, metavar="KEY=NAME", help="Variable with the value of a secret. Repeatable."
)
@click.option("--shm-size", metavar="SIZE", help="Shared memory, e.g. 8g.  [default: 4g per GPU]")
@click.option("--cpus", type=float, metavar="N", help="Maximum processors.  [default: no limit]")
@click.option("--memory", metavar="SIZE", help="Maximum memory, e.g. 64g.  [default: its share by GPUs]")
@click.option(
    "--gpu-memory", metavar="SIZE", help="Memory of each GPU, if jobs share GPUs.  [default: as used by its family]"
)
@click.option(
    "--mount",
    "mounts",
    multiple=True,
    metavar="NAME[=PATH]",
    help="Mount that the operator declared.  [default path: /data/NAME]",
)
@click.option(
    "--data",
    multiple=True,
    metavar="NAME[@V][=PATH]",
    help="Data set or model. Repeatable.  [default path: /data/NAME]",
)
@click.option(
    "--keep", multiple=True, metavar="NAME=PATH", help="Output to publish as data set or model NAME. Repeatable."
)
@click.option("--port", "ports", multiple=True, metavar="NAME=PORT", help="Named port that `open` shows. Repeatable.")
@click.option(
    "--idle-timeout",
    type=Parsed(parse_seconds),
    metavar="TIME",
    help="End the job after this time without connections.",
)
@click.option("--code", metavar="WHERE", help="Working directory: a folder, a digest, or https://...[@REF] for git.")
@click.option("--requirements", metavar="FILE", help="File in the code that lists Python packages to install.")
@click.option("--setup", metavar="LINE", help="Command that runs first, once per container.")
@click.option("--after", "after", multiple=True, metavar="JOB", help="Start after this job has succeeded. Repeatable.")
@click.option("--after-any", is_flag=True, help="With --after: start after their end, even if they fail.")
@click.option(
    "--log-metrics",
    metavar="NAMES",
    help="Metrics to read from its log, as loss,my_score, or `no`.  [default: the usual ones]",
)
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label for filters and reports. Repeatable."
)
@click.option(
    "--notify",
    multiple=True,
    metavar="WHO",
    help="Send notices to `me` (all your addresses), the name of one, or an e-mail address. Repeatable.",
)
@click.option(
    "--notify-on",
    multiple=True,
    metavar="EVENT",
    help="With --notify: end, failure, hang, start or preemption. Repeatable.  [default: of the address]",
)
@click.option("--user", help="User who is charged.  [default: you]")
@click.pass_context
@pass_session
def submit(
    session: CliSession,
    context: click.Context,
    /,
    file: IO[str] | None,
    detach: bool,
    env_from: str | None,
    refuse_late: bool,
    as_found: bool,
    every: str | None,
    time_zone: str | None,
    overlap: str | None,
    env: tuple[str, ...],
    mounts: tuple[str, ...],
    labels: tuple[str, ...],
    secrets: tuple[str, ...],
    elastic: bool,
    **flags: Any,
) -> int:
    """Submit a job and follow it.

    It prints the log and ends with the job's exit code. Ctrl-C leaves the job running.

    FILE holds one job as YAML or JSON, or a list of jobs (all or none, not followed). `-` is stdin. All keys of POST
    /jobs are allowed; options override them. --json prints the finished job (with -d: the stored one).

    \b
    Examples:
      schedulearn submit --image schedulearn/pytorch --gpus 2 -- python train.py --lr 0.1
      schedulearn submit -d --name sweep-1 --priority 80 --env LR=0.1 job.yaml
      generate-jobs | schedulearn submit -
    """
    recurs = recurrence(every, time_zone, overlap, single=env_from is not None or refuse_late)
    given = given_keys(context, flags, mounts, elastic)
    if secrets:
        given["secrets"] = dict(key_and_value(secret, "--secret") for secret in secrets)
    given_env, given_labels = given_pairs(env, labels)
    if file is None and "command" not in given:
        raise click.UsageError(
            "give a YAML or JSON file, or a command after `--`: schedulearn submit -- python train.py"
        )
    if file is None and "container_image" not in given:
        given["container_image"] = session.client.code_limits()["default_image"]
    if "code" in given:
        given["code"] = code_of(session, given["code"])
    read = _read(file) if file is not None else {}
    jobs = [complete(job, given, given_env, given_labels) for job in (read if isinstance(read, list) else [read])]
    if as_found:
        jobs = [as_it_was_found(session, job) for job in jobs]
    if jobs:
        _hint_at_run(jobs[0])
    if recurs is not None:
        if isinstance(read, list):
            raise click.UsageError("--every works for one job, not for a list")
        return schedule(session, jobs[0], recurs)
    if isinstance(read, list):
        if env_from is not None:
            raise click.UsageError("--env-from works for one job, not for a list")
        if refuse_late:
            raise click.UsageError("--refuse-late works for one job, not for a list")
        return _submit_many(session, jobs)
    return send(session, jobs[0], detach, None if env_from is None else session.job_id(env_from), refuse_late)


def given_keys(context: click.Context, flags: Json, mounts: tuple[str, ...], elastic: bool) -> Json:
    """Return the keys of a job that the flags set."""
    after = _after(context.ensure_object(CliSession), flags.pop("after"), flags.pop("after_any"))
    data, keep, ports = flags.pop("data"), flags.pop("keep"), flags.pop("ports")
    noticed = {key: list(flags.pop(key)) for key in ("notify", "notify_on")}
    given = {key.removesuffix("_"): value for key, value in flags.items() if value is not None} | after
    given |= {key: values for key, values in noticed.items() if values}
    if "log_metrics" in given:
        names = [name.strip() for name in given["log_metrics"].split(",") if name.strip()]
        given["log_metrics"] = names if names and names != ["no"] else False
    if data:
        parts = [each.partition("=") for each in data]
        given["data"] = {name: path or f"/data/{name.partition('@')[0]}" for name, _, path in parts}
    if ports:
        given["ports"] = {name: _port(port) for name, port in (key_and_value(each, "--port") for each in ports)}
    if keep:
        given["keep"] = dict(key_and_value(each, "--keep") for each in keep)
    if elastic:
        given["elastic"] = True
    if mounts:
        parts = [mount.partition("=") for mount in mounts]
        given["mounts"] = {name: path or f"/data/{name}" for name, _, path in parts}
    if words := given_words(context):
        if "command" in given:
            raise click.UsageError("give the command after `--` or with --command, not both")
        given["command"] = words[0] if len(words) == 1 else shlex.join(words)
    return given


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise click.UsageError(f"--port: {text!r} is not a port number: write NAME=8888")
    return int(text)


def given_pairs(env: tuple[str, ...], labels: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    return dict(map(_variable, env)), dict(key_and_value(label, "--label") for label in labels)


def send(session: CliSession, spec: Json, detach: bool, env_from: str | None = None, refuse_late: bool = False) -> int:
    """Submit one job and follow it, or print its ID."""
    return submitted(session, session.client.submit(spec, env_from=env_from, refuse_late=refuse_late), detach)


def recurrence(every: str | None, time_zone: str | None, overlap: str | None, *, single: bool) -> Json | None:
    """Return when a job recurs; None: it runs once. `single`: whether options for one run are given."""
    given = {"time_zone": time_zone, "overlap": overlap}
    if every is None:
        if any(given.values()):
            raise click.UsageError("--time-zone and --overlap need --every")
        return None
    if single:
        raise click.UsageError("--every does not go with --env-from or --refuse-late, which are about one run")
    return {"every": every, **{name: value for name, value in given.items() if value is not None}}


def schedule(session: CliSession, job: Json, recurs: Json) -> int:
    """Create a schedule for a job, and report its next time."""
    made = session.client.create_schedule(job, **recurs)
    if session.as_json:
        print_json(made)
    elif session.pretty:
        click.echo(
            f"Schedule {made['id']} ({clean(made['name'])}) runs next at {show_time(made['next_at'])}. "
            f"To end it: schedulearn schedule rm {made['id']}"
        )
    else:
        click.echo(made["id"])
    return 0


def submitted(session: CliSession, job: Job, detach: bool) -> int:
    """Follow a job just submitted, or print its ID with `detach`. Return the exit code of the command line."""
    if detach:
        if session.as_json:
            print_json(job)
        else:
            click.echo(f"Submitted {job.id} ({clean(job.name)})" if session.pretty else job.id)
            _warn(job)
        return 0
    try:
        if session.as_json:
            job = session.client.wait(job)
            print_json(job)
            return exit_code(job)
        return follow(session, job, quiet=False)
    except KeyboardInterrupt:
        click.echo(
            f"\nJob {job.id} continues. To follow it: schedulearn logs -f {job.id}; "
            f"to end it: schedulearn cancel {job.id}",
            err=True,
        )
        return INTERRUPTED


def _warn(job: Json) -> None:
    """Print the rest of the message of a submitted job, for example that its deadline has passed."""
    if more := str(job["message"]).removeprefix("Submitted.").strip():
        click.echo(f"schedulearn: job {job['id']}: {clean(more)}", err=True)


def _after(session: CliSession, jobs: tuple[str, ...], whatever: bool) -> Json:
    """Return the key `after`, if jobs are given. Raises click.UsageError."""
    if whatever and not jobs:
        raise click.UsageError("--after-any needs --after")
    when = "any" if whatever else "ok"
    return {"after": {"jobs": [session.job_id(job) for job in jobs], "when": when}} if jobs else {}


def _submit_many(session: CliSession, jobs: list[Json]) -> int:
    answer = session.client.submit_batch(jobs)
    if session.as_json:
        print_json(answer)
    else:
        for job in answer["items"]:
            click.echo(job["id"])
            _warn(job)
    return 0


def _read(file: IO[str]) -> Json | list[Json]:
    try:
        found = read_jobs(file.read(LARGEST + 1), file.name)
    except ValueError as error:
        raise click.BadParameter(clean(str(error)), param_hint="FILE") from error
    if isinstance(found, dict) and isinstance(found.get("job"), dict):
        raise click.BadParameter(f"it is a sweep: schedulearn sweep start {clean(file.name)}", param_hint="FILE")
    return found


def complete(job: Json, given: Json, env: dict[str, str], labels: dict[str, str]) -> Json:
    """Return the job to send: the file's keys, overridden by flags, with defaults for missing keys."""
    job = {**job, **given}
    for key, added in (("env", env), ("labels", labels)):
        if added:
            old = job.get(key)
            job[key] = {**(old if isinstance(old, dict) else {}), **added}
    if isinstance(job.get("command"), str):
        job.setdefault("name", _name(job["command"]))
        job.setdefault("type", "Pytorch")
        job.setdefault("required_gpus", 1)
    if "user" not in job and (user := whoami()):
        job["user"] = user
    return job


def as_it_was_found(session: CliSession, job: Json) -> Json:
    """Return the job with the configuration that a search found for its family.

    It is rigid, as the jobs of the search were."""
    family = job.get("family") or family_of(str(job.get("container_image", "")), str(job.get("command", "")))
    found = session.client.found_for(family)
    kept = {key: value for key, value in job.items() if key not in ("elastic", "min_gpus", "max_gpus", "resize")}
    command = str(kept.get("command", "")).replace("{batch_size}", str(found["batch_size"]))
    batch = {} if found["batch_size"] is None else {"batch_size": found["batch_size"], "command": command}
    sized = {key: found[key] for key in ("gpu_type", "required_gpus") if found[key] is not None}
    return {**kept, **sized, **batch}


def _name(command: str) -> str:
    """Return the name of a command's script, else of its program."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    return PurePath((scripts or words or ["job"])[0]).name[:200] or "job"


def _hint_at_run(job: Json) -> None:
    """Print a hint if the command names a file that is only in this folder."""
    command = job.get("command")
    if job.get("code") is not None or not isinstance(command, str):
        return
    if here := _files_here(command):
        _tell(
            f"{here} is in this folder, and `submit` sends no files: the image must have it, or use `schedulearn run`, "
            "which sends the folder"
        )


def _files_here(command: str) -> str:
    """Return the first file or Python module of this folder that a command names; empty if there is none."""
    words = [word for word in re.split(r"[\s=;&|<>()'\"]+", command) if word]
    for before, word in zip(["", *words], words, strict=False):
        paths = [word]
        if before == "-m":
            module = word.replace(".", "/")
            paths = [f"{module}.py", f"{module}/__main__.py"]
        for path in paths:
            if not PurePath(path).is_absolute() and _is_file(path):
                return path
    return ""


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # too long, or a null byte in it
        return False


def _variable(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if equals:
        return name, value
    if name not in os.environ:
        raise click.BadParameter(f"{clean(name)} is not set in this shell", param_hint="--env")
    return name, os.environ[name]


def code_of(session: CliSession, where: str) -> Json:
    """Return the key `code`. Send a folder, unless the service has it, and report that on stderr."""
    if _DIGEST.fullmatch(where):
        return {"digest": where}
    if where.startswith(("https://", "http://")):
        scheme, _, rest = where.partition("://")
        server, slash, path = rest.partition("/")
        path, at, ref = path.partition("@")  # the service refuses a user before the server
        return {"git": f"{scheme}://{server}{slash}{path}", **({"ref": ref} if at else {})}
    return _send_folder(session, Path(where))


def _send_folder(session: CliSession, folder: Path) -> Json:
    from schedulearn.api.client.code import packed_code
    from schedulearn.scheduler.code.archive import show_bytes

    limits = session.client.code_limits()
    with packed_code(folder, limits["max_bytes"], limits["max_files"]) as code:
        digest = code.written.digest
        _tell_left_out(code.found)
        what = f"{code.files} file{'s' * (code.files != 1)}, {show_bytes(code.written.bytes)}, {digest[:19]}"
        if session.client.has_code(digest):
            _tell(f"the service has this code: {what}")
        else:
            _tell(f"sending {folder.resolve()}: {what}")
            session.client.send_code(code.file, digest)
        return {"digest": digest, "commit": code.commit, "dirty": code.dirty}


def _tell_left_out(found: CodeListing) -> None:
    if found.note:
        _tell(f"{found.note}: the .gitignore files in the folder say what is sent")
    for left in found.left_out[:_TOLD]:
        _tell(f"left out {left}")
    if len(found.left_out) > _TOLD:
        _tell(f"left out {len(found.left_out) - _TOLD} more of that kind")
    if found.ignored:
        first = ", ".join(found.ignored[:_TOLD]) + (", ..." if len(found.ignored) > _TOLD else "")
        count = len(found.ignored)
        _tell(f"left out {count} ignored file{'s' * (count != 1)} or folder{'s' * (count != 1)}: {first}")


def _tell(sentence: str) -> None:
    click.secho(f"schedulearn: {clean(sentence)}", err=True, dim=True)


class _Run(Command):
    """Command whose first word that is not an option begins the job's command, with or without `--`."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "[--] COMMAND..."]


def _params() -> Iterator[click.Parameter]:
    """Return the parameters of `submit`, without its file and the shared options."""
    shared = {param.name for param in Command("any").params}
    return (param for param in submit.params if param.name not in {"file", *shared})


@click.command(cls=_Run, params=list(_params()), context_settings={"allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
@pass_session
def run(
    session: CliSession,
    context: click.Context,
    /,
    words: tuple[str, ...],
    detach: bool,
    env_from: str | None,
    refuse_late: bool,
    as_found: bool,
    every: str | None,
    time_zone: str | None,
    overlap: str | None,
    env: tuple[str, ...],
    mounts: tuple[str, ...],
    labels: tuple[str, ...],
    secrets: tuple[str, ...],
    elastic: bool,
    **flags: Any,
) -> int:
    """Run a command in this folder on the cluster.

    It is followed as by `submit`. The folder's files are sent, and are the working directory in every container of the
    job. Files that `.schedulearnignore` matches are not sent; without this file, those that git ignores. Identical
    files are sent and stored once.

    All options of `submit` are allowed. By default, the service chooses the image, and a job with one GPU has no
    launcher.

    \b
    Examples:
      schedulearn run python train.py
      schedulearn run --gpus 2 --name bigger -- python train.py --lr 0.1
      schedulearn run --code https://github.com/ada/nets.git@v2 -- python train.py
    """
    context.meta[_WORDS] = words
    recurs = recurrence(every, time_zone, overlap, single=env_from is not None or refuse_late)
    given = given_keys(context, flags, mounts, elastic)
    if "command" not in given:
        raise click.UsageError("name a command: schedulearn run -- python train.py")
    if "/" not in (word := words[0] if words else "") and _is_file(word):
        _tell(f"{word} is a file here, not a program on PATH: write `python {word}` or `./{word}`")
    if "container_image" not in given:
        given["container_image"] = session.client.code_limits()["default_image"]
    if "launcher" not in given and not elastic and given.get("required_gpus", 1) <= 1:
        given["launcher"] = "none"
    if secrets:
        given["secrets"] = dict(key_and_value(secret, "--secret") for secret in secrets)
    given["code"] = code_of(session, given.get("code", "."))
    job = complete({}, given, *given_pairs(env, labels))
    if as_found:
        job = as_it_was_found(session, job)
    if recurs is not None:
        return schedule(session, job, recurs)
    return send(session, job, detach, None if env_from is None else session.job_id(env_from), refuse_late)
