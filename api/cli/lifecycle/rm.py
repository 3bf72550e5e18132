"""Command `rm`, which deletes ended jobs with all that they left."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import CliSession, Command, clean, pass_session
from schedulearn.api.cli.lifecycle.chosen_jobs import check_choice, for_each, labelled_jobs
from schedulearn.scheduler.core.states import TERMINAL


@click.command(cls=Command)
@click.argument("jobs", nargs=-1, metavar="JOB...")
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Delete finished jobs with this label. Repeatable."
)
@click.option("--user", help="With --label: owner of the jobs.  [default: you]")
@click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation on a terminal.")
@pass_session
def rm(session: CliSession, jobs: tuple[str, ...], labels: tuple[str, ...], user: str | None, yes: bool) -> int:
    """Delete finished jobs with logs, checkpoints and measurements.

    This can't be undone. `schedulearn usage` and `schedulearn events` still include these jobs. Unfinished jobs are
    refused: cancel them first. --json prints {"items": [...]}.

    \b
    Examples:
      schedulearn rm last
      schedulearn rm --label sweep=lr
    """
    check_choice(jobs, labels, user)
    found = labelled_jobs(session, labels, user, sorted(TERMINAL), "ended") if labels else []
    ids = [*jobs, *(str(job["id"]) for job in found)]
    if session.pretty and not yes:
        click.confirm(
            f"Delete {len(ids)} job{'s' * (len(ids) != 1)} with logs, checkpoints and measurements?", abort=True
        )
    return for_each(session, ids, session.client.purge, lambda job: f"{job['id']} deleted ({clean(job['name'])})")
