"""shell: a job made for one shell."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import CliSession, Command, pass_session
from schedulearn.api.cli.submit import code_of, complete
from schedulearn.api.cli.times import Parsed, parse_seconds
from schedulearn.api.client.client import ClientError, Json
from schedulearn.features.interactive.commands.attached import is_terminal, require_unix
from schedulearn.features.interactive.commands.exec import run_in_job
from schedulearn.features.interactive.commands.ports import await_start, say

_PIPE = '"${TMPDIR:-/tmp}/shell-$SCHEDULEARN_TASK"'
_UNUSED_S = 600
"""How long such a job waits for its shell."""

# The job waits for the end of a pipe that the shell holds open, with all that it starts. So the job ends with its
# shell, however that ends, also when nobody is there to cancel it; and after a while if there never was one.
KEEPER = (
    f"pipe={_PIPE}; mkfifo $pipe || exit 1; (sleep {_UNUSED_S}; : >$pipe) & read -r end <$pipe; rm -f $pipe; exit 0"
)
SHELL = (
    f"pipe={_PIPE}; until [ -p $pipe ]; do sleep 0.1; done; exec 9>$pipe; "
    "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh"
)


@click.command(cls=Command)
@click.option("--gpus", type=click.IntRange(0), default=1, show_default=True, metavar="N", help="Number of GPUs.")
@click.option("--image", metavar="IMAGE", help="Container image.  [default: that of `run`]")
@click.option("--code", metavar="WHERE", help="Working directory: a folder, a digest, or https://...[@REF] for git.")
@click.option("--priority", type=int, metavar="N", help="Priority, 0 to 100; higher first.  [default: 50]")
@click.option("--max-duration", type=Parsed(parse_seconds), metavar="TIME", help="Maximum run time: 30m, 2h.")
@click.option("--cpus", type=float, metavar="N", help="Maximum processors.  [default: no limit]")
@click.option("--memory", metavar="SIZE", help="Maximum memory, e.g. 64g.  [default: its share by GPUs]")
@pass_session
def shell(
    session: CliSession,
    gpus: int,
    image: str | None,
    code: str | None,
    priority: int | None,
    max_duration: float | None,
    cpus: float | None,
    memory: str | None,
) -> int:
    """Start a shell on GPUs of the cluster.

    The shell is a job that ends with it. It waits like any job, and shows the reason. It ends with this command, or
    after a time without input or output, which is shown. The exit code is that of the shell.

    \b
    Examples:
      schedulearn shell
      schedulearn shell --gpus 2 --image pytorch/pytorch --code .
    """
    require_unix()
    asked = {"priority": priority, "max_duration": max_duration, "cpus": cpus, "memory": memory}
    spec: Json = {
        "name": "shell",
        "type": "Shell",
        "container_image": image or session.client.code_limits()["default_image"],
        "command": f"sh -c '{KEEPER}'",
        "required_gpus": gpus,
        "launcher": "none",
        **{key: value for key, value in asked.items() if value is not None},
        **({"code": code_of(session, code)} if code else {}),
    }
    job = session.client.submit(complete(spec, {}, {}, {}))
    try:
        await_start(session, job.id)
        say(f"job {job.id} ends with this shell")
        return run_in_job(session, job.id, ("sh", "-c", SHELL), None, is_terminal())
    except BaseException:
        _cancel(session, job.id)
        raise


def _cancel(session: CliSession, job_id: str) -> None:
    try:
        session.client.cancel(job_id)
    except ClientError:
        pass  # it has ended, or nobody can be told
