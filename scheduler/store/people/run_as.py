"""User and group ids with which jobs write to folders of hosts."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core.task import RunAs
from schedulearn.scheduler.store.people.tables import AccountTable

_IDS = select(col(AccountTable.name), col(AccountTable.uid), col(AccountTable.gid), col(AccountTable.gids))


def own_account() -> str:
    """Return the name of the account that runs the service, its first administrator."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return "admin"


def load_run_as(conn: Connection, users: Collection[str]) -> dict[str, RunAs]:
    """Return the ids of those users who have a uid.

    The account that runs the service uses its own ids, unless they are root's."""
    found = {}
    if (own := own_account()) in users and os.geteuid() and os.getegid():
        found[own] = RunAs(own, os.geteuid(), os.getegid())
    for name, uid, gid, gids in conn.execute(_IDS.where(col(AccountTable.name).in_(users))):
        if uid is not None and gid is not None:
            found[name] = RunAs(name, uid, gid, tuple(gids))
    return found


def why_none(user: str) -> str:
    """Return why a user has no uid, and what to do about it."""
    if user == own_account():
        return (
            f"{user} runs this service as root, and jobs may not write there as root: submit it for a user who has a "
            "uid "
            "(schedulearn users add NAME --uid UID --gid GID, then submit --user NAME), or run the service as another "
            "account"
        )
    return f"{user} has no uid: ask an admin to set it (schedulearn users ids {user} --uid UID --gid GID)"
