"""Database queries of searches, which are open sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.features.sweeps import table as store
from schedulearn.features.sweeps.search_spec import SEARCH
from schedulearn.features.sweeps.steps import SweepState
from schedulearn.features.sweeps.table import RunRow, Sweep, SweepRow, SweepRun
from schedulearn.scheduler.store.models import Job
from schedulearn.scheduler.store.people.kin import Kin, of_kin

_MAX_ANSWERS = 1000  # maximum searches checked for one of the family


def open_searches(conn: Connection) -> list[SweepRow]:
    """Return the running searches, oldest first."""
    query = select(Sweep).where(
        col(Sweep.open).is_(True), col(Sweep.design).is_not(None), col(Sweep.state) == SweepState.RUNNING
    )
    return list(conn.execute(query.order_by(col(Sweep.id))))


def decided_runs(conn: Connection, sweep: SweepRow) -> list[RunRow] | None:
    """Return all trials of a search, or None if one is unfinished.

    A trial is finished once its results are stored, or its job was deleted."""
    runs = store.list_runs(conn, sweep.id, "", limit=len(sweep.design["points"]) + 1)
    ended = all(run.job_id is not None and (run.results is not None or run.state is None) for run in runs)
    return runs if ended else None


def add_trial(
    sweep_id: str, number: int, params: Mapping[str, int | str], gain: float | None, conn: Connection
) -> None:
    """Add a trial as the run with this number.

    Does nothing if the search has ended, or has another number of runs than when it was decided. `gain`: expected
    gain."""
    if _as_decided(conn, sweep_id, number - 1):
        conn.execute(insert(SweepRun), [{"sweep_id": sweep_id, "number": number, "params": params, "tries": 0}])
        design = store.get_sweep(conn, sweep_id).design
        earlier = design.get("gains", [])  # missing in searches of earlier versions
        gains = [*earlier, *[None] * (number - 1 - len(earlier)), gain]
        values = {"runs": number, "design": {**design, "gains": gains}}
        conn.execute(update(Sweep).where(col(Sweep.id) == sweep_id).values(**values))


def close_search(sweep_id: str, runs: int, answer: Mapping[str, Any], conn: Connection) -> None:
    """Close a search: no trials are added, and the sweep then completes.

    `answer` is added to its design."""
    if _as_decided(conn, sweep_id, runs):
        design = {**store.get_sweep(conn, sweep_id).design, **answer}
        conn.execute(update(Sweep).where(col(Sweep.id) == sweep_id).values(open=False, design=design))


def _as_decided(conn: Connection, sweep_id: str, runs: int) -> bool:
    row = store.get_sweep(conn, sweep_id)
    return bool(row.open and row.state is SweepState.RUNNING and row.runs == runs)


def answer_of(conn: Connection, kin: Kin) -> SweepRow | None:
    """Return the newest search that found a configuration for `kin`."""
    query = (
        select(Sweep)
        .join(Job, col(Job.sweep) == col(Sweep.id))
        .where(of_kin(kin), col(Sweep.state) == SweepState.COMPLETED, col(Sweep.design).is_not(None))
        .order_by(col(Sweep.created_at).desc(), col(Sweep.id).desc())
        .limit(_MAX_ANSWERS)
    )
    rows = (row for row in conn.execute(query) if row.design is not None)
    return next((row for row in rows if row.design.get("design") == SEARCH and row.design.get("found")), None)
