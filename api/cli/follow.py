"""Follower of a job: its log on stdout, its state on stderr."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from schedulearn.api.cli.common import CliSession, clean, console, exit_code, rich_cell, state_cell
from schedulearn.api.cli.times import job_time
from schedulearn.api.client.client import ClientError, Job, Json
from schedulearn.api.logs.times import LineStamps
from schedulearn.scheduler.core.states import TERMINAL, JobState

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_LOOK_S = 0.5
_REMOVAL_S = 10.0  # maximum wait for the removal of containers; lost files are reported before it
_NAMED = 5


def follow(session: CliSession, job: Json, *, quiet: bool, timestamps: bool = False) -> int:
    """Print the log until the job has ended, and return the exit code of the command line.

    `quiet`: print only the log, connection problems and a failure of the job. With --json each piece of the log is a
    JSON line."""
    stamps = LineStamps() if timestamps else None
    watch = _Watch(session, job)
    if not quiet:
        watch.start()
    try:
        for piece in session.client.follow_logs(job["id"], on_gap=lambda why: watch.say(f"{why}; the job continues")):
            watch.log_comes(piece.text)
            if session.as_json:
                click.echo(json.dumps(asdict(piece)))
            else:
                write_log(stamps.stamp(piece.text, piece.times) if stamps else piece.text)
    finally:
        watch.stop()
    job = session.client.job(job["id"])
    code = exit_code(job)
    if not quiet or code:
        watch.say(f"job {job['id']} {job['state']} after {job_time(job)}: {job.why}")
    if code and (failure := job["failure"]) and failure["step"]:
        again = f" Or run: schedulearn resubmit {job['id']} --advised" if failure["clone"] else ""
        watch.say(f"next step: {failure['step']}{again}")
    if not quiet:
        for sentence in _left_behind(session, job["id"]):
            watch.say(sentence)
    return code


def _left_behind(session: CliSession, job_id: str) -> Iterator[str]:
    """Yield where a job's outputs are, and which files were lost. Errors of the service are ignored."""
    try:
        found = session.client.files(job_id, "outputs")["items"]
        if found:
            names = ", ".join(item["name"] for item in found[:_NAMED]) + (", ..." if len(found) > _NAMED else "")
            yield f"its outputs are {names}: `schedulearn cp {job_id}:/outputs .` brings them here"
        end = time.monotonic() + _REMOVAL_S
        while not session.client.job(job_id)["removed"] and time.monotonic() < end:
            time.sleep(_LOOK_S / 5)
        events = session.client.job_events(job_id)["items"]
        yield from (event["message"] for event in events if event["kind"] == "job.stray_files")
    except ClientError:
        return


def write_log(text: str) -> None:
    """Write a job's output as it is, colours and progress bars included, and at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


class _Watch:
    """Display of a job's state: a live line on a terminal until the log begins, else a line per change."""

    def __init__(self, session: CliSession, job: Json) -> None:
        self._session = session
        self._job = job
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._live: Live | None = None
        self._told = ""
        self._in_line = False  # the log is in the middle of a line
        self._thread = threading.Thread(target=self._look, name="watch-job", daemon=True)

    def start(self) -> None:
        if sys.stderr.isatty():
            from rich.live import Live

            self._live = Live(
                console=console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        self._show(self._job)
        self._thread.start()

    def log_comes(self, text: str) -> None:
        """Remove the live line: from now on the terminal shows the job's output."""
        with self._lock:
            self._end_live()
            self._in_line = not text.endswith("\n")

    def stop(self) -> None:
        self._done.set()
        with self._lock:
            self._end_live()

    def say(self, sentence: str) -> None:
        with self._lock:
            self._end_live()
            start = "\n" if self._in_line and sys.stderr.isatty() else ""
            self._in_line = False
            click.secho(f"{start}schedulearn: {clean(sentence)}", err=True, dim=True)

    def _end_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _look(self) -> None:
        while not self._done.wait(_LOOK_S):
            try:
                job = self._session.client.job(self._job["id"])
            except ClientError:
                continue  # `follow` reports it
            except Exception:
                if self._done.is_set():
                    return  # the command has ended, and closed its client meanwhile
                raise
            if self._done.is_set() or JobState(job["state"]) in TERMINAL:
                return
            self._show(job)

    def _show(self, job: Json) -> None:
        with self._lock:
            if self._live is not None:
                self._live.update(_line(job), refresh=True)
                return
        # One line for a whole pull, not one for each percentage.
        news = job["state"] if job["state"] == JobState.PULLING else f"{job['state']}: {Job(job).told}"
        if news != self._told:
            self._told = news
            self.say(f"job {job['id']} is {job['state']}: {Job(job).told}")


def _line(job: Json) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    text = Text.assemble(state_cell(job), "  ", (clean(Job(job).told), "dim"), no_wrap=True, overflow="ellipsis")
    if job["state"] != JobState.PULLING or job["pull_percent"] is None:
        return Spinner("dots", text)
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=100, completed=job["pull_percent"], width=40), rich_cell(f"{job['pull_percent']:.0f}%")
    )
    return Group(Spinner("dots", text), bar)
