"""run: the code of this folder as a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from schedulearn.api.cli.common import Command, Session, pass_session
from schedulearn.api.cli.submit import SubmitCommand, code_of, complete, given_keys, given_pairs, send, submit


class _Run(SubmitCommand):
    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "-- COMMAND..."]


def _params() -> Iterator[click.Parameter]:
    """Those of `submit`, but for its file and for what each command has."""
    shared = {param.name for param in Command("any").params}
    return (param for param in submit.params if param.name not in {"file", *shared})


@click.command(cls=_Run, params=list(_params()))
@click.pass_context
@pass_session
def run(
    session: Session,
    context: click.Context,
    /,
    detach: bool,
    env: tuple[str, ...],
    mounts: tuple[str, ...],
    labels: tuple[str, ...],
    elastic: bool,
    **flags: Any,
) -> int:
    """Runs a command in this folder, somewhere on the cluster, and follows it as `submit` does.

    The folder's files are sent and are the command's directory in every container of the job. What
    `.schedulearnignore` names stays here, or without one what the `.gitignore` files name. The same files are sent and
    stored once. All flags of `submit` are known; without --image the service's own default is used, and without
    --launcher none for one GPU.

    \b
    Examples:
      schedulearn run -- python train.py
      schedulearn run --gpus 2 --name bigger -- python train.py --lr 0.1
      schedulearn run --code https://github.com/ada/nets.git@v2 -- python train.py
    """
    given = given_keys(context, flags, mounts, elastic)
    if "command" not in given:
        raise click.UsageError("say what to run: schedulearn run -- python train.py")
    if "container_image" not in given:
        given["container_image"] = session.client.code_limits()["default_image"]
    if "launcher" not in given and not elastic and given.get("required_gpus", 1) == 1:
        given["launcher"] = "none"
    given["code"] = code_of(session, given.get("code", "."))
    return send(session, complete({}, given, *given_pairs(env, labels)), detach)
