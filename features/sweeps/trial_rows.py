"""Database queries of sweeps that Optuna continues: their trials, and what is added to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import Table, and_, bindparam, insert, inspect, or_, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.features.sweeps import table as store
from schedulearn.features.sweeps.steps import SweepReason, SweepState
from schedulearn.features.sweeps.table import Sweep, SweepRow, SweepRun
from schedulearn.scheduler.control.service import prune_job
from schedulearn.scheduler.core.states import TERMINAL, WAITS, JobState
from schedulearn.scheduler.store.models import Job, Metric

_TABLE = cast(Table, inspect(SweepRun).local_table)
_JUDGED = (
    update(_TABLE)
    .where(
        _TABLE.c.sweep_id == bindparam("of"), _TABLE.c.number == bindparam("which"), _TABLE.c.job_id == bindparam("job")
    )
    .values(judged_step=bindparam("step"))
)


class TrialRow(NamedTuple):
    """Run of a sweep, with its job and the reports of the metric."""

    number: int
    params: Mapping[str, Any]
    job_id: str | None
    results: Mapping[str, float] | None
    pruned: bool
    judged_step: int | None
    sampler: Mapping[str, Any] | None
    state: JobState | None
    """None: no job yet, or its job was deleted."""
    points: Sequence[Sequence[float]] | None
    lowest: float | None
    highest: float | None

    @property
    def waits(self) -> bool:
        return self.state in WAITS if self.job_id else True

    @property
    def active(self) -> bool:
        return self.job_id is None or (self.state is not None and self.state not in TERMINAL)


class Chosen(NamedTuple):
    """Parameters of a new trial, and what the sampler stores with it."""

    params: Mapping[str, Any]
    sampler: Mapping[str, Any] | None


class Judged(NamedTuple):
    """Decision on a running trial at a step of its metric."""

    number: int
    job_id: str
    step: int
    why: str | None
    """Reason to end it; None: it goes on."""


def sweeps_to_continue(conn: Connection) -> list[SweepRow]:
    """Return running sweeps that add trials by Optuna or prune runs, oldest first."""
    adds = and_(col(Sweep.search).is_not(None), col(Sweep.open).is_(True))
    wanted = or_(adds, col(Sweep.prune).is_not(None))
    return list(
        conn.execute(select(Sweep).where(col(Sweep.state) == SweepState.RUNNING, wanted).order_by(col(Sweep.id)))
    )


_TRIALS = (
    select(
        *map(col, (SweepRun.number, SweepRun.params, SweepRun.job_id, SweepRun.results, SweepRun.pruned)),
        *map(col, (SweepRun.judged_step, SweepRun.sampler, Job.state)),
        *map(col, (Metric.points, Metric.lowest, Metric.highest)),
    )
    .select_from(SweepRun)
    .outerjoin(Job, col(Job.id) == col(SweepRun.job_id))
    .outerjoin(Metric, and_(col(Metric.job_id) == col(Job.id), col(Metric.name) == bindparam("metric")))
    .where(col(SweepRun.sweep_id) == bindparam("sweep"))
    .order_by(col(SweepRun.number))
)


def trials_of(conn: Connection, sweep: SweepRow) -> list[TrialRow]:
    """Return all trials of a sweep, in order of their numbers."""
    asked = {"sweep": sweep.id, "metric": sweep.spec["metric"]["name"]}
    return [TrialRow._make(row) for row in conn.execute(_TRIALS, asked)]


def store_decisions(
    sweep_id: str,
    known: int,
    size: int,
    chosen: Sequence[Chosen],
    judged: Sequence[Judged],
    now: float,
    conn: Connection,
) -> None:
    """Add trials, and end those that were judged as bad, in one transaction.

    Does nothing for a sweep that is not running any more. Adds nothing if the sweep has another number of runs than
    `known`: another question was answered meanwhile. `size`: all trials that the sweep may have."""
    sweep = store.get_sweep(conn, sweep_id)
    if sweep.state is not SweepState.RUNNING:
        return
    if chosen and sweep.open and sweep.runs == known:
        conn.execute(
            insert(SweepRun),
            [
                {"sweep_id": sweep_id, "number": number, "tries": 0, **each._asdict()}
                for number, each in enumerate(chosen, known + 1)
            ],
        )
        runs = known + len(chosen)
        conn.execute(update(Sweep).where(col(Sweep.id) == sweep_id).values(runs=runs, open=runs < size))
    for each in judged:
        job = conn.execute(select(Job).where(col(Job.id) == each.job_id)).one_or_none()
        if each.why is not None and job is not None and prune_job(conn, job, each.why, now):
            where = (col(SweepRun.sweep_id) == sweep_id, col(SweepRun.job_id) == each.job_id)
            conn.execute(update(SweepRun).where(*where).values(pruned=True))
    if judged:
        steps = [{"of": sweep_id, "which": each.number, "job": each.job_id, "step": each.step} for each in judged]
        conn.execute(_JUDGED, steps)


def end_search(sweep_id: str, message: str, now: float, conn: Connection) -> None:
    """End a search that can't choose further trials. Its runs go on to their end."""
    sweep = store.get_sweep(conn, sweep_id)
    if sweep.state is SweepState.RUNNING and sweep.open:
        conn.execute(update(Sweep).where(col(Sweep.id) == sweep_id).values(open=False))
        store.move_sweep(conn, sweep_id, SweepState.STOPPING, SweepReason.REFUSED, message, now)
