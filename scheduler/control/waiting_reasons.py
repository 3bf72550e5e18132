"""Events with the reasons why jobs wait.

An event is written only if the reason changes, to limit the writes for a long queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType

from sqlalchemy import insert, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.cluster_state import Gpu, Host
from schedulearn.scheduler.core.model import Explanation, Plan, Snapshot, gpu_count
from schedulearn.scheduler.core.states import JobState, Reason
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Event, Job

KIND = "job.waiting"
UNSATISFIABLE = Reason.UNSATISFIABLE.value
_AT_ONCE = 200  # maximum events per cycle; the next cycle writes the rest


class WaitingLog:
    """Last recorded reason of each waiting job.

    It reads the reasons of earlier runs of the service from the database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._said: dict[str | None, str] | None = None
        """Job id -> code of the last event."""

    def tell(self, waiting: Mapping[str, str], now: float) -> None:
        """Record an event for each job whose reason has a new code.

        `waiting`: job id -> sentence. Jobs that are missing there no longer wait, and are forgotten."""
        if self._said is None:
            self._said = self._said_before(list(waiting))
        for job_id in self._said.keys() - waiting.keys():
            del self._said[job_id]
        news = {job_id: why for job_id, why in waiting.items() if self._said.get(job_id) != code_of(why)}
        if not news:
            return
        batch = dict(list(news.items())[:_AT_ONCE])
        self._db.write(lambda conn: _insert(conn, batch, now))
        self._said.update({job_id: code_of(why) for job_id, why in batch.items()})

    def _said_before(self, job_ids: list[str]) -> dict[str | None, str]:
        said: dict[str | None, str] = {}
        with self._db.read() as conn:
            for begin in range(0, len(job_ids), _AT_ONCE):
                some = job_ids[begin : begin + _AT_ONCE]
                query = select(col(Event.job_id), col(Event.kind), col(Event.code)).where(col(Event.job_id).in_(some))
                for job_id, kind, code in conn.execute(query.order_by(col(Event.id))):
                    if kind == KIND:
                        said[job_id] = code
                    elif kind.removeprefix("job.") in list(JobState):  # it did something else since
                        said.pop(job_id, None)
        return said


def add_shortage_reasons(
    reasons: Mapping[str, str],
    hosts: Sequence[Host],
    gpus: Sequence[Gpu],
    ready: Set[str],
    unknown: Mapping[str, str] = MappingProxyType({}),
    settling: Mapping[str, str] = MappingProxyType({}),
) -> Mapping[str, str]:
    """Return `reasons`, with the unusable GPUs added for jobs that need more.

    Policies only see usable GPUs. `ready`: hosts that answer. `unknown`: host -> why its GPUs can't be determined.
    `settling`: GPU that a job has just left -> condition for its reuse."""
    closed = {host.id for host in hosts if not host.active}
    maintained = {host.id for host in hosts if host.window_id is not None}
    broken = {host.id: host.gpu_fault for host in hosts if host.gpu_fault and host.active}
    counts = Counter(
        "on hosts that do not answer" if gpu.host_id not in ready and gpu.host_id not in closed
        else "on hosts in maintenance" if gpu.host_id in maintained
        else "on cordoned hosts" if gpu.host_id in closed
        else "unhealthy" if gpu.fault
        else "on hosts that take no jobs with GPUs" if gpu.host_id in broken
        else "used by others" if gpu.occupied
        else "that can't be asked" if gpu.unwatched
        else "cordoned" if gpu.cordoned
        else ""
        for gpu in gpus
    )  # fmt: skip
    missing = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()) if what)
    cant_tell = "".join(f" {why[:1].upper()}{why[1:]}." for host, why in sorted(broken.items()) if host in ready)
    cant_tell += "".join(f" On {host}: {why}." for host, why in sorted(unknown.items()) if host in ready)
    left = [f"GPU {gpu.ordinal} of {gpu.host_id}: {settling[gpu.uuid]}" for gpu in gpus if gpu.uuid in settling]
    cant_tell += f" {'; '.join(left[:3])}." if left else ""
    if not missing and not cant_tell:
        return reasons
    notes = {
        UNSATISFIABLE: (f" Not among them: {missing}." if missing else "") + cant_tell,
        Reason.WAITING_FOR_GPUS.value: cant_tell,
    }
    return {
        job_id: Explanation(code, why + note) if (note := notes.get(code := code_of(why), "")) else why
        for job_id, why in reasons.items()
    }


def add_leaving_reasons(reasons: Mapping[str, str], snapshot: Snapshot, plan: Plan) -> Mapping[str, str]:
    """Return `reasons`, with those of jobs that wait for leaving jobs.

    Their GPUs are reserved, and still used by jobs that are about to end. Jobs that can start at once get no reason."""
    leaving = {host.id for host in snapshot.hosts if host.leaving}
    kept = {}
    for job in snapshot.jobs:
        mine = plan.allocations.get(job.id, {})
        if not job.allocation and job.id not in reasons and leaving.intersection(mine) and any(mine.values()):
            gpus = sum(mine.values())
            what = f"{gpu_count(gpus)} of {', '.join(sorted(mine))} {'is' if gpus == 1 else 'are'} kept for it"
            sentence = f"{what}; it starts when those that leave {'it' if gpus == 1 else 'them'} have ended."
            kept[job.id] = Explanation(Reason.WAITING_FOR_GPUS.value, sentence)
    return {**reasons, **kept}


def code_of(why: str) -> str:
    """Return the code of a reason."""
    return why.code if isinstance(why, Explanation) else Reason.WAITING_FOR_GPUS.value


def why_waiting(reasons: Mapping[str, str], job_id: str) -> Explanation | None:
    """Return why a job waits; None: the last decision gave no reason."""
    why = reasons.get(job_id)
    if why is None:
        return None
    return why if isinstance(why, Explanation) else Explanation(code_of(why), why)


def _insert(conn: Connection, news: Mapping[str, str], now: float) -> None:
    queued = set(
        conn.execute(
            select(col(Job.id)).where(col(Job.id).in_(list(news)), col(Job.state) == JobState.QUEUED)
        ).scalars()
    )
    rows = [
        {"at": now, "kind": KIND, "job_id": job_id, "code": code_of(why), "message": str(why), "data": {}}
        for job_id, why in news.items()
        if job_id in queued
    ]
    if rows:
        conn.execute(insert(Event), rows)
