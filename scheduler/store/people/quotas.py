"""Queries and changes of quotas.

Every function takes the connection of its caller's transaction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, fields

from sqlalchemy import delete, func, insert, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.planning.cpu_only import CpuUse, cpu_use
from schedulearn.scheduler.core.planning.quotas import EVERYBODY, Quota, QuotaHolder, Quotas
from schedulearn.scheduler.core.states import WAITS, TaskPhase
from schedulearn.scheduler.errors import NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.models import Gpu, Job, Lease, Task
from schedulearn.scheduler.store.people.tables import GroupMember, QuotaTable

_COLUMNS = [col(getattr(QuotaTable, each.name)) for each in fields(Quota)]


def load_quotas(db: Connection) -> dict[str, Quota]:
    """Return the quotas by user, in the order of names."""
    rows = db.execute(select(col(QuotaTable.user), *_COLUMNS).order_by(col(QuotaTable.user)))
    return {user: Quota(*values) for user, *values in rows}


def set_quota(db: Connection, user: str, quota: Quota, now: float) -> None:
    db.execute(delete(QuotaTable).where(col(QuotaTable.user) == user))
    db.execute(insert(QuotaTable).values(user=user, **asdict(quota)))
    bounds = {name: value for name, value in asdict(quota).items() if value is not None}
    said = ", ".join(f"{name} {value:g}" for name, value in bounds.items())
    repository.add_event(
        db, now, "quota.changed", message=f"Quota of {_whom(user)}: {said}.", data=bounds, about=f"quota:{user}"
    )


def remove_quota(db: Connection, user: str, now: float) -> None:
    """Remove a user's quota. Raises NotFoundError."""
    if not db.execute(delete(QuotaTable).where(col(QuotaTable.user) == user)).rowcount:
        raise NotFoundError(f"there is no quota for {user!r}")
    repository.add_event(
        db, now, "quota.removed", message=f"The quota of {_whom(user)} was removed.", about=f"quota:{user}"
    )


def _whom(user: str) -> str:
    return "all others" if user == EVERYBODY else user


def count_waiting(db: Connection, holder: QuotaHolder) -> int:
    """Return the number of waiting jobs of a user, or of all users of a group."""
    members = select(col(GroupMember.user)).where(col(GroupMember.group) == holder.name)
    whose = col(Job.user).in_(members) if holder.is_group else col(Job.user) == holder.name
    query = select(func.count()).where(whose, col(Job.state).in_([*WAITS]))
    return int(db.execute(query.select_from(Job)).scalar() or 0)


def held_by_type(db: Connection) -> Mapping[str, Counter[str]]:
    """Return the GPUs that each user's jobs hold, by GPU type."""
    query = (
        select(col(Job.user), col(Gpu.type), func.count())
        .join(Task, col(Task.job_id) == col(Job.id))
        .join(Lease, col(Lease.task_id) == col(Task.id))
        .join(Gpu, col(Gpu.uuid) == col(Lease.gpu_uuid))
        .group_by(col(Job.user), col(Gpu.type))
    )
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for user, gpu_type, gpus in db.execute(query):
        found[user][gpu_type] += gpus
    return found


def cpu_use_of(db: Connection, quotas: Quotas) -> Mapping[QuotaHolder, CpuUse]:
    """Return the resources that live jobs without GPUs take, by user and group."""
    query = (
        select(col(Job.user), col(Job.cpus), col(Job.memory_bytes), col(Job.shm_bytes))
        .join(Task, col(Task.job_id) == col(Job.id))
        .where(col(Task.state) != TaskPhase.ENDED, col(Job.required_gpus) == 0)
    )
    found: defaultdict[QuotaHolder, CpuUse] = defaultdict(CpuUse)
    for row in db.execute(query):
        need = cpu_use(row)
        for holder in quotas.holders_of(row.user):
            found[holder] = found[holder].plus(need)
    return found


def room_to_wait(db: Connection, quotas: Quotas, user: str) -> int | None:
    """Return the number of further jobs of a user that may wait; None: no bound.

    Both the user's quota and their group's apply."""
    bounds = [(quotas.bounds_of(holder).waiting, holder) for holder in quotas.holders_of(user)]
    return min((most - count_waiting(db, holder) for most, holder in bounds if most is not None), default=None)
