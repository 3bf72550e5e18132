"""Commands `sweep FILE`, and `sweep ls`, `show`, `cancel`, `retry` and `wait`."""

from __future__ import annotations

from typing import IO

import click

from schedulearn.api.cli.common import (
    Cell,
    CliSession,
    clean,
    pass_session,
    print_json,
    print_table,
    state_cell,
)
from schedulearn.api.cli.submit import code_of
from schedulearn.api.client.client import Json
from schedulearn.features.sweeps.commands.common import (
    START,
    StartedByFile,
    complete,
    id_of,
    read_file,
    tell,
    wait_for_end,
)

_WANTED = "one sweep: an object with name, job, and one of grid, random, list and search"
_STYLES = {"running": "green", "stopping": "magenta", "completed": "dim green", "failed": "bold red"}


@click.group(cls=StartedByFile)
def sweep() -> None:
    """Run one job with many parameters.

    `sweep FILE` starts the sweep in FILE, as YAML or JSON.

    \b
    Example of a FILE:
      name: digits
      job:
        container_image: schedulearn/pytorch
        command: python examples/digits/train.py --lr {lr}
      grid:
        lr: [0.1, 0.01, 0.001]
        batch_size: [32, 64]

    \b
    In place of `grid`, a search by Optuna:
      search: tpe                  # or cmaes, random, grid
      trials: 30
      parameters:
        lr: {min: 1e-5, max: 0.1, scale: log}
        batch_size: [32, 64]
      goal: {metric: val_acc, mode: max}
      prune: asha                  # or hyperband, median

    \b
    Examples:
      schedulearn sweep digits.yaml
      schedulearn sweep show last
    """


@sweep.command(START)
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("-w", "--wait", "waits", is_flag=True, help="Wait for the end; exit code 1 if a run failed.")
@click.option("--code", metavar="WHERE", help="Code of the runs, as for `run`: a folder, a digest, or https://...")
@pass_session
def start(session: CliSession, file: IO[str], waits: bool, code: str | None) -> int:
    """Start a sweep. `-` is stdin.

    Write `./ls` for a file with the name of a command. With --code, a job without an image uses the service's default
    image.

    \b
    Examples:
      schedulearn sweep digits.yaml
      schedulearn sweep start --wait digits.json
      schedulearn sweep start --code . digits.yaml
    """
    found = complete(read_file(file, _WANTED))
    if code is not None and isinstance(found.get("job"), dict):
        image = found["job"].get("container_image") or session.client.code_limits()["default_image"]
        found["job"] |= {"container_image": image, "code": code_of(session, code)}
    found = session.client.start_sweep(found)
    if waits:
        return _wait(session, found)
    tell(session, found)
    return 0


@sweep.command("ls")
@click.option("--user", help="Only sweeps of this user.")
@click.option("-n", "--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="Maximum number.")
@pass_session
def list_sweeps(session: CliSession, user: str | None, limit: int) -> None:
    """List sweeps, newest first.

    \b
    Example:
      schedulearn sweep ls --user ada
    """
    page = session.client.sweeps(user=user, limit=limit)
    if session.as_json:
        print_json(page)
        return
    headers = ("ID", "NAME", "STATE", "RUNS", "PENDING", "ACTIVE", "DONE", "FAILED", "WHY")
    print_table(session, headers, [_row(each) for each in page["items"]])


def _row(found: Json) -> list[Cell]:
    counts = found["counts"]
    numbers = [found["runs"], *(counts[key] for key in ("pending", "active", "succeeded", "failed"))]
    return [found["id"], found["name"], _state(found), *map(str, numbers), (found["message"], "dim")]


def _state(found: Json) -> Cell:
    return found["state"], _STYLES.get(found["state"], "")


@sweep.command("show")
@click.argument("sweep_id", metavar="SWEEP")
@click.option("--metric", metavar="NAME", help="Metric to compare runs by.  [default: the sweep's own]")
@click.option("--goal", type=click.Choice(["min", "max"]), help="Whether a lower or higher value is better.")
@click.option("--by-metric", is_flag=True, help="Sort runs by the metric, best first.")
@pass_session
def show(session: CliSession, sweep_id: str, metric: str | None, goal: str | None, by_metric: bool) -> None:
    """Show the runs of a sweep: parameters, state and metric.

    `*` marks the best run.

    \b
    Examples:
      schedulearn sweep show last
      schedulearn sweep show 0abcdefghj --metric accuracy --goal max --by-metric
    """
    found = session.client.sweep(_sweep_id(session, sweep_id), metric=metric, goal=goal)
    if by_metric:
        found["table"] = _best_first(found["table"], found["metric"]["goal"])
    if session.as_json:
        print_json(found)
        return
    name = found["metric"]["name"]
    click.echo(f"{found['id']} {clean(found['name'])}, {found['state']}: {clean(found['message'])}")
    if found["search"] or found["prune"]:
        click.echo(_searched(found))
    best = found["best"]["number"] if found["best"] else None
    headers = ("RUN", *found["parameters"], "JOB", "STATE", f"LAST {name}", f"BEST {name}", "WHY")
    rows = [_run_row(run, found["parameters"], is_best=run["number"] == best) for run in found["table"]]
    print_table(session, headers, rows)
    if best is None and (others := [each for each in found["logged"] if each != name]):
        click.echo(f"No run has logged {name}; they log {', '.join(others)}: --metric NAME")


def _searched(found: Json) -> str:
    """Return the kind of a search, its progress and its best value."""
    told = [f"Search by {found['search']}, {found['runs']} of {found['trials']} trials"] if found["search"] else []
    told += [f"pruned by {found['prune']}: {found['counts']['pruned']} so far"] if found["prune"] else []
    if found["best"]:
        told.append(
            f"best {clean(found['metric']['name'])} {found['best']['best']:.6g} in run {found['best']['number']}"
        )
    return "; ".join(told) + "."


def _run_row(run: Json, parameters: list[str], *, is_best: bool) -> list[Cell]:
    values = [str(run["params"].get(name, "")) for name in parameters]
    metric = ["-" if run[key] is None else f"{run[key]:.6g}" for key in ("last", "best")]
    number = f"{run['number']}{'*' if is_best else ''}"
    return [number, *values, run["job"] or "-", state_cell(run), *metric, (run["message"], "dim")]


def _best_first(table: list[Json], goal: str) -> list[Json]:
    sign = -1 if goal == "max" else 1
    return sorted(table, key=lambda run: (run["best"] is None, sign * (run["best"] or 0.0), run["number"]))


@sweep.command("cancel")
@click.argument("sweep_id", metavar="SWEEP")
@pass_session
def cancel(session: CliSession, sweep_id: str) -> None:
    """Cancel a sweep: no more runs start, its jobs are cancelled.

    \b
    Example:
      schedulearn sweep cancel last
    """
    tell(session, session.client.cancel_sweep(_sweep_id(session, sweep_id)))


@sweep.command("retry")
@click.argument("sweep_id", metavar="SWEEP")
@pass_session
def retry(session: CliSession, sweep_id: str) -> None:
    """Start unsuccessful runs again, with new jobs.

    These are runs that failed, reached their time limit, were cancelled or never started.

    \b
    Example:
      schedulearn sweep retry last
    """
    tell(session, session.client.retry_sweep(_sweep_id(session, sweep_id)))


@sweep.command("wait")
@click.argument("sweep_id", metavar="SWEEP")
@pass_session
def wait(session: CliSession, sweep_id: str) -> int:
    """Wait until a sweep has ended.

    The exit code is 1 if a run failed, 130 if the sweep was cancelled. Ctrl-C leaves it running.

    \b
    Example:
      schedulearn sweep wait last
    """
    found = session.client.sweep(_sweep_id(session, sweep_id))
    return _wait(session, found)


def _wait(session: CliSession, found: Json) -> int:
    id_ = found["id"]
    return wait_for_end(session, found, f"Sweep {id_} goes on. To end it: schedulearn sweep cancel {id_}")


def _sweep_id(session: CliSession, given: str) -> str:
    return id_of(session, given, "sweep", lambda user: session.client.sweeps(user=user, limit=1))
