"""The command `schedulearn`.

Kept light on purpose: nothing here imports the web framework, the database, rich or httpx until a command needs it,
so that `schedulearn serve` is ready soon and `schedulearn ls` answers at once.
"""

from __future__ import annotations

import io
import sys

import click

import schedulearn
from schedulearn.api.cli.common import INTERRUPTED, Group, clean
from schedulearn.api.cli.data.commands import data
from schedulearn.api.cli.experiments.advise import advise
from schedulearn.api.cli.experiments.experiment import experiment
from schedulearn.api.cli.experiments.predictions import predictions
from schedulearn.api.cli.experiments.search import search
from schedulearn.api.cli.files import cp, files
from schedulearn.api.cli.hands.exec import exec_
from schedulearn.api.cli.hands.forward import forward
from schedulearn.api.cli.hands.ports import notebook, open_, tensorboard
from schedulearn.api.cli.hands.shell import shell
from schedulearn.api.cli.history import events, telemetry, timeline
from schedulearn.api.cli.hosts import hosts
from schedulearn.api.cli.job_files.commands import import_, init
from schedulearn.api.cli.jobs import logs, ls, prio, show
from schedulearn.api.cli.lifecycle.cancel import cancel
from schedulearn.api.cli.lifecycle.resubmit import resubmit
from schedulearn.api.cli.lifecycle.rm import rm
from schedulearn.api.cli.lifecycle.wait import wait
from schedulearn.api.cli.people.groups import groups
from schedulearn.api.cli.people.quota import quota
from schedulearn.api.cli.people.secrets import secrets
from schedulearn.api.cli.people.tokens import tokens
from schedulearn.api.cli.people.users import users, whoami
from schedulearn.api.cli.policy import policy
from schedulearn.api.cli.service.backup import backup, restore
from schedulearn.api.cli.service.doctor import doctor
from schedulearn.api.cli.service.serve import serve
from schedulearn.api.cli.service.uninstall import uninstall
from schedulearn.api.cli.simulate import simulate
from schedulearn.api.cli.submit import run, submit
from schedulearn.api.cli.sweep import sweep
from schedulearn.api.cli.top import top
from schedulearn.api.cli.usage import usage
from schedulearn.api.cli.webhooks import webhooks
from schedulearn.api.client.client import ClientError

__all__ = ["cli", "main"]


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(schedulearn.__version__, prog_name="schedulearn", message="%(prog)s %(version)s")
def cli() -> None:
    """Schedulearn: trains deep-learning jobs on the GPUs of a few hosts.

    \b
    Start the service, then run your own code on it and watch it:
      schedulearn serve
      schedulearn run --gpus 2 -- python train.py
      schedulearn ls

    \b
    Where a JOB is asked for: its id, the beginning or end of it, or `last`.
    Environment: SCHEDULEARN_URL (default http://127.0.0.1:8000), SCHEDULEARN_TOKEN,
    SCHEDULEARN_CA.
    Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted; `run`, `submit` and `logs -f` end with the job's own
    exit code, 124 if it ran into its time limit, 130 if it was cancelled.
    """


for command in (
    *(serve, run, submit, sweep, ls, show, logs, files, cp, cancel, prio, top, policy, hosts, simulate, usage),
    *(wait, resubmit, rm, init, import_, data, experiment, search, advise, predictions),
    *(exec_, shell, forward, open_, notebook, tensorboard),
    *(events, timeline, telemetry, webhooks, whoami, users, tokens, quota, groups, secrets, backup, restore, doctor),
    uninstall,
):
    cli.add_command(command)


def main() -> None:
    """The entry point. Ends with one line on stderr, not a traceback, whatever the service answers."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(prog_name="schedulearn", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except ClientError as error:
        click.echo(f"Error: {clean(str(error))}", err=True)
        code = 1
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
