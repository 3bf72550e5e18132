"""Commands `ls`, `show`, `logs` and `prio`."""

from __future__ import annotations

import json

import click

from schedulearn.api.cli.common import (
    INTERRUPTED,
    Cell,
    CliSession,
    Command,
    clean,
    console,
    key_and_value,
    pass_session,
    print_json,
    print_table,
    rich_cell,
    state_cell,
)
from schedulearn.api.cli.follow import follow, write_log
from schedulearn.api.cli.job_files.writing import as_yaml
from schedulearn.api.cli.times import ends, expected, job_time, show_seconds, show_time, since_option, starts
from schedulearn.api.client.client import Job, Json
from schedulearn.scheduler.core.states import TERMINAL, UNFINISHED, JobState

_SHOWN = 100
JOB_HEADERS = ("ID", "NAME", "STATE", "GPUS", "PRIO", "TIME", "STARTS", "ENDS", "WHY")


@click.command(cls=Command)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([s.value for s in JobState]),
    help="Only jobs in this state. Repeatable.",
)
@click.option("--all", "everything", is_flag=True, help="Also all finished jobs.")
@since_option("Also jobs that finished since then: 2h, 2026-12-24.")
@click.option("--user", help="Only jobs of this user.")
@click.option("--mine", is_flag=True, help="Only your own jobs.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only jobs with this label.")
@click.option("--sweep", metavar="ID", help="Only runs of this sweep.")
@click.option("--schedule", metavar="ID", help="Only runs of this schedule.")
@click.option("-q", "text", metavar="TEXT", help="Only jobs with this text in the name or ID.")
@click.option(
    "-n", "--limit", type=click.IntRange(1), help="Maximum number.  [default: 100; none with --all or --since]"
)
@pass_session
def ls(
    session: CliSession,
    states: tuple[str, ...],
    everything: bool,
    since: str | None,
    user: str | None,
    mine: bool,
    labels: tuple[str, ...],
    sweep: str | None,
    schedule: str | None,
    text: str | None,
    limit: int | None,
) -> None:
    """List jobs, newest first, with the reason for their state.

    Finished jobs are shown only with --all, --since or --state.

    \b
    Examples:
      schedulearn ls --mine
      schedulearn ls --state running --state queued
      schedulearn ls --label sweep=lr --user ada
      schedulearn ls --since 8h --limit 20
      schedulearn ls --all --json
    """
    if mine and user is not None:
        raise click.UsageError("give --mine or --user, not both")
    user = session.user() if mine else user
    ended_too = everything or since is not None
    page = session.client.all_jobs(
        states or (() if ended_too else UNFINISHED),
        user=user,
        q=text,
        labels=dict(key_and_value(label, "--label") for label in labels),
        sweep=sweep,
        schedule=schedule,
        ended_since=since,
        limit=limit or (None if ended_too else _SHOWN),
    )
    if session.as_json:
        print_json(page)
        return
    print_table(session, JOB_HEADERS, [job_row(job) for job in page["items"]])
    hidden = 0 if states or ended_too else sum(page["counts"].get(state, 0) for state in TERMINAL)
    if session.pretty and (page["next"] or hidden):
        more = [f"{hidden} finished: --all"] if hidden else []
        more += ["there are more: --limit"] if page["next"] else []
        click.secho("; ".join(more), dim=True)


def job_row(job: Json) -> list[Cell]:
    held = sum(job["allocation"].values())
    where = ",".join(job["allocation"])
    gpus = f"{held} on {where}" if where else f"{job['required_gpus']}"
    why = Job(job).why or job["reason"]
    return [
        job["id"],
        job["name"],
        state_cell(job),
        gpus,
        str(job["priority"]),
        job_time(job),
        starts(job),
        ends(job),
        (why, "dim"),
    ]


@click.command(cls=Command)
@click.option("--spec", "as_spec", is_flag=True, help="Print a job file to edit and submit: YAML, or JSON with --json.")
@click.argument("job")
@pass_session
def show(session: CliSession, as_spec: bool, job: str) -> None:
    """Show a job: its keys, attempts and latest events.

    \b
    Examples:
      schedulearn show last
      schedulearn show 0abc --json
      schedulearn show --spec 0abc > job.yaml     # then: schedulearn submit job.yaml
    """
    if as_spec:
        spec = session.client.spec(session.job_id(job))
        print_json(spec) if session.as_json else click.echo(as_yaml(spec), nl=False)
        return
    detail = session.client.job(session.job_id(job))
    if session.as_json:
        print_json(detail)
        return
    facts = _facts(detail)
    width = max(len(name) for name, _ in facts)
    screen = console() if session.pretty else None
    for name, cell in facts:
        if screen is not None:
            screen.print(rich_cell((name.ljust(width + 2), "bold")), rich_cell(cell), sep="", soft_wrap=True)
        else:
            click.echo(f"{name.ljust(width)}  {clean(cell if isinstance(cell, str) else cell[0])}".rstrip())
    if detail["tasks"]:
        click.echo()
        rows: list[list[Cell]] = [
            [
                str(task["attempt"]),
                task["host"],
                str(len(task["gpu_uuids"])),
                task["outcome"] or task["state"],
                "-" if task["exit_code"] is None else str(task["exit_code"]),
                show_time(task["started_at"]),
                show_time(task["finished_at"]),
                task["error"],
            ]
            for task in detail["tasks"]
        ]
        print_table(session, ("ATTEMPT", "HOST", "GPUS", "STATE", "EXIT", "STARTED", "FINISHED", "ERROR"), rows)
    if events := _last_events(session, detail["id"]):
        click.echo()
        print_table(session, ("AT", "WHAT", ""), [[show_time(e["at"]), e["kind"], e["message"]] for e in events])


def _interrupted(job: Json) -> str:
    if not job["interruptions"]:
        return ""
    times = "once" if job["interruptions"] == 1 else f"{job['interruptions']} times"
    repeated = job["repeated_seconds"]
    return f"{times}, {show_seconds(repeated)} of run time repeated" if repeated else times


def _last_events(session: CliSession, job_id: str) -> list[Json]:
    events: list[Json] = []
    while page := session.client.job_events(job_id, after=events[-1]["id"] if events else 0, limit=1000)["items"]:
        events = [*events, *page][-10:]
        if len(page) < 1000:
            break
    return events


def _facts(job: Json) -> list[tuple[str, Cell]]:
    bounds = ", preemptible" if job.get("preemptible") else ""
    if job["elastic"]:
        bounds = f", {job['min_gpus']} to {job['max_gpus']}, elastic"
    gpus = ", ".join(f"{gpu['host']}:{gpu['index']}" for gpu in job["gpus"])
    facts: list[tuple[str, Cell]] = [
        ("id", job["id"]),
        ("name", job["name"]),
        ("state", state_cell(job)),
        ("why", f"{Job(job).told} ({job['reason']})"),
        ("its log says", (job["failure"] or {}).get("line", "")),
        ("next step", (job["failure"] or {}).get("step", "")),
        ("exit code", "" if job["exit_code"] is None else str(job["exit_code"])),
        ("description", job["description"] or ""),
        ("image", job["container_image"]),
        ("ran", next((task["image"] for task in reversed(job["tasks"]) if task["image"]), "")),
        ("command", job["command"]),
        ("code", _code(job["code"])),
        ("packages", ", ".join(job["requirements"] or ())),
        ("setup", job["setup"] or ""),
        ("launcher", job["launcher"]),
        ("type", job["type"]),
        ("user", job["user"]),
        ("GPUs", f"{job['required_gpus']} asked for{bounds}"),
        ("GPU types", job["gpu_type"] or ""),
        ("GPU memory", f"at least {job['gpu_memory_min'] / (1 << 30):g} GiB each" if job["gpu_memory_min"] else ""),
        ("hosts", ", ".join(job["hosts"])),
        ("not on", ", ".join(job["exclude_hosts"])),
        ("exclusive", "no other job runs on its hosts" if job["exclusive"] else ""),
        ("holds", gpus),
        ("priority", str(job["priority"])),
        ("attempt", f"{job['attempt']}, {job['retries']} of {job['max_restarts']} restarts used"),
        ("run page", " ".join(job["run_pages"])),
        ("interrupted", _interrupted(job)),
        ("time limit", show_seconds(job["max_duration"]) if job["max_duration"] else ""),
        ("earliest start", show_time(job["start_after"]) if job["start_after"] else ""),
        ("deadline", f"{show_time(job['deadline'])}{_LATE.get(job['late'], '')}" if job["deadline"] else ""),
        *((key.replace("_", " "), str(job[key] or "")) for key in ("batch_size", "max_batch_size", "epochs")),
        ("shared memory", f"{job['shm_size'] / (1 << 20):.0f} MiB"),
        ("processors", "" if job["cpus"] is None else f"{job['cpus']:g} at most"),
        ("memory", "" if job["memory"] is None else f"{job['memory'] / (1 << 30):.1f} GiB at most"),
        ("data sets", ", ".join(f"{name} at {path}" for name, path in job["mounts"].items())),
        ("data", ", ".join(f"{name} at {path}" for name, path in job["data"].items())),
        ("keeps", ", ".join(f"{path or 'all outputs'} as {name}" for name, path in job["keep"].items())),
        ("after", _after(job["after"])),
        ("sweep", job["sweep"] or ""),
        ("schedule", job["schedule"] or ""),
        ("submitted", show_time(job["submitted_at"])),
        ("started", show_time(job["started_at"])),
        ("finished", show_time(job["finished_at"])),
        ("expected", expected(job["eta"])),
        ("progress", _progress(job)),
        ("GPU time", show_seconds(job["gpu_seconds"])),
    ]
    facts += [("env", f"{name}={value}") for name, value in job["env"].items()]
    facts += [("label", f"{name}={value}") for name, value in job["labels"].items()]
    return [(name, cell) for name, cell in facts if cell]


_LATE = {"no": ", in time", "expected": ", expected to be late", "yes": ", late"}


def _progress(job: Json) -> str:
    if job["progress"] is None:
        return ""
    return f"{job['progress']:.0%}{', read from the log' if job['progress_from'] == 'log' else ''}"


def _code(code: Json | None) -> str:
    if code is None:
        return ""
    of = [code[key] for key in ("git", "ref") if code[key]]
    of += [f"commit {code['commit'][:12]}" + ", changed since" * bool(code["dirty"])] if code["commit"] else []
    return f"{code['digest'][:19]} ({' '.join(of)})" if of else code["digest"][:19]


def _after(after: Json | None) -> str:
    """Return the jobs that must end before a job may start, as text."""
    return f"{', '.join(after['jobs'])} ({after['when']})" if after is not None else ""


@click.command(cls=Command)
@click.option(
    "-f", "--follow", "following", is_flag=True, help="Follow the log until the job ends; exit with its exit code."
)
@click.option("-t", "--timestamps", is_flag=True, help="Begin each line with its time in UTC, or - if it is unknown.")
@click.argument("job")
@pass_session
def logs(session: CliSession, following: bool, timestamps: bool, job: str) -> int:
    """Print the log of a job, of all its attempts.

    -f follows the log, also over restarts of the service, and ends with the job's exit code. With --json each line is
    an object: {"offset": ..., "text": ..., "attempt": ..., "rank": ..., "times": ...}.

    \b
    Examples:
      schedulearn logs last
      schedulearn logs -f 0abc | tee train.log
      schedulearn logs -t last | grep loss
    """
    job_id = session.job_id(job)
    if following:
        try:
            return follow(session, session.client.job(job_id), quiet=True, timestamps=timestamps)
        except KeyboardInterrupt:
            return INTERRUPTED
    if session.as_json:
        if timestamps:
            raise click.UsageError("--timestamps is for text. With --json -f each piece has its times.")
        text = "".join(session.client.logs(job_id))
        click.echo(json.dumps({"offset": len(text.encode("utf-8", "surrogatepass")), "text": text}))
        return 0
    for piece in session.client.logs(job_id, timestamps=timestamps):
        write_log(piece)
    return 0


@click.command(cls=Command)
@click.argument("job")
@click.argument("priority", type=click.IntRange(0, 100))
@pass_session
def prio(session: CliSession, job: str, priority: int) -> None:
    """Change a job's priority: 0 to 100, default 50.

    Jobs with a higher priority come first.

    \b
    Example:
      schedulearn prio last 80
    """
    changed = session.client.set_priority(session.job_id(job), priority)
    if session.as_json:
        print_json(changed)
    else:
        click.echo(f"{changed['id']} has priority {changed['priority']}")
