"""What must hold at every moment, whatever goes wrong, and what must hold once everything has settled. Reads the
database by itself, not by the code that it judges."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

from virtual.engine import VirtualEngine
from virtual.jobs import Workload

TERMINAL = {"succeeded", "failed", "cancelled", "timeout"}


class Broken(AssertionError):
    """An invariant does not hold."""


class Invariants:
    def __init__(self, database: Path, engines: Mapping[str, VirtualEngine], workload: Workload) -> None:
        self._connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, isolation_level=None)
        self._engines = engines
        self._workload = workload
        self.acknowledged: set[str] = set()
        self._ended: dict[str, str] = {}
        self._closed: dict[str, set[str]] = {}
        """Hosts that take no jobs with GPUs, and the tasks with GPUs that were there before."""
        self._out: dict[str, set[str]] = {}
        """Likewise of GPUs that take no jobs."""
        self._held: dict[str, set[str]] = {}
        """Held jobs, and the tasks that they had before."""
        self._known: set[str] = set()
        """Tasks."""

    def close(self) -> None:
        self._connection.close()

    def check(self, now: float | None = None) -> None:
        """`now`: the time by the service's clock, if it went on since the last check."""
        jobs = self._jobs()
        self._check_none_lost(jobs)
        self._check_ends_are_final(jobs)
        self._check_leases()
        self._check_closed_hosts()
        self._check_closed_gpus()
        self._check_held()
        self._check_starts(now)
        self._check_engines()

    def knows_that_it_ran(self, task_id: str) -> bool:
        return bool(self._rows(f"SELECT id FROM task WHERE id = '{task_id}' AND state != 'wanted'"))

    def settled(self) -> bool:
        """Whether nothing is left to do."""
        ended = all(status in TERMINAL for status, _, _ in self._jobs().values())
        return ended and not any(engine.fake.tasks() for engine in self._engines.values())

    def check_settled(self) -> None:
        jobs = self._jobs()
        if waiting := {job: row for job, row in jobs.items() if row[0] not in TERMINAL}:
            raise Broken(f"jobs that never end: {waiting}")
        if orphans := [spec.task_id for engine in self._engines.values() for spec in engine.fake.tasks()]:
            raise Broken(f"containers that nobody removes: {orphans}")
        if leases := self._rows("SELECT gpu_uuid, task_id FROM lease"):
            raise Broken(f"leases that nobody gives back: {leases}")
        if tasks := self._rows("SELECT id, state FROM task WHERE state != 'ended'"):
            raise Broken(f"tasks that never end: {tasks}")
        for job_id, (status, reason, _) in jobs.items():
            self._check_outcome(job_id, status, reason)

    def _check_none_lost(self, jobs: Iterable[str]) -> None:
        if lost := self.acknowledged - set(jobs):
            raise Broken(f"acknowledged jobs are not in the database: {sorted(lost)}")

    def _check_ends_are_final(self, jobs: Mapping[str, tuple[str, str, str]]) -> None:
        for job_id, (status, reason, message) in jobs.items():
            if before := self._ended.get(job_id):
                if status != before:
                    raise Broken(f"job {job_id} ended as {before}, and is {status} now")
            elif status in TERMINAL:
                if not reason or not message:
                    raise Broken(f"job {job_id} is {status} and does not say why: {reason!r}, {message!r}")
                self._ended[job_id] = status

    def _check_leases(self) -> None:
        query = "SELECT lease.gpu_uuid, task.id FROM lease JOIN task ON task.id = lease.task_id WHERE state = 'ended'"
        if leases := self._rows(query):
            raise Broken(f"leases of tasks that have ended: {leases}")

    def _check_closed_hosts(self) -> None:
        closed = {row[0] for row in self._rows("SELECT id FROM host WHERE gpu_fault != ''")}
        self._closed = {host: tasks for host, tasks in self._closed.items() if host in closed}
        for host in closed:
            query = f"SELECT id FROM task WHERE host_id = '{host}' AND json_array_length(gpu_uuids) > 0"
            tasks = {row[0] for row in self._rows(query)}
            if more := tasks - self._closed.setdefault(host, tasks):
                raise Broken(f"{host} takes no jobs with GPUs, and was given {sorted(more)}")

    def faulty_gpus(self, host_id: str) -> list[str]:
        return [row[0] for row in self._rows(f"SELECT uuid FROM gpu WHERE fault != '' AND host_id = '{host_id}'")]

    def check_heard(self, host_id: str) -> None:
        """What a probe told of broken GPUs, and the service has taken, is stored."""
        gpus = self._engines[host_id].gpus
        assert gpus is not None
        well = {row[0] for row in self._rows("SELECT uuid FROM gpu WHERE fault = ''")}
        told = {} if gpus.hung or gpus.mute else gpus.broken
        if wrong := {uuid: code for uuid, code in told.items() if uuid in well}:
            raise Broken(f"GPUs with Xids are in service: {wrong}")

    def _check_closed_gpus(self) -> None:
        query = "SELECT uuid, fault || unwatched || occupied AS why FROM gpu WHERE why != ''"
        out = dict(self._rows(query))
        self._out = {uuid: tasks for uuid, tasks in self._out.items() if uuid in out}
        for uuid, why in out.items():
            tasks = {row[0] for row in self._rows(f"SELECT id FROM task WHERE gpu_uuids LIKE '%\"{uuid}\"%'")}
            if more := tasks - self._out.setdefault(uuid, tasks):
                raise Broken(f"{uuid} is out of service ({why}), and was given to {sorted(more)}")

    def held(self) -> set[str]:
        """Return the unfinished jobs that are held."""
        return {row[0] for row in self._rows("SELECT id FROM job WHERE held_at IS NOT NULL AND finished_at IS NULL")}

    def _check_held(self) -> None:
        held = self.held()
        self._held = {job: tasks for job, tasks in self._held.items() if job in held}
        for job in held:
            tasks = {row[0] for row in self._rows(f"SELECT id FROM task WHERE job_id = '{job}'")}
            if more := tasks - self._held.setdefault(job, tasks):
                raise Broken(f"job {job} is held, and was started: {sorted(more)}")

    def _check_starts(self, now: float | None) -> None:
        rows = self._rows("SELECT task.id, start_after FROM task JOIN job ON job.id = job_id")
        for task, start_after in rows:
            if now is not None and task not in self._known and start_after is not None and float(start_after) > now:
                raise Broken(f"{task} was started at {now:.3f}, and may start from {start_after}")
        self._known = {task for task, _ in rows}

    def _check_engines(self) -> None:
        attempts: dict[str, tuple[int, str]] = {}
        for engine in self._engines.values():
            try:
                engine.fake.check()
            except AssertionError as error:
                raise Broken(str(error)) from error
            for spec in engine.running() if not engine.was_cut else ():
                attempt, where = attempts.setdefault(spec.job_id, (spec.attempt, engine.host_id))
                if attempt != spec.attempt:
                    raise Broken(
                        f"job {spec.job_id} runs twice: attempt {attempt} on {where}, {spec.attempt} on "
                        f"{engine.host_id}"
                    )

    def _check_outcome(self, job_id: str, status: str, reason: str) -> None:
        """A job that succeeded did its work; one that failed by its command did not."""
        exits = self._workload.exits.get(job_id, [])
        codes = {code for attempt, code in exits if attempt == exits[-1][0]}
        if status == "succeeded" and 0 not in codes:
            raise Broken(f"job {job_id} succeeded, and its command ended so: {exits}")
        if reason == "hung" and not self._workload.hung.get(job_id):
            raise Broken(f"job {job_id} is said to have hung, and it always worked")
        if job_id in self._workload.gpu_failures and reason in ("command_failed", "crash_loop") and not codes - {0}:
            raise Broken(f"job {job_id} is said to have failed, and only its GPUs did")
        if reason == "command_failed" and codes == {0}:
            raise Broken(f"job {job_id} is said to have failed, and its command ended with 0")

    def _jobs(self) -> dict[str, tuple[str, str, str]]:
        return {row[0]: (row[1], row[2], row[3]) for row in self._rows("SELECT id, state, reason, message FROM job")}

    def _rows(self, query: str) -> list[tuple[str, ...]]:
        return list(self._connection.execute(query))
