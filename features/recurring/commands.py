"""Command group `schedule`."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import Cell, CliSession, Group, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import show_time
from schedulearn.api.client.client import Json


@click.group(cls=Group)
def schedule() -> None:
    """Manage recurring jobs.

    `run` and `submit` create them: schedulearn run --every "0 3 * * *" python train.py"""


@schedule.command("ls")
@click.option("--user", help="Only schedules of this user.")
@pass_session
def list_schedules(session: CliSession, /, user: str | None) -> None:
    """List schedules, newest first.

    \b
    Example:
      schedulearn schedule ls --user ada
    """
    page = session.client.schedules(user=user)
    if session.as_json:
        print_json(page)
        return
    header = ("ID", "NAME", "USER", "EVERY", "TIME ZONE", "NEXT", "LAST JOB", "RUNS", "MISSED", "STATE")
    print_table(session, header, [_row(each) for each in page["items"]])
    if session.pretty and page["next"]:
        click.secho("there are more: --json and the API's `cursor`", dim=True)


def _row(found: Json) -> list[Cell]:
    return [
        found["id"],
        found["name"],
        found["user"],
        found["every"],
        found["time_zone"],
        show_time(found["next_at"]) if found["next_at"] else "-",
        found["last_job"] or "-",
        str(found["runs"]),
        str(found["missed"]),
        _state(found),
    ]


def _state(found: Json) -> Cell:
    if found["paused_at"]:
        return f"paused: {found['message']}" if found["message"] != "Paused." else "paused", "yellow"
    return (found["message"], "yellow") if found["message"] else ("active", "green")


@schedule.command("show")
@click.argument("schedule_id", metavar="SCHEDULE")
@pass_session
def show(session: CliSession, /, schedule_id: str) -> None:
    """Show a schedule: its job, its next times, and why a run was missed.

    \b
    Example:
      schedulearn schedule show 0abcdefghj
    """
    found = session.client.schedule(schedule_id)
    if session.as_json:
        print_json(found)
        return
    click.echo(f"{found['id']} {clean(found['name'])}: {found['every']} in {found['time_zone']}")
    state = _state(found)
    facts = [
        ("state", state if isinstance(state, str) else state[0]),
        ("user", found["user"]),
        ("if the previous run has not ended", found["overlap"]),
        ("next", ", ".join(map(show_time, found["times"])) or "-"),
        ("runs", f"{found['runs']}, {found['missed']} missed"),
        ("last job", found["last_job"] or "-"),
        ("command", str(found["job"].get("command", ""))),
    ]
    for name, value in facts:
        click.echo(f"  {name}: {clean(value)}")
    click.echo(f"  its jobs: schedulearn ls --all --schedule {found['id']}")


@schedule.command("pause")
@click.argument("schedule_id", metavar="SCHEDULE")
@pass_session
def pause(session: CliSession, /, schedule_id: str) -> None:
    """Submit no further runs. Its jobs go on.

    \b
    Example:
      schedulearn schedule pause 0abcdefghj
    """
    _tell(session, session.client.pause_schedule(schedule_id))


@schedule.command("resume")
@click.argument("schedule_id", metavar="SCHEDULE")
@pass_session
def resume(session: CliSession, /, schedule_id: str) -> None:
    """Submit runs again, from the next time on.

    \b
    Example:
      schedulearn schedule resume 0abcdefghj
    """
    _tell(session, session.client.resume_schedule(schedule_id))


def _tell(session: CliSession, found: Json) -> None:
    if session.as_json:
        print_json(found)
    elif found["paused_at"]:
        click.echo(f"{found['id']} is paused")
    else:
        click.echo(f"{found['id']} runs next at {show_time(found['next_at'])}")


@schedule.command("rm")
@click.argument("schedule_id", metavar="SCHEDULE")
@pass_session
def remove(session: CliSession, /, schedule_id: str) -> None:
    """Delete a schedule. Its jobs stay.

    \b
    Example:
      schedulearn schedule rm 0abcdefghj
    """
    session.client.delete_schedule(schedule_id)
    if not session.as_json:
        click.echo(f"{schedule_id} is deleted")
