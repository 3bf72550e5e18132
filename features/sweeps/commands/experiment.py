"""Commands `experiment` and its subcommands."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
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
from schedulearn.api.client.client import ClientError, Json
from schedulearn.features.sweeps.commands.common import (
    START,
    StartedByFile,
    complete,
    id_of,
    read_file,
    tell,
    wait_for_end,
)

_WANTED = "one object, with name, job and factors"
_SHOWN = ("response_time", "run_time", "epoch_time", "gpu_utilization", "cpus", "energy", "cost")


@click.group(cls=StartedByFile)
def experiment() -> None:
    """Measure how factors of a job affect its time and metrics.

    `experiment FILE` starts an experiment.

    \b
    Example of a FILE:
      name: batch and workers
      job:
        container_image: schedulearn/pytorch
        command: python examples/digits/train_sdk.py --seed {replication}
      design: factorial
      factors:
        batch_size: [32, 64, 128]
        required_gpus: [1, 2]
      replications: 3

    \b
    Examples:
      schedulearn experiment batches.yaml
      schedulearn experiment analyze last --response run_time
    """


@experiment.command(START)
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("-w", "--wait", "waits", is_flag=True, help="Wait for the end; exit code 1 if a run failed.")
@pass_session
def start(session: CliSession, file: IO[str], waits: bool) -> int:
    """Start an experiment. `-` is stdin.

    Write `./ls` for a file with the name of a command.

    \b
    Examples:
      schedulearn experiment batches.yaml
      schedulearn experiment start --wait batches.json
    """
    found = session.client.start_experiment(complete(read_file(file, _WANTED)))
    if waits:
        return _wait(session, found)
    tell(session, found)
    return 0


@experiment.command("ls")
@click.option("--user", help="Only experiments of this user.")
@click.option("-n", "--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="Maximum number.")
@pass_session
def list_experiments(session: CliSession, user: str | None, limit: int) -> None:
    """List experiments, newest first.

    \b
    Example:
      schedulearn experiment ls
    """
    page = session.client.experiments(user=user, limit=limit)
    if session.as_json:
        print_json(page)
        return
    headers = ("ID", "NAME", "STATE", "DESIGN", "RUNS", "DONE", "FACTORS", "WHY")
    rows = [
        [each["id"], each["name"], each["state"], each["design"] or "-", str(each["runs"]),
         str(each["counts"]["succeeded"]), ", ".join(each["factors"]), (each["message"], "dim")]
        for each in page["items"]
    ]  # fmt: skip
    print_table(session, headers, rows)


@experiment.command("show")
@click.argument("experiment_id", metavar="EXPERIMENT")
@pass_session
def show(session: CliSession, experiment_id: str) -> None:
    """Show the runs of an experiment with levels and results.

    The ID of a sweep works too.

    \b
    Example:
      schedulearn experiment show last
    """
    found = session.client.experiment(_id(session, experiment_id))
    if session.as_json:
        print_json(found)
        return
    click.echo(f"{found['id']} {clean(found['name'])}, {found['state']}: {clean(found['message'])}")
    counts = found["counts"]
    ended = counts["succeeded"] + counts["failed"] + counts["cancelled"]
    click.echo(f"{ended} of {found['runs']} runs have ended, {counts['active']} wait or run.")
    responses = [name for name in _SHOWN if name in found["responses"]]
    responses += [name for name in found["responses"] if name == found["metric"]["name"]]
    headers = ("RUN", *found["parameters"], "JOB", "STATE", *responses, "WHY")
    print_table(session, headers, [_row(run, found["parameters"], responses) for run in found["table"]])
    if others := [name for name in found["responses"] if name not in responses]:
        click.echo(f"Measured as well: {', '.join(others)} (experiment csv)")


def _row(run: Json, parameters: list[str], responses: list[str]) -> list[Cell]:
    results = run["results"] or {}
    values = [f"{results[name]:.6g}" if name in results else "-" for name in responses]
    levels = [str(run["params"].get(name, "")) for name in parameters]
    return [str(run["number"]), *levels, run["job"] or "-", state_cell(run), *values, (run["message"], "dim")]


@experiment.command("csv")
@click.argument("experiment_id", metavar="EXPERIMENT")
@pass_session
def as_csv(session: CliSession, experiment_id: str) -> None:
    """Print the runs as CSV: levels, job, state, measurements.

    \b
    Example:
      schedulearn experiment csv last > batches.csv
    """
    found = session.client.experiment(_id(session, experiment_id))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["run", *found["parameters"], "job", "state", *found["responses"]])
    for run in found["table"]:
        levels = [run["params"].get(name, "") for name in found["parameters"]]
        results = run["results"] or {}
        measured = [results.get(name, "") for name in found["responses"]]
        writer.writerow([run["number"], *levels, run["job"] or "", run["state"], *measured])


@experiment.command("analyze")
@click.argument("experiment_id", metavar="EXPERIMENT")
@click.option("--response", default="run_time", show_default=True, help="Response to analyze.")
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 0.999),
    default=0.95,
    show_default=True,
    help="Confidence of the intervals.",
)
@pass_session
def analyze(session: CliSession, experiment_id: str, response: str, confidence: float) -> None:
    """Show which factors change a response.

    It prints the mean of each point with its interval, and an analysis of variance.

    \b
    Examples:
      schedulearn experiment analyze last
      schedulearn experiment analyze 0abcdefghj --response accuracy
    """
    found = session.client.analysis(_id(session, experiment_id), response, confidence)
    if session.as_json:
        print_json(found)
        return
    factors = [*found["cells"][0]["levels"]]
    percent = f"{100 * found['confidence']:g} %"
    rows: list[list[Cell]] = [
        [*(str(cell["levels"][name]) for name in factors), str(cell["runs"]), _number(cell["mean"]), _span(cell)]
        for cell in found["cells"]
    ]
    print_table(session, (*factors, "RUNS", f"MEAN {response}", percent), rows)
    click.echo()
    has_effects = any(term["effect"] is not None for term in found["terms"])
    headers = ("TERM", "DF", "SUM OF SQUARES", "SHARE", "F", "P", *(("EFFECT", percent) if has_effects else ()))
    print_table(session, headers, [_term_row(term, has_effects) for term in found["terms"]])
    click.echo(
        f"{found['runs']} runs, mean {found['mean']:.6g}; the terms explain {100 * found['r2']:.2f} %; "
        f"{found['error_df']} degrees of freedom are left for the error."
    )


def _term_row(term: Json, has_effects: bool) -> list[Cell]:
    row: list[Cell] = [
        " x ".join(term["factors"]), str(term["df"]), _number(term["sum_of_squares"]), f"{100 * term['share']:.2f} %",
        _number(term["f"]), "-" if term["p"] is None else f"{term['p']:.3g}",
    ]  # fmt: skip
    if has_effects:
        row += [_number(term["effect"]), _span({"low": term["effect_low"], "high": term["effect_high"]})]
    return row


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _span(found: Json) -> str:
    return "-" if found["low"] is None else f"{found['low']:.6g} to {found['high']:.6g}"


@experiment.command("plot")
@click.argument("experiment_id", metavar="EXPERIMENT")
@click.option("--response", default="run_time", show_default=True, help="Response to plot.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default="here",
    help="Folder of the plots.",
)
@click.option(
    "--format", "kind", type=click.Choice(["svg", "png"]), default="svg", show_default=True, help="File format."
)
@pass_session
def plot(session: CliSession, experiment_id: str, response: str, output: Path, kind: str) -> None:
    """Draw plots of main effects, interactions and levels.

    The plots are files in a folder. This needs `pip install 'schedulearn[plots]'`.

    \b
    Example:
      schedulearn experiment plot last --response accuracy -o plots
    """
    from schedulearn.features.sweeps.commands.plots import draw

    found = session.client.experiment(_id(session, experiment_id))
    rows = [
        (run["params"], run["results"][response])
        for run in found["table"]
        if run["results"] and response in run["results"]
    ]
    if not rows:
        known = ", ".join(found["responses"]) or "nothing yet"
        raise ClientError(f"no run of {found['id']} has {response}; they have {known}")
    try:
        files = draw(rows, found["factors"], response, output, kind)
    except ImportError as error:
        raise ClientError(f"plots need matplotlib: pip install 'schedulearn[plots]' ({error})") from error
    for file in files:
        click.echo(file)


@experiment.command("cancel")
@click.argument("experiment_id", metavar="EXPERIMENT")
@pass_session
def cancel(session: CliSession, experiment_id: str) -> None:
    """Cancel an experiment: no more runs start, its jobs are cancelled.

    \b
    Example:
      schedulearn experiment cancel last
    """
    tell(session, session.client.cancel_sweep(_id(session, experiment_id)))


@experiment.command("wait")
@click.argument("experiment_id", metavar="EXPERIMENT")
@pass_session
def wait(session: CliSession, experiment_id: str) -> int:
    """Wait until an experiment has ended.

    The exit code is 1 if a run failed, 130 if it was cancelled. Ctrl-C leaves it running.

    \b
    Example:
      schedulearn experiment wait last
    """
    return _wait(session, session.client.sweep(_id(session, experiment_id)))


def _wait(session: CliSession, found: Json) -> int:
    return wait_for_end(session, found, f"It goes on. To end it: schedulearn experiment cancel {found['id']}")


def _id(session: CliSession, given: str) -> str:
    return id_of(session, given, "experiment", lambda user: session.client.experiments(user=user, limit=1))
