"""Command `simulate`.

It imports NumPy and the policies only when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedulearn.api.cli.common import Cell, CliSession, clean, console, pass_session, print_json, print_table
from schedulearn.scheduler.errors import InvalidError

if TYPE_CHECKING:
    from schedulearn.scheduler.core.model import HostView
    from schedulearn.scheduler.sim.arguments import Contender
    from schedulearn.scheduler.sim.comparison import Comparison, Played, Progress
    from schedulearn.scheduler.sim.conditions import Conditions
    from schedulearn.scheduler.sim.workload import TraceJob

SECONDS = click.FloatRange(0, 1e6)


@click.command()
@click.argument("trace")
@click.option(
    "--policy", "policies", multiple=True, metavar="LIST",
    help="algorithm[:metric][/key=value...],...  [default: fifo,tiresias,goodput:default,goodput:speed,goodput:cost]",
)  # fmt: skip
@click.option("--last", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="Jobs of `history`.")
@click.option("--hosts", type=click.IntRange(1, 10_000), help="[default: 16; with `history` those of the service]")
@click.option("--gpus", type=click.IntRange(1, 64), help="GPUs of each host.  [default: 4]")
@click.option(
    "--types", metavar="TYPE=HOSTSxGPUS[@SPEED],...", help="Hosts of several types, instead of --hosts and --gpus."
)
@click.option(
    "--conditions", type=click.Choice(["service", "pollux"]), default="service", show_default=True,
    help="Conditions of this service, or of OSDI 2021: 60 s ticks, 30 s restarts, new jobs unknown.",
)  # fmt: skip
@click.option("--interval", type=click.FloatRange(0.1, 1e6), metavar="SECONDS", help="Maximum time between decisions.")
@click.option("--gap", type=SECONDS, metavar="SECONDS", help="Minimum time between decisions.  [default: 0]")
@click.option("--events/--ticks", "on_events", default=None, help="Whether arrivals and ends also cause a decision.")
@click.option("--restart", type=SECONDS, metavar="SECONDS", help="Set the three options below.")
@click.option("--cold-start", type=SECONDS, metavar="SECONDS", help="Time from the first GPUs to the first step.")
@click.option("--stall-up", type=SECONDS, metavar="SECONDS", help="Time lost when a job grows, moves or resumes.")
@click.option("--stall-down", type=SECONDS, metavar="SECONDS", help="Time lost when a job shrinks.")
@click.option(
    "--sharing",
    type=click.FloatRange(0.01, 4),
    metavar="FACTOR",
    help="Total speed of jobs that share a GPU, relative to one job.",
)
@click.option(
    "--interference",
    type=click.FloatRange(0, 0.99),
    metavar="SHARE",
    help="Speed lost by jobs on several hosts that share a host.",
)
@click.option(
    "--memory/--no-memory", "family_memory", default=None, help="Whether jobs of one application share profiles."
)
@click.option(
    "--careful-batches/--free-batches", "careful_batches", default=None,
    help="Whether workers change batches by the SDK's rule, or directly to the best size.",
)  # fmt: skip
@click.option(
    "--after", metavar="TRACE", help="Trace to simulate first, so that its applications are known.  [default: none]"
)
@click.option(
    "--lengths",
    type=click.Choice(["unknown", "declared", "predicted"]),
    help="Source of the run times that policies see.  [default: unknown]",
)
@click.option("--length-error", type=click.FloatRange(1, 100), metavar="FACTOR", help="Error of declared run times.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of made-up arrivals and errors.")
@click.option("--applications", type=click.Path(path_type=Path, dir_okay=False), help="JSON file of applications.")
@click.option(
    "--scaling",
    is_flag=True,
    default=None,
    help="Switch hosts off and on, by the policy or by the needs of jobs.",
)
@click.option("--least-hosts", type=click.IntRange(1, 10_000), help="With --scaling: minimum hosts on.  [default: 1]")
@click.option("--most-hosts", type=click.IntRange(1, 10_000), help="With --scaling: maximum hosts on.  [default: all]")
@click.option(
    "--initial-hosts", type=click.IntRange(1, 10_000), help="With --scaling: hosts on at the start.  [default: all]"
)
@click.option(
    "--scale-target", type=click.FloatRange(0, 1, min_open=True), metavar="SHARE",
    help="With --scaling: target share of used GPUs.",
)  # fmt: skip
@click.option(
    "--scale-window", type=SECONDS, metavar="SECONDS", help="With --scaling: scale-down stabilization window."
)
@click.option("--boot", type=SECONDS, metavar="SECONDS", help="With --scaling: boot time of a host.")
@click.option("--own", multiple=True, metavar="FILE.py:CLASS", help="Your own policy, used by its name. Repeatable.")
@click.option(
    "--jobs",
    "processes",
    type=click.IntRange(1, 256),
    help="Number of processes.  [default: one per policy and processor]",
)
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="File for a report with plots.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_session
def simulate(
    session: CliSession,
    /,
    trace: str,
    policies: tuple[str, ...],
    html: Path | None,
    processes: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Simulate a trace of jobs under several policies.

    TRACE is a CSV or JSON file, `history` for the successful jobs of your own service, or generated:
    poisson:JOBS@PER_HOUR, diurnal:JOBS@PER_HOUR, bursts:JOBSxTIMES[@SECONDS]. docs/simulator.md describes formats,
    conditions and the report.

    \b
    Examples:
      schedulearn simulate trace.csv --policy goodput:default,tiresias --hosts 16 --gpus 4
      schedulearn simulate history --policy goodput:speed,fifo
      schedulearn simulate poisson:160@20 --types t4=6x4,a100=2x8@2.5 --html report.html
      schedulearn simulate bursts:5x4 --policy gandiva/quantum=30,fifo --restart 5 --json
    """
    # The matrices are tiny: threads would only spin, next to the processes of the other policies.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        comparison, contenders = _prepare(session, trace, ",".join(policies), **options)
    except InvalidError as error:
        raise _Wrong(clean(str(error))) from error
    if html is not None and not html.parent.is_dir():
        raise _Wrong(f"--html: there is no folder {clean(str(html.parent))}")
    processes = min(processes or os.cpu_count() or 1, len(contenders))
    try:
        with _progress(contenders) as progress:
            played = comparison.play_all(contenders, processes, progress)
    except RuntimeError as error:  # a policy's plan broke a rule
        raise click.ClickException(clean(str(error))) from error
    if html is not None:
        from schedulearn.features.simulate.report import report

        html.write_text(report(comparison, played), encoding="utf-8")
    if as_json or session.as_json:
        print_json(comparison.to_json(played))
    else:
        _print(session, comparison, played)
        if html is not None:
            click.echo(f"The report is in {clean(str(html))}.", err=True)


class _Wrong(click.ClickException):
    exit_code = 2


def _prepare(
    session: CliSession, trace: str, policies: str, *, last: int, hosts: int | None, gpus: int | None,
    types: str | None, conditions: str, restart: float | None, seed: int, applications: Path | None,
    own: tuple[str, ...], after: str | None, **changes: Any,
) -> tuple[Comparison, list[Contender]]:  # fmt: skip
    """Raises InvalidError."""
    from dataclasses import replace

    from schedulearn.scheduler.policies.plugins import load_policies
    from schedulearn.scheduler.sim import arguments
    from schedulearn.scheduler.sim.comparison import Comparison
    from schedulearn.scheduler.sim.conditions import POLLUX, Conditions
    from schedulearn.scheduler.sim.workload import measured_sharing

    load_policies(own)
    contenders = arguments.parse_policies(policies or "fifo,tiresias,goodput:default,goodput:speed,goodput:cost")
    host_views, speeds = arguments.parse_types(types) if types else (arguments.equal_hosts(hosts or 16, gpus or 4), {})
    stalls = {} if restart is None else dict.fromkeys(("cold_start", "stall_up", "stall_down"), restart)
    changes = stalls | {key: value for key, value in changes.items() if value is not None}
    base = POLLUX if conditions == "pollux" else Conditions()
    if trace == "history":
        jobs, there = _history(session, last)
        host_views = there if there and not (hosts or gpus or types) else host_views
    else:
        jobs = arguments.parse_trace(trace, seed, applications)
    if changes.get("sharing") is None and (shared := measured_sharing(applications)) is not None:
        changes["sharing"] = shared
    how = replace(base, speeds=speeds, seed=seed, **changes)
    _check_scaling(how, changes)
    if after and not how.family_memory:
        raise InvalidError("--after needs --memory: without it nothing is learned from another trace")
    past = arguments.parse_trace(after, seed + 1, applications) if after else []
    return Comparison(trace, jobs, host_views, how, own, past), contenders


def _check_scaling(how: Conditions, given: Mapping[str, object]) -> None:
    """Raises InvalidError."""
    of_scaling = ("least_hosts", "most_hosts", "initial_hosts", "scale_target", "scale_window", "boot")
    if not how.scaling and (idle := [name for name in of_scaling if name in given]):
        raise InvalidError(f"--{idle[0].replace('_', '-')} does nothing without --scaling: add that", field=idle[0])
    try:
        how.scaling_rule  # noqa: B018 - it checks itself
    except ValueError as error:
        raise InvalidError(str(error), field="scaling") from error


def _history(session: CliSession, last: int) -> tuple[list[TraceJob], list[HostView]]:
    """Return the jobs that succeeded in the service, and its hosts. Raises InvalidError without such a job."""
    from schedulearn.scheduler.core.model import HostView
    from schedulearn.scheduler.sim.workload import read_trace

    found = session.client.replay(last)
    if not found["jobs"]:
        raise InvalidError("no job of the service has succeeded yet: there is no history to simulate", field="trace")
    return read_trace(found, "history"), [HostView(h["id"], h["gpus"], h["gpu_type"]) for h in found["hosts"]]


@contextmanager
def _progress(contenders: Sequence[Contender]) -> Iterator[Progress]:
    """Show a progress bar for each policy if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda which, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console(stderr=True), transient=True) as bars:
        tasks = [bars.add_task(clean(contender.label), total=None) for contender in contenders]
        yield lambda which, done, total: bars.update(tasks[which], completed=done, total=total)


def _print(session: CliSession, comparison: Comparison, played: Sequence[Played]) -> None:
    from schedulearn.scheduler.sim.comparison import table

    total = sum(host.gpus for host in comparison.hosts)
    click.echo(
        f"{len(comparison.jobs)} jobs of {clean(comparison.source)} on {len(comparison.hosts)} hosts, {total} GPUs; "
        "seconds; * is the best of its column\n"
    )
    headings, rows = table(played)
    cells: list[list[Cell]] = [[(f"{text}*", "bold green") if best else text for text, best in row] for row in rows]
    print_table(session, headings, cells)
    for each in played:
        if left := each.summary.unfinished:
            label = clean(each.contender.label)
            why = "they got no GPUs, or never for long enough to train"
            what = f"{left} jobs never ended under {label}: {why}. Its times are those of the others."
            click.secho(what, fg="yellow", err=True)
