"""Commands `hold`, `release`, `pause` and `resume`."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import CliSession, Command, clean, pass_session
from schedulearn.api.cli.lifecycle.chosen_jobs import for_each
from schedulearn.api.client.client import Json


@click.command(cls=Command)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@pass_session
def hold(session: CliSession, jobs: tuple[str, ...]) -> int:
    """Keep waiting jobs from starting.

    They start after `release`, and keep their place in the queue. --json prints {"items": [...]}.

    \b
    Example:
      schedulearn hold last
    """
    return for_each(session, jobs, session.client.hold, _told)


@click.command(cls=Command)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@pass_session
def release(session: CliSession, jobs: tuple[str, ...]) -> int:
    """Release held jobs.

    They may start from then on. --json prints {"items": [...]}.

    \b
    Example:
      schedulearn release last
    """
    return for_each(session, jobs, session.client.release, _told)


@click.command(cls=Command)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@pass_session
def pause(session: CliSession, jobs: tuple[str, ...]) -> int:
    """Pause elastic jobs with a checkpoint.

    A running job saves a checkpoint, gives its GPUs back and waits for `resume`. A waiting job is held.
    --json prints {"items": [...]}.

    \b
    Example:
      schedulearn pause last
    """
    return for_each(session, jobs, session.client.pause, _told)


@click.command(cls=Command)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@pass_session
def resume(session: CliSession, jobs: tuple[str, ...]) -> int:
    """Resume paused jobs.

    They may start again from their checkpoints. --json prints {"items": [...]}.

    \b
    Example:
      schedulearn resume last
    """
    return for_each(session, jobs, session.client.resume, _told)


def _told(job: Json) -> str:
    return f"{job['id']} {job['state']}: {clean(job['message'])}"
