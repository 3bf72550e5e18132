"""Status of jobs in responses, in addition to their rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.api.answers.job import UNSERVED, EtaOut, GpuRef, JobNow
from schedulearn.api.instants import iso
from schedulearn.api.job_failures import failures_of, gpus_of
from schedulearn.api.state import Cluster
from schedulearn.scheduler.control.waiting_reasons import why_waiting
from schedulearn.scheduler.core.named_jobs import named_jobs
from schedulearn.scheduler.core.outcomes.lateness import Late, expected_end, late
from schedulearn.scheduler.core.outcomes.retries import why_resting
from schedulearn.scheduler.core.outcomes.unused import idle_ends
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.errors import InvalidError, PolicyFault
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store.accounting.usage import ReceivedService, live_service
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.job_list import FAILED, progress_of
from schedulearn.scheduler.store.models import Gpu
from schedulearn.scheduler.store.people.visibility import names_of_jobs


def standing_of(cluster: Cluster, db: Connection, rows: Sequence[Row[Any]]) -> Iterator[JobNow]:
    """Yield the status of each job, in the order of the rows."""
    now = time.time()
    holders = [row.id for row in rows if row.state.holds_gpus]
    failed = [row for row in rows if row.state in FAILED]
    gpus: dict[str, list[GpuRef]] = {}
    hosts: dict[str, list[str]] = {}
    served: dict[str, ReceivedService] = {}
    ends: Mapping[str, float | None] = {}
    index: dict[str, int] = {}
    if holders or failed:
        index = {gpu.uuid: gpu.ordinal for gpu in db.execute(select(Gpu).order_by(col(Gpu.ordinal)))}
    if holders:
        live = tasks_of(db, holders, live=True)
        served = live_service(live, now)
        for task in live:
            gpus.setdefault(task.job_id, []).extend(gpus_of(task, index))
            hosts.setdefault(task.job_id, []).append(task.host_id)
        ends = idle_ends(rows, live, cluster.loop.unused_since)
    failures = failures_of(cluster, db, failed, index) if failed else {}
    progress = progress_of(db, [row.id for row in rows])
    waiting, etas = cluster.loop.waiting, cluster.forecaster.etas
    silent, hung = cluster.silence.silent, cluster.hangs.hung
    names = names_of_jobs(db, set().union(*(named_jobs(f"{row.message} {waiting.get(row.id, '')}") for row in rows)))
    for row in rows:
        job_id: str = row.id
        eta = etas.jobs.get(job_id)
        yield JobNow(
            gpus=gpus.get(job_id, ()),
            hosts=hosts.get(job_id, ()),
            waiting=why_resting(row, now) or why_waiting(waiting, job_id),
            eta=EtaOut.of(eta, etas.until) if eta is not None else None,
            expected_end=expected_end(eta, etas.until),
            served=served.get(job_id, UNSERVED),
            silent=silent.get(job_id),
            hang=hung.get(job_id),
            progress=progress.get(job_id),
            failure=failures.get(job_id),
            idle_ends_at=ends.get(job_id),
            names=names,
        )


def admitted(cluster: Cluster, spec: JobSpec, refuse_late: bool) -> JobNow:
    """Return the forecast of a new job with a deadline, before it is stored.

    It is empty if the history of the job's family does not suffice. It takes at most 1 s of processor time. Raises
    InvalidError if the job would be late and `refuse_late` is set."""
    assert spec.deadline is not None
    deadline, now = spec.deadline.timestamp(), time.time()
    known = cluster.profiles.knows_lengths(spec.family or "", spec.user or "")
    try:
        foreseen = known and deadline > now and not spec.hold
        eta, until = cluster.forecaster.predict_job(spec) if foreseen else (None, now)
    except PolicyFault:
        return JobNow()  # without a simulation of the policy there is no forecast
    end = expected_end(eta, until)
    if refuse_late and late(deadline, JobState.QUEUED, None, end, now) in (Late.EXPECTED, Late.YES):
        why = f"it is expected to end at {iso(end)}, after its deadline" if end else "its deadline has passed"
        raise InvalidError(f"{why} ({iso(deadline)}): give a later one, or leave out refuse_late", field="deadline")
    return JobNow(eta=None if eta is None else EtaOut.of(eta, until), expected_end=end)
