"""exec: a command in a running job."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import INTERRUPTED, CliSession, Command, pass_session
from schedulearn.features.interactive.commands.attached import attach, is_terminal, own_size, require_unix
from schedulearn.features.interactive.commands.remote import RemoteCommand


@click.command("exec", cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument("job", metavar="JOB")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- [COMMAND...]")
@click.option("--rank", type=click.IntRange(0), help="Container of a job that has several.  [default: the first]")
@click.option(
    "--terminal/--pipes", default=None, help="Whether it gets a terminal.  [default: if this command has one]"
)
@pass_session
def exec_(session: CliSession, job: str, command: tuple[str, ...], rank: int | None, terminal: bool | None) -> int:
    """Run a command in a running job; without one, a shell.

    It has the job's files, variables and GPUs. On a terminal it receives every key, including Ctrl-C. It can also be
    part of a pipe. When this command ends, the command in the job ends with all its processes. The exit code is that of
    the command, or 255 if its end was not observed.

    \b
    Examples:
      schedulearn exec last
      schedulearn exec last -- nvidia-smi
      schedulearn exec 3f9 --rank 1 -- tail -f /tmp/worker.log
      schedulearn exec last -- tar c /outputs | tar x
    """
    require_unix()
    return run_in_job(session, session.job_id(job), command, rank, is_terminal() if terminal is None else terminal)


def run_in_job(session: CliSession, job_id: str, command: tuple[str, ...], rank: int | None, terminal: bool) -> int:
    """Its exit code."""
    size = own_size() if terminal else None
    try:
        with RemoteCommand(job_id, command, rank=rank, size=size, url=session.url, ca=session.ca) as remote:
            return attach(remote, terminal=terminal and is_terminal())
    except KeyboardInterrupt:
        return INTERRUPTED
