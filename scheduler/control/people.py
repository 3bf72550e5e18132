"""Removal of users with their objects, and changes of uid and gids."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from sqlalchemy import ColumnElement, delete, func, or_, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.control.service import cancel_job
from schedulearn.scheduler.core.states import TERMINAL, TaskPhase
from schedulearn.scheduler.core.task import RunAs
from schedulearn.scheduler.errors import ConflictError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.data import versions
from schedulearn.scheduler.store.data.tables import DataVersion
from schedulearn.scheduler.store.models import Job, Task
from schedulearn.scheduler.store.owned import OWNED
from schedulearn.scheduler.store.people import accounts
from schedulearn.scheduler.store.people.tables import (
    AccountTable,
    GroupMember,
    QuotaTable,
    RegistryLoginTable,
    SecretTable,
)


class OfJobs(StrEnum):
    """Treatment of the unfinished jobs and sweeps of a removed user."""

    CANCEL = "cancel"
    KEEP = "keep"


class OfThings(StrEnum):
    """Treatment of a removed user's secrets and registry logins, or data sets and models."""

    REMOVE = "remove"
    KEEP = "keep"


def remove_person(
    conn: Connection, name: str, jobs: OfJobs | None, secrets: OfThings | None, data: OfThings | None, now: float
) -> None:
    """Remove a user.

    None for `jobs`, `secrets` or `data` means no choice. Raises ConflictError if the user has such objects without a
    choice, or a job needs data to be removed. Raises NotFoundError for an unknown user."""
    accounts.get_account(conn, name)
    live = select(col(Job.id)).where(col(Job.user) == name, col(Job.state).not_in([each.value for each in TERMINAL]))
    unfinished = list(conn.execute(live).scalars())
    going = [(kind.cancel, each) for kind in OWNED.values() for each in kind.unfinished_of(conn, name)]
    mine = (col(DataVersion.user) == name, col(DataVersion.removed_at).is_(None))
    found = conn.execute(select(col(DataVersion.name), col(DataVersion.version)).where(*mine)).all()
    count = sum(conn.execute(select(func.count()).where(of)).scalar() or 0 for of in _secrets_of(name))
    asked = (
        (jobs, len(unfinished) + len(going), "jobs and sweeps that have not ended", "jobs=cancel or keep"),
        (secrets, count, "secrets and registry logins", "secrets=remove or keep"),
        (data, len(found), "versions of data sets and models", "data=remove or keep"),
    )
    if open_questions := [(number, what, how) for said, number, what, how in asked if said is None and number]:
        has = ", ".join(f"{number} {what}" for number, what, _ in open_questions)
        ways = ", ".join(how for *_, how in open_questions)
        raise ConflictError(f"{name} has {has}: choose what happens to them ({ways})")
    if jobs is OfJobs.CANCEL:
        for cancel, each in going:
            if cancel is not None:
                cancel(conn, each, now)
        for job_id in unfinished:
            cancel_job(conn, repository.get_job(conn, job_id), now)
    if jobs is not OfJobs.KEEP:  # kept jobs stay within the quota
        conn.execute(delete(QuotaTable).where(col(QuotaTable.user) == name))
        conn.execute(delete(GroupMember).where(col(GroupMember.user) == name))
    if data is OfThings.REMOVE:
        for reference in found:
            versions.remove(conn, reference.name, reference.version, now)
    if secrets is OfThings.REMOVE:
        conn.execute(delete(SecretTable).where(col(SecretTable.owner) == name))
        conn.execute(delete(RegistryLoginTable).where(col(RegistryLoginTable.user) == name))
    accounts.remove_account(conn, name, now)


def _secrets_of(name: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return col(SecretTable.owner) == name, col(RegistryLoginTable.user) == name


def set_ids(conn: Connection, name: str, ids: RunAs | None, writable: Collection[str], now: float) -> accounts.Account:
    """Set the ids with which a user's jobs write host folders.

    A running container can't change its uid and gids. Raises ConflictError if a job runs with an id that the user would
    lose, or with the user's new uid. Only jobs that mount `writable` folders count. Raises NotFoundError for an unknown
    user."""
    before = accounts.get_account(conn, name)
    lost = _numbers(before.uid, before.gid, before.gids) - (_numbers(ids.uid, ids.gid, ids.gids) if ids else set())
    uid = ids.uid if ids is not None and ids.uid != before.uid else None
    for job_id, user in _writing(conn, name, uid, writable):
        what = f"uid {uid}" if user != name else " and ".join(f"{kind} {number}" for kind, number in sorted(lost))
        if what:
            raise ConflictError(
                f"job {job_id} of {user} runs with {what} on the hosts until it ends: cancel it, or wait for its "
                "end, before you change this",
                field="uid",
            )
    return accounts.set_ids(conn, name, ids, now)


def _numbers(uid: int | None, gid: int | None, gids: Collection[int]) -> set[tuple[str, int]]:
    numbers = {("gid", number) for number in (gid, *gids) if number is not None}
    return numbers if uid is None else {*numbers, ("uid", uid)}


def _writing(conn: Connection, name: str, uid: int | None, writable: Collection[str]) -> list[tuple[str, str]]:
    """Return id and user of live jobs that mount `writable` folders.

    It covers jobs of the user and of all accounts with this uid, including removed ones."""
    others = select(col(AccountTable.name)).where(col(AccountTable.uid) == uid)
    query = (
        select(col(Job.id), col(Job.user), col(Job.spec))
        .where(or_(col(Job.user) == name, col(Job.user).in_(others)))
        .where(col(Job.id).in_(select(col(Task.job_id)).where(col(Task.state) != TaskPhase.ENDED)))
        .order_by(col(Job.id))
    )
    return [(row.id, row.user) for row in conn.execute(query) if set(writable).intersection(row.spec.get("mounts", ()))]
