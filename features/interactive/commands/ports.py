"""open: a port of a job in the browser; notebook, tensorboard: jobs made to be opened so."""

from __future__ import annotations

import secrets
import time

import click

from schedulearn.api.cli.common import CliSession, Command, clean, pass_session, print_json
from schedulearn.api.cli.submit import code_of, complete
from schedulearn.api.cli.times import Parsed, parse_seconds, show_seconds
from schedulearn.api.client.client import ClientError, Job, Json
from schedulearn.scheduler.core.states import TERMINAL, JobState

_LOOK_S = 0.3
_IDLE_S = 3600.0
_PORTS = range(20_000, 30_000)
"""Any of them: local processes share the ports of their machine, and another job may have the usual one."""

# It keeps what it writes where a job's outputs are kept, and shows all other folders too.
_JUPYTER = (
    "export JUPYTER_TOKEN=$SCHEDULEARN_PORT_TOKEN; exec jupyter lab --no-browser --allow-root --ip=127.0.0.1 "
    "--port={port} --ServerApp.port_retries=0 --ServerApp.root_dir=/ "
    '--ServerApp.preferred_dir="$SCHEDULEARN_OUTPUT_DIR"'
)
_TENSORBOARD = 'exec tensorboard --port={port} --logdir "$(env | sed -n "s/^SCHEDULEARN_INPUT_[^=]*=//p" | head -n 1)"'


@click.command("open", cls=Command)
@click.argument("job", metavar="JOB")
@click.argument("port", metavar="[PORT]", required=False)
@pass_session
def open_(session: CliSession, job: str, port: str | None) -> int:
    """Print a link that opens a port of a job in the browser.

    The link points to an address of the service, and logs you in there. It works once, within two minutes. PORT is a
    name in the job's key `ports`; it may be left out if there is only one. Only the job's user and admins can do this.

    \b
    Examples:
      schedulearn open last
      schedulearn open 3f9 tensorboard
    """
    found = session.client.job(session.job_id(job))
    names = sorted(found["ports"])
    if port is None and len(names) != 1:
        raise ClientError(
            f"job {found.id} has the ports {', '.join(names)}: name one of them"
            if names
            else f"job {found.id} has no ports (key ports); schedulearn forward reaches any"
        )
    _tell_link(session, found, port or names[0])
    return 0


@click.command(cls=Command)
@click.option("--gpus", type=click.IntRange(0), default=1, show_default=True, metavar="N", help="Number of GPUs.")
@click.option("--image", metavar="IMAGE", help="Container image.  [default: that of `run`]")
@click.option("--code", metavar="WHERE", help="Code: a folder, a digest, or https://...[@REF] for git.")
@click.option("--data", multiple=True, metavar="NAME[@V]", help="Data set or model, mounted below /data. Repeatable.")
@click.option(
    "--idle",
    type=Parsed(parse_seconds),
    metavar="TIME",
    help="Time from the last closed tab to the end.  [default: 1h]",
)
@click.option("--max-duration", type=Parsed(parse_seconds), metavar="TIME", help="Maximum run time: 30m, 2h.")
@click.option("-d", "--detach", is_flag=True, help="Don't wait for the start: print the ID and exit.")
@pass_session
def notebook(
    session: CliSession,
    gpus: int,
    image: str | None,
    code: str | None,
    data: tuple[str, ...],
    idle: float | None,
    max_duration: float | None,
    detach: bool,
) -> int:
    """Start JupyterLab on GPUs and open it in the browser.

    It is a job. It starts in the job's outputs, which are kept; code is at /workspace. It ends an hour after its last
    tab was closed (--idle), or with `schedulearn cancel`. JupyterLab is installed on top of the image once.

    \b
    Examples:
      schedulearn notebook
      schedulearn notebook --gpus 2 --image pytorch/pytorch --data faces --idle 4h
    """
    asked = {"max_duration": max_duration, "data": list(data) or None}
    spec = _spec(session, "notebook", "Jupyter", _JUPYTER, "jupyterlab", idle)
    spec |= {
        "required_gpus": gpus,
        **({"container_image": image} if image else {}),
        **({"code": code_of(session, code)} if code else {}),
        **{key: value for key, value in asked.items() if value is not None},
    }
    return _submit(session, spec, "notebook", detach)


@click.command(cls=Command)
@click.argument("job", metavar="JOB")
@click.option("--image", metavar="IMAGE", help="Container image.  [default: that of `run`]")
@click.option(
    "--idle",
    type=Parsed(parse_seconds),
    metavar="TIME",
    help="Time from the last closed tab to the end.  [default: 1h]",
)
@click.option("-d", "--detach", is_flag=True, help="Don't wait for the start: print the ID and exit.")
@pass_session
def tensorboard(session: CliSession, job: str, image: str | None, idle: float | None, detach: bool) -> int:
    """Start TensorBoard on the outputs of a finished job.

    It is a job without GPUs that opens in the browser. If JOB is still running, it waits for its end.

    \b
    Example:
      schedulearn tensorboard last
    """
    job_id = session.job_id(job)
    spec = _spec(session, "tensorboard", "TensorBoard", _TENSORBOARD, "tensorboard", idle)
    spec |= {"required_gpus": 0, "after": {"jobs": [job_id], "when": "any"}}
    if image:
        spec["container_image"] = image
    return _submit(session, spec, "tensorboard", detach)


def _spec(session: CliSession, name: str, kind: str, command: str, package: str, idle: float | None) -> Json:
    port = secrets.choice(_PORTS)
    return {
        "name": name,
        "type": kind,
        "container_image": session.client.code_limits()["default_image"],
        "command": f"sh -c '{command.format(port=port)}'",
        "launcher": "none",
        "requirements": [package],
        "ports": {name: port},
        "idle_timeout": idle or _IDLE_S,
    }


def _submit(session: CliSession, spec: Json, port: str, detach: bool) -> int:
    job = session.client.submit(complete(spec, {}, {}, {}))
    if detach:
        print_json(job) if session.as_json else click.echo(job.id)
        return 0
    try:
        job = await_start(session, job.id)
    except KeyboardInterrupt:
        say(f"job {job.id} goes on. To open it: schedulearn open {job.id}; to end it: schedulearn cancel {job.id}")
        raise
    _tell_link(session, job, port)
    return 0


def _tell_link(session: CliSession, job: Job, port: str) -> None:
    link = session.client.port_link(job.id, port)
    if session.as_json:
        print_json(link)
        return
    click.echo(link["url"])
    say("the link opens it once, within two minutes; the page of the job has one too")
    if job["idle_timeout"] is not None:
        say(f"job {job.id} ends after {show_seconds(job['idle_timeout'])} without connections")


def await_start(session: CliSession, job_id: str) -> Job:
    """Says what it waits for. Raises ClientError if it ends instead."""
    told = ""
    while True:
        job = session.client.job(job_id)
        state = JobState(job["state"])
        if state is JobState.RUNNING:
            return job
        words = f"job {job_id} is {state}: {job['message']}"
        if state in TERMINAL:
            raise ClientError(words)
        if words != told:
            say(words)
            told = words
        time.sleep(_LOOK_S)


def say(words: str) -> None:
    click.secho(f"schedulearn: {clean(words)}", err=True, dim=True)
