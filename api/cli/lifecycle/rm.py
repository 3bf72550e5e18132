"""rm: jobs that have ended, with all that they left."""

from __future__ import annotations

import sys

import click

from schedulearn.api.cli.common import Command, Session, clean, key_and_value, pass_session, print_json
from schedulearn.api.client.client import ClientError, Json
from schedulearn.scheduler.core.states import TERMINAL


@click.command(cls=Command)
@click.argument("jobs", nargs=-1, metavar="JOB...")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="All ended jobs with this label.")
@click.option("--user", help="Of this user, with --label.  [default: you]")
@click.option("-y", "--yes", is_flag=True, help="Don't ask, on a terminal.")
@pass_session
def rm(session: Session, jobs: tuple[str, ...], labels: tuple[str, ...], user: str | None, yes: bool) -> int:
    """Deletes jobs that have ended, with all that they left: log, checkpoints, measurements, attempts.

    There is no way back. What they used stays in `schedulearn usage`, and what happened in `schedulearn events`. A job
    that has not ended is refused: cancel it first. With --json it prints {"items": [...]}.

    \b
    Examples:
      schedulearn rm last
      schedulearn rm --label sweep=lr
    """
    if bool(jobs) == bool(labels):
        raise click.UsageError("say which jobs: ids, or --label KEY=VALUE")
    if user is not None and not labels:
        raise click.UsageError("--user goes with --label")
    ids = list(jobs) or _labelled(session, labels, session.user() if user is None else user)
    if session.pretty and not yes:
        click.confirm(f"Delete {len(ids)} job{'s' * (len(ids) != 1)} with all that they left?", abort=True)
    done: list[Json] = []
    failed = 0
    for given in ids:
        try:
            done.append(session.client.purge(session.job_id(given)))
        except ClientError as error:
            click.echo(f"Error: {clean(str(error))}", err=True)
            failed = 1
            continue
        if not session.as_json:
            click.echo(f"{done[-1]['id']} deleted ({clean(done[-1]['name'])})")
    if session.as_json:
        print_json({"items": done})
    sys.stdout.flush()
    return failed


def _labelled(session: Session, labels: tuple[str, ...], user: str) -> list[str]:
    """Ids of the user's ended jobs with these labels. Raises ClientError if there is none."""
    having = dict(key_and_value(label, "--label") for label in labels)
    found = session.client.all_jobs(sorted(TERMINAL), user=user, labels=having)["items"] if user else []
    if not found:
        raise ClientError(f"{user or 'nobody'} has no ended job with {', '.join(labels)}")
    return [str(job["id"]) for job in found]
