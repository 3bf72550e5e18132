"""Job IDs that a shell offers at the Tab key."""

from __future__ import annotations

from collections.abc import Collection

import click
from click.shell_completion import CompletionItem

from schedulearn.api.cli.common import CliSession, clean
from schedulearn.api.client.client import ClientError
from schedulearn.scheduler.core.states import TERMINAL, UNFINISHED

_SHOWN = 50
_WAIT_S = 2.0
"""Maximum wait for the service: somebody waits for the prompt."""
_UNFINISHED = ("cancel", "exec", "forward", "open", "prio", "top")
_ENDED = ("resubmit", "rm", "tensorboard")


def job_items(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the newest jobs that the command takes, by ID. A service that fails offers none."""
    name = ctx.command.name
    states: Collection[str] = UNFINISHED if name in _UNFINISHED else TERMINAL if name in _ENDED else ()
    try:
        jobs = _newest(ctx.find_object(CliSession) or CliSession(), states)
    except (ClientError, ValueError, KeyError, TypeError):
        jobs = []
    items = [CompletionItem("last", help="your newest job")]
    # Others choose names: a line end in one would be another item for the shell.
    items += [CompletionItem(clean(job["id"]), help=clean(f"{job['name']}, {job['state']}")[:60]) for job in jobs]
    return [item for item in items if item.value.startswith(incomplete)]


def _newest(session: CliSession, states: Collection[str]) -> list[dict[str, str]]:
    from schedulearn import Client

    with Client(session.url, session.token, timeout_s=_WAIT_S, ca=session.ca) as client:
        found = client.jobs(states, limit=_SHOWN)["items"]
    return [{key: str(job[key]) for key in ("id", "name", "state")} for job in found]
