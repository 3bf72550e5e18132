"""Command `resubmit`, which submits a job again with changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from schedulearn.api.cli.common import SHARED, CliSession, key_and_value, pass_session, whoami
from schedulearn.api.cli.submit import NO_KEYS, SubmitCommand, code_of, given_keys, given_pairs, submit, submitted


class _Resubmit(SubmitCommand):
    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["JOB", "[OPTIONS]", "[-- COMMAND...]"]


@click.pass_context
@pass_session
def _resubmit(
    session: CliSession,
    context: click.Context,
    /,
    source: str,
    detach: bool,
    env: tuple[str, ...],
    mounts: tuple[str, ...],
    secrets: tuple[str, ...],
    labels: tuple[str, ...],
    elastic: bool,
    advised: bool,
    **flags: Any,
) -> int:
    """Submit a job again and follow it.

    The new job has the same image, command and keys, except for those that the options change. A past deadline is left
    out. --env and --label add to those of the job. Masked values of its environment are reused if image, command,
    launcher, data sets and environment stay the same.

    \b
    Examples:
      schedulearn resubmit last
      schedulearn resubmit last --advised         # a failed job, with the change that `show` advises
      schedulearn resubmit 0abc --gpus 4 --label try=2 -d
      schedulearn resubmit 0abc -- python train.py --lr 0.01
      schedulearn show --spec 0abc > job.yaml     # or a file, to edit and submit
    """
    changes = given_keys(context, flags, mounts, elastic)
    if secrets:
        changes["secrets"] = dict(key_and_value(secret, "--secret") for secret in secrets)
    if "code" in changes:
        changes["code"] = code_of(session, changes["code"])
    job_id = session.job_id(source)
    if advised:
        changes = {**_advised(session, job_id), **changes}
    added_env, added_labels = given_pairs(env, labels)
    if added_env or added_labels:
        spec = session.client.spec(job_id)
        for key, added in (("env", added_env), ("labels", added_labels)):
            if added:
                changes[key] = {**spec.get(key, {}), **added}
    if user := whoami():
        changes.setdefault("user", user)
    return submitted(session, session.client.resubmit(job_id, **changes), detach)


def _advised(session: CliSession, job_id: str) -> Mapping[str, Any]:
    """Return the advised changes of a failed job. Raises click.UsageError if there are none."""
    failure = session.client.job(job_id)["failure"] or {}
    clone = failure.get("clone")
    if clone is None:
        why = f" Next step: {failure['step']}" if failure.get("step") else ""
        raise click.UsageError(f"--advised: no change is known that would help job {job_id}.{why}")
    click.echo(clone["label"], err=True)
    return dict(clone["changes"])


_NOT_HERE = (*NO_KEYS, *SHARED)
resubmit = _Resubmit(
    "resubmit",
    callback=_resubmit,
    help=_resubmit.__doc__,
    params=[
        click.Argument(["source"], metavar="JOB"),
        click.Option(["--advised"], is_flag=True, help="With the change that is advised after its failure."),
        *(option for option in submit.params if option.name not in _NOT_HERE),
    ],
)
"""Command with the flags of `submit`, which cover every key of a job."""
