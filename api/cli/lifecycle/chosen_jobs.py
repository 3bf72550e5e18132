"""Selection of jobs by ID or label, and an action on each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import click

from schedulearn.api.cli.common import CliSession, clean, key_and_value, print_json
from schedulearn.api.client.client import ClientError, Json


def labelled_jobs(
    session: CliSession, labels: tuple[str, ...], user: str | None, states: Iterable[str], kind: str
) -> list[Json]:
    """Return the jobs of `user` in these states with all these labels. Raises ClientError if there is none.

    The default user is you. `kind` names the states in the error."""
    owner = session.user() if user is None else user
    having = dict(key_and_value(label, "--label") for label in labels)
    found: list[Json] = session.client.all_jobs(states, user=owner, labels=having)["items"] if owner else []
    if not found:
        raise ClientError(f"{owner or 'this account'} has no {kind} job with {', '.join(labels)}")
    return found


def check_choice(jobs: tuple[str, ...], labels: tuple[str, ...], user: str | None) -> None:
    """Raise click.UsageError unless jobs are given either by ID or by label."""
    if bool(jobs) == bool(labels):
        raise click.UsageError("choose jobs: IDs, or --label KEY=VALUE")
    if user is not None and not labels:
        raise click.UsageError("--user needs --label")


def for_each(session: CliSession, jobs: Iterable[str], do: Callable[[str], Json], told: Callable[[Json], str]) -> int:
    """Call `do` for each job and print its result or error. Return 1 after any error, else 0."""
    done: list[Json] = []
    failed = 0
    for given in jobs:
        try:
            done.append(do(session.job_id(given)))
        except ClientError as error:
            click.echo(f"Error: {clean(str(error))}", err=True)
            failed = 1
            continue
        if not session.as_json:
            click.echo(told(done[-1]))
    if session.as_json:
        print_json({"items": done})
    sys.stdout.flush()
    return failed
