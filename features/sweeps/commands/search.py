"""Commands `search FILE` and `search show`."""

from __future__ import annotations

from typing import IO

import click

from schedulearn.api.cli.common import INTERRUPTED, CliSession, clean, pass_session, print_json, print_table
from schedulearn.api.client.client import Json
from schedulearn.features.sweeps.commands.common import START, StartedByFile, complete, id_of, read_file, until_ended

_WANTED = "one object, with name, job and gpus"


@click.group(cls=StartedByFile)
def search() -> None:
    """Search for the best configuration of a job by short trials.

    `search FILE` starts a search.

    \b
    Example of a FILE:
      name: configuration of digits
      job:
        container_image: schedulearn/pytorch
        command: python examples/digits/train_sdk.py --epochs 1 --batch-size {batch_size}
      gpu_types: [NVIDIA A100-SXM4-80GB, Tesla T4]      # may be left out
      gpus: [1, 2, 4]
      batch_sizes: [32, 64, 128, 256]
      goal: both

    \b
    Examples:
      schedulearn search digits.yaml
      schedulearn search show last
    """


@search.command(START)
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("-w", "--wait", "waits", is_flag=True, help="Wait for the end, and show the result.")
@pass_session
def start(session: CliSession, file: IO[str], waits: bool) -> int:
    """Start a search. `-` is stdin.

    `schedulearn sweep cancel ID` ends it.

    \b
    Example:
      schedulearn search start --wait digits.yaml
    """
    found = session.client.start_search(complete(read_file(file, _WANTED)))
    if not waits:
        _show(session, found)
        return 0
    goes_on = f"The search goes on: schedulearn search show {found['id']}"
    ended = until_ended(found, session.client.search, goes_on)
    if ended is None:
        return INTERRUPTED
    _show(session, ended)
    return 1 if ended["found"] is None else 0


@search.command("show")
@click.argument("search_id", metavar="SEARCH")
@pass_session
def show(session: CliSession, search_id: str) -> None:
    """Show the progress and result of a search.

    It includes the curve of time and cost.

    \b
    Example:
      schedulearn search show last
    """
    _show(session, session.client.search(id_of(session, search_id, "search", lambda user: _newest(session, user))))


def _newest(session: CliSession, user: str) -> Json:
    page = session.client.experiments(user=user, limit=100)
    return {"items": [each for each in page["items"] if each["design"] == "search"]}


def _show(session: CliSession, found: Json) -> None:
    if session.as_json:
        print_json(found)
        return
    click.echo(f"{found['id']} {found['state']}: {clean(found['message'])} {clean(found['why'])}".rstrip())
    counts = found["counts"]
    ended = counts["succeeded"] + counts["failed"] + counts["cancelled"]
    click.echo(f"{ended} trials of at most {found['trials']}, among {found['configurations']} configurations.")
    if found["found"] is not None:
        keys = ("gpu_type", "required_gpus", "batch_size")
        click.echo(
            f"Found: {', '.join(f'{key} {clean(str(value))}' for key in keys if (value := found['found'][key]))}."
        )
    if found["curve"]:
        rows = [
            [
                clean(each["gpu_type"] or "-"),
                str(each["required_gpus"]), str(each["batch_size"] or "-"), f"{each['run_time']:.4g} s",
                f"{each['cost']:.4g}", ", ".join(_marks(found, each)),
            ]
            for each in found["curve"]
        ]  # fmt: skip
        print_table(session, ("TYPE", "GPUS", "BATCH", "RUN TIME", "COST", ""), rows)


def _marks(found: Json, each: Json) -> list[str]:
    return [name for name in ("best", "knee") if found[name] == each]
