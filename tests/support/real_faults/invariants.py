"""What must hold at every moment, and what must hold once everything has healed. Reads the database by itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from real_faults.witness import Witness, job_of

TERMINAL = {"succeeded", "failed", "cancelled", "timeout"}


class Broken(AssertionError):
    """An invariant does not hold."""


class Invariants:
    def __init__(self, database: Path, witness: Witness) -> None:
        self._database = database
        self._witness = witness
        self.acknowledged: set[str] = set()
        self._ended: dict[str, str] = {}

    def check(self) -> None:
        """At every moment."""
        if self._witness.broken:
            raise Broken("; ".join(self._witness.broken))
        if (jobs := self._jobs()) is None:
            return
        if lost := self.acknowledged - set(jobs):
            raise Broken(f"acknowledged jobs are not in the database: {sorted(lost)}")
        for job_id, (state, reason, message) in jobs.items():
            if (before := self._ended.get(job_id)) and before != state:
                raise Broken(f"job {job_id} ended as {before}, and is {state} now")
            if state in TERMINAL:
                self._ended[job_id] = state
                if not reason or not message:
                    raise Broken(f"job {job_id} is {state} and does not say why")

    def unsettled(self) -> str:
        """What is still to do, in words."""
        jobs = self._jobs()
        if jobs is None:
            return "the database can't be read"
        waiting = {job: row for job, row in jobs.items() if row[0] not in TERMINAL}
        return f"jobs {waiting}" if waiting else f"tasks {left}" if (left := self._witness.left()) else ""

    def stories(self) -> str:
        """What the events say of jobs that have not ended."""
        jobs = self._jobs() or {}
        left = [job for job, row in jobs.items() if row[0] not in TERMINAL]
        told = self._rows("SELECT job_id, at, kind, message FROM event ORDER BY id")
        return "\n".join(f"{job} {at}: {kind}: {message}" for job, at, kind, message in told if job in left)

    def check_settled(self, sent: int) -> None:
        """`sent`: different submissions, each of which was acknowledged in the end."""
        self.check()
        jobs = self._jobs() or {}
        if len(jobs) != sent or len(self.acknowledged) != sent:
            raise Broken(f"{sent} jobs were sent, {len(self.acknowledged)} acknowledged, and {len(jobs)} are stored")
        if leases := self._rows("SELECT gpu_uuid, task_id FROM lease"):
            raise Broken(f"leases that nobody gives back: {leases}")
        if tasks := self._rows("SELECT id, state FROM task WHERE state != 'ended'"):
            raise Broken(f"tasks that never end: {tasks}")
        if twice := {task: count for task, count in self._witness.starts.items() if count > 1}:
            raise Broken(f"commands that were started more than once: {twice}")
        for job_id, (state, reason, _) in jobs.items():
            exits = {task: code for task, code in self._witness.exits.items() if job_of(task) == job_id}
            codes = list(exits.values())
            if state == "succeeded" and 0 not in codes:
                raise Broken(f"job {job_id} succeeded, and its commands ended with {codes}")
            if state == "failed" and reason == "command_failed" and codes and not any(codes):
                if self._witness.uncertain & set(exits):
                    continue
                raise Broken(f"job {job_id} is said to have failed, and its commands ended with {codes}")

    def _jobs(self) -> dict[str, tuple[str, str, str]] | None:
        """None while the database can't be read, which a fault may be the reason of."""
        try:
            rows = self._rows("SELECT id, state, reason, message FROM job")
        except sqlite3.OperationalError:
            return None
        return {row[0]: (row[1], row[2], row[3]) for row in rows}

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True, timeout=10)) as connection:
            return connection.execute(query).fetchall()
