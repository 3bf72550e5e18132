"""Command `wait`, which waits until jobs have ended."""

from __future__ import annotations

import time

import click

from schedulearn.api.cli.common import (
    INTERRUPTED,
    TIMED_OUT,
    CliSession,
    Command,
    clean,
    exit_code,
    pass_session,
    print_json,
)
from schedulearn.api.cli.times import Parsed, job_time, parse_seconds
from schedulearn.api.client.client import Job


@click.command(cls=Command)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option(
    "--timeout", type=Parsed(parse_seconds), metavar="TIME", help="Maximum time to wait: seconds, 30m, 2h, 1d."
)
@pass_session
def wait(session: CliSession, jobs: tuple[str, ...], timeout: float | None) -> int:
    """Wait until jobs have ended, and print their outcome.

    The exit code is 0 if all jobs succeeded. Otherwise it is that of the first unsuccessful job in the given order: its
    own exit code, 124 for its time limit, 130 if it was cancelled. It is 124 if --timeout ends first, and 1 for an
    unknown job. Nothing is cancelled. --json prints {"items": [...]}.

    \b
    Examples:
      schedulearn wait last && echo trained
      schedulearn wait --timeout 2h $(schedulearn ls --label sweep=lr --json | jq -r '.items[].id')
    """
    ids = [session.job_id(job) for job in jobs]
    end = None if timeout is None else time.monotonic() + timeout
    ended: list[Job] = []
    code = 0
    try:
        for job_id in ids:
            left = None if end is None else max(0.0, end - time.monotonic())
            ended.append(session.client.wait(job_id, timeout_s=left))
            if not session.as_json:
                job = ended[-1]
                click.echo(f"{job.id} {job.state} after {job_time(job)}: {clean(job.why)}")
            code = code or exit_code(ended[-1])
    except TimeoutError as error:
        click.echo(f"schedulearn: {error}", err=True)
        code = TIMED_OUT
    except KeyboardInterrupt:
        code = INTERRUPTED
    if session.as_json:
        print_json({"items": ended})
    return code
