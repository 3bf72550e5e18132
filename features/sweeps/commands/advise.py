"""Command `advise`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import IO

import click

from schedulearn.api.cli.common import Cell, CliSession, Command, clean, pass_session, print_json, print_table
from schedulearn.api.client.client import Json
from schedulearn.features.sweeps.commands.common import complete, read_file

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SHOWN = 10


class _Deadline(click.ParamType[str]):
    name = "deadline"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if match := _SPAN.fullmatch(value):
            return (datetime.now(UTC) + timedelta(seconds=float(match[1]) * _SECONDS[match[2]])).isoformat()
        try:
            return datetime.fromisoformat(value).astimezone().isoformat()
        except ValueError:
            self.fail(f"{value!r} is neither a time such as 2026-12-01T18:00 nor a span such as 2h", param, ctx)


@click.command(cls=Command)
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option(
    "--deadline", type=_Deadline(), help="Time by which the job should end: 2026-12-01T18:00, or 2h from now."
)
@click.option("--within", type=float, metavar="SECONDS", help="Maximum seconds from now to the end of the job.")
@click.option("--metric", default="accuracy", show_default=True, help="Metric of --target, as the script logs it.")
@click.option(
    "--goal",
    type=click.Choice(["min", "max"]),
    default="max",
    show_default=True,
    help="Minimize or maximize the metric.",
)
@click.option("--target", type=float, help="Value that the metric should reach.")
@click.option(
    "--batch-size",
    "batch_sizes",
    type=int,
    multiple=True,
    help="Allowed batch size. Repeatable.  [default: those tried]",
)
@click.option("--gpus", type=int, multiple=True, help="Allowed number of GPUs. Repeatable.  [default: powers of two]")
@click.option("--all", "shows_all", is_flag=True, help="Show every configuration.")
@pass_session
def advise(
    session: CliSession,
    file: IO[str],
    deadline: str | None,
    within: float | None,
    metric: str,
    goal: str,
    target: float | None,
    batch_sizes: tuple[int, ...],
    gpus: tuple[int, ...],
    shows_all: bool,
) -> int:
    """Choose batch size and number of GPUs for the job in FILE.

    The choice meets an objective as predicted from finished jobs of the same family. Without --batch-size, it is made
    among the batch sizes that were tried. Nothing is submitted. The exit code is 1 if no configuration meets the
    objective.

    \b
    Examples:
      schedulearn advise job.yaml --deadline 2h
      schedulearn advise job.yaml --within 600 --target 0.98
    """
    job = complete({"job": read_file(file, "one job: an object, keys with values")})["job"]
    given = {"deadline": deadline, "max_response_time": within, "target": target}
    found = session.client.advise(
        {
            **{key: value for key, value in given.items() if value is not None},
            "job": job, "metric": {"name": metric, "goal": goal},
            "batch_sizes": list(batch_sizes), "gpus": list(gpus),
        }
    )  # fmt: skip
    if session.as_json:
        print_json(found)
    else:
        _print(session, found, metric, None if shows_all else _SHOWN)
    return 0 if found["meets"] else 1


def _print(session: CliSession, found: Json, metric: str, most: int | None) -> None:
    chosen = found["chosen"]
    batch = f"batch_size {chosen['batch_size']}, " if chosen["batch_size"] else ""
    click.echo(f"{batch}required_gpus {chosen['required_gpus']} ({clean(chosen['gpu_type'])}). {found['why']}")
    headers = ("BATCH", "GPUS", "TYPE", "WAIT", "RESPONSE TIME", metric, "COST", "MEETS")
    print_table(session, headers, [_row(option) for option in found["options"][:most]])
    models = [f"time by {_score(found['time_models'])}"]
    models += [f"{metric} by {_score(found['metric_models'])}"] if found["metric_models"] else []
    click.echo(f"From {found['samples']} finished jobs; {', '.join(models)}.")


def _score(models: list[Json]) -> str:
    return f"{models[0]['model']} (R2 {models[0]['r2']:.3f} on unseen jobs)"


def _row(option: Json) -> list[Cell]:
    cost = "-" if option["cost"] is None else f"{option['cost']:.4g}"
    return [
        str(option["batch_size"] or "-"), str(option["required_gpus"]), option["gpu_type"],
        f"{option['wait_time']:.0f} s", _span(option["response_time"], " s"), _span(option["metric"], ""), cost,
        "yes" if option["meets"] else "no",
    ]  # fmt: skip


def _span(found: Json | None, unit: str) -> str:
    return "-" if found is None else f"{found['value']:.4g}{unit} ({found['low']:.4g} to {found['high']:.4g})"
