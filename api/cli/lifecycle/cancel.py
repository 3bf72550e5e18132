"""Command `cancel`, for jobs that wait or run."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import CliSession, Command, clean, pass_session
from schedulearn.api.cli.lifecycle.chosen_jobs import check_choice, for_each, labelled_jobs
from schedulearn.scheduler.core.states import UNFINISHED


@click.command(cls=Command)
@click.argument("jobs", nargs=-1, metavar="JOB...")
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Cancel unfinished jobs with this label. Repeatable."
)
@click.option("--user", help="With --label: owner of the jobs.  [default: you]")
@click.option("-y", "--yes", is_flag=True, help="With --label: don't ask for confirmation on a terminal.")
@pass_session
def cancel(session: CliSession, jobs: tuple[str, ...], labels: tuple[str, ...], user: str | None, yes: bool) -> int:
    """Cancel jobs.

    Waiting jobs end at once. Running jobs get SIGTERM, then SIGKILL after their grace period. --label cancels your own
    jobs that have all these labels. --json prints {"items": [...]}.

    \b
    Examples:
      schedulearn cancel last
      schedulearn cancel --label sweep=lr
      schedulearn cancel $(schedulearn ls --json | jq -r '.items[].id')
    """
    check_choice(jobs, labels, user)
    found = labelled_jobs(session, labels, user, UNFINISHED, "unfinished") if labels else []
    if found and session.pretty and not yes:
        for job in found:
            click.echo(f"{job['id']} {clean(job['name'])}, {job['state']}")
        click.confirm(f"Cancel {len(found)} job{'s' * (len(found) != 1)}?", abort=True)
    ids = [*jobs, *(str(job["id"]) for job in found)]
    return for_each(
        session, ids, session.client.cancel, lambda job: f"{job['id']} {job['state']}: {clean(job['message'])}"
    )
