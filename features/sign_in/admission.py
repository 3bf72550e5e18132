"""Admission: the account of a person whom a provider or proxy vouches for.

The account is found by issuer and subject alone. A name never leads into an account that somebody else has.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from sqlalchemy.engine import Connection

from schedulearn.api.access.sign_in import Claims, SignInRule, SignInSettings, account_name, host_ids
from schedulearn.scheduler.control.people import set_ids
from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.core.planning.quotas import Bounds
from schedulearn.scheduler.core.task import RunAs
from schedulearn.scheduler.errors import ConflictError, ForbiddenError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.people import accounts, groups, identities, quotas
from schedulearn.scheduler.store.people.accounts import Account


@dataclass(frozen=True)
class Person:
    """Somebody at a provider or proxy, and what the rules give them."""

    issuer: str
    subject: str
    name: str
    """Name of a new account; empty if the claims give none."""
    why_no_name: str
    role: Role | None
    """None: they may not sign in."""
    rule: SignInRule | None
    ids: RunAs | None


def person_of(settings: SignInSettings, issuer: str, claims: Claims, own_uid: int) -> Person:
    """Return who the claims are about. Raises ForbiddenError for IDs on the hosts that can't be."""
    rule = settings.rule_for(claims)
    role = None if rule is None or rule.role == "none" else Role(rule.role)
    try:
        name, why = account_name(claims, settings.sign_in_claims.name), ""
    except ValueError as error:
        name, why = "", str(error)
    try:
        ids = host_ids(claims, settings.sign_in_claims, name)
    except ValueError as error:
        raise ForbiddenError(f"{error}: an admin of the provider must correct it") from error
    if ids is not None and ids.uid == own_uid:
        raise ForbiddenError(
            f"uid {ids.uid} runs this service, so nobody else may have it: an admin of the provider must correct it"
        )
    return Person(issuer, str(claims["sub"]), name, why, role, rule, ids)


class Admission:
    """Changes of accounts at a sign-in. Every method takes the connection of its caller's transaction."""

    def __init__(self, settings: SignInSettings, own_account: str, writable: Collection[str]) -> None:
        """`own_account`: name of the account that runs the service. `writable`: data sets that jobs may write."""
        self._settings = settings
        self._own_account = own_account
        self._writable = writable

    def admit(self, conn: Connection, person: Person) -> Account:
        """Return the account of a person, made or changed by the rules. Raises ForbiddenError.

        A refusal changes nothing, except that `shut_out` may follow it."""
        assert person.role is not None
        now = time.time()
        account = identities.account_of(conn, person.issuer, person.subject)
        if account is None:
            account = self._new_account(conn, person, person.role, now)
        elif account.disabled_by == "admin":
            raise ForbiddenError(
                f"{account.name} is disabled here: ask an admin (schedulearn users enable {account.name})"
            )
        elif account.disabled_by is not None:
            accounts.set_disabled(conn, account.name, None, now)
        accounts.set_role(conn, account.name, person.role, now)
        self._set_group(conn, account.name, person.rule, now)
        self._set_quota(conn, account.name, person.rule, now)
        if person.ids is not None:
            self._set_ids(conn, account, replace(person.ids, user=account.name), now)
        identities.note_sign_in(conn, person.issuer, person.subject, now)
        return accounts.get_account(conn, account.name)

    def shut_out(self, conn: Connection, person: Person) -> None:
        """Disable the account of a person whom no rule lets in any more, until one does."""
        account = identities.account_of(conn, person.issuer, person.subject)
        if account is not None and account.disabled_by is None:
            accounts.set_disabled(conn, account.name, "rules", time.time())

    def _new_account(self, conn: Connection, person: Person, role: Role, now: float) -> Account:
        if not person.name:
            raise ForbiddenError(person.why_no_name)
        name = person.name
        taken = identities.namesake_of(conn, name)
        if taken is None and name == self._own_account.lower():
            raise ForbiddenError(f"the name {name} belongs to the account that runs this service")
        if taken is None and accounts.owns_something(conn, name):
            raise ForbiddenError(
                f"jobs or data here belong to the name {name}, which has no account. If they are yours, ask an admin: "
                f"{_add_command(name)}{_link_command(name, person)}"
            )
        if taken is not None:
            raise ForbiddenError(
                f"there is an account {taken} here that does not sign in this way. If it is yours, ask an admin: "
                f"{_link_command(taken, person)}"
            )
        account = accounts.add_account(conn, name, role, now)
        identities.link(conn, name, person.issuer, person.subject, now)
        return account

    def _set_group(self, conn: Connection, name: str, rule: SignInRule | None, now: float) -> None:
        """Put an account into the group of its rule, and out of those of other rules."""
        wanted = rule.group if rule is not None else None
        known = groups.load_groups(conn)
        present = known.group_of.get(name)
        if wanted == present:
            return
        if wanted is not None:
            if wanted not in known.bounds:
                groups.set_group(conn, wanted, Bounds(), now)
            groups.add_member(conn, wanted, name, now)
        elif present in {each.group for each in self._settings.sign_in_rules}:
            groups.remove_member(conn, str(present), name, now)

    def _set_quota(self, conn: Connection, name: str, rule: SignInRule | None, now: float) -> None:
        """Set the quota of the rule. If any rule has one, none remains from an earlier sign-in."""
        if all(each.quota is None for each in self._settings.sign_in_rules):
            return
        wanted, present = rule.quota if rule is not None else None, quotas.load_quotas(conn).get(name)
        if wanted == present:
            return
        if wanted is not None:
            quotas.set_quota(conn, name, wanted, now)
        else:
            quotas.remove_quota(conn, name, now)

    def _set_ids(self, conn: Connection, account: Account, ids: RunAs, now: float) -> None:
        """Set the IDs on the hosts. While a job runs with them, the old ones stay: nobody is locked out for that."""
        try:
            set_ids(conn, account.name, ids, self._writable, now)
        except ConflictError as error:
            message = f"User {account.name} signed in with other IDs than before, which stay: {error.detail}"
            repository.add_event(conn, now, "user.changed", code="ids_stay", message=message)


def _add_command(name: str) -> str:
    return f"schedulearn users add {name} && "


def _link_command(name: str, person: Person) -> str:
    """Return the command for an admin to copy. The subject is somebody else's text, so it is quoted."""
    issuer, subject = shlex.quote(person.issuer), shlex.quote(person.subject)
    return f"schedulearn users link {name} --issuer {issuer} --subject {subject}"
