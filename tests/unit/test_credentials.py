"""How long credentials are good for, by a clock of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schedulearn.api.access.credentials import LINK_S, SESSION_S, Credentials
from schedulearn.scheduler.core.people import Actor, Role
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.people import accounts, identities

NOW = 1_800_000_000.0


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    found = Database(sqlite_url(tmp_path))
    yield found
    found.close()


def opened(db: Database, clock: Clock, token: str | None = "correct-horse-battery") -> Credentials:
    found = Credentials(token, clock)
    found.open(db)
    return found


def of_ada(found: Credentials, db: Database, expires_at: float | None) -> str:
    found.change(db, lambda conn: accounts.add_account(conn, "ada", Role.USER, NOW))
    maker = Actor(found.own, Role.ADMIN)
    options = {"maker": maker, "owner": "ada", "role": Role.USER, "expires_at": expires_at}
    return found.create_token(db, "ada's", lambda row, token: token, **options)


def test_a_token_ends_at_its_time_and_so_does_its_session(db: Database) -> None:
    clock = Clock()
    found = opened(db, clock)
    token = of_ada(found, db, NOW + 60)
    session = found.log_in(db, token)
    assert session is not None
    cookie, seconds = session
    assert seconds == 60
    grants = [found.find(token), found.find_session(cookie)]
    clock.now += 59
    assert all(grant is not None and found.holds(grant) for grant in grants)
    clock.now += 1
    assert found.find(token) is None
    assert found.find_session(cookie) is None
    assert not any(grant is not None and found.holds(grant) for grant in grants)
    assert found.log_in(db, token) is None


def test_a_session_ends_by_itself_by_logging_out_and_with_another_token_of_the_service(db: Database) -> None:
    clock = Clock()
    found = opened(db, clock)
    cookies = [session[0] for _ in range(2) if (session := found.log_in(db, "correct-horse-battery"))]
    assert all(found.find_session(cookie) for cookie in cookies)
    found.log_out(db, cookies[0])
    assert [found.find_session(cookie) is None for cookie in cookies] == [True, False]
    assert opened(db, clock).find_session(cookies[1]) is not None, "it outlives the service"
    assert opened(db, clock, "another-horse-battery").find_session(cookies[1]) is None
    clock.now += SESSION_S
    assert found.find_session(cookies[1]) is None


def test_a_signed_in_session_outlives_the_service_and_ends_by_itself_or_with_its_account(db: Database) -> None:
    clock = Clock()
    found = opened(db, clock)
    account = found.change(db, lambda conn: accounts.add_account(conn, "ada", Role.USER, NOW))
    cookie, seconds = found.sign_in(db, account, 600.0)
    again = opened(db, clock, "another-horse-battery")
    grant = again.find_session(cookie)
    assert grant is not None
    assert (grant.actor.name, grant.actor.role, grant.actor.tokens_end_at) == ("ada", Role.USER, None)
    assert again.find(cookie) is None, "it is no token"
    again.change(db, lambda conn: accounts.set_role(conn, "ada", Role.VIEWER, NOW))
    assert not again.holds(grant)
    clock.now += seconds
    assert again.find_session(cookie) is None
    cookie, _ = again.sign_in(db, account, 600.0)
    again.change(db, lambda conn: accounts.set_disabled(conn, "ada", "admin", NOW))
    assert again.find_session(cookie) is None
    again.change(db, lambda conn: accounts.set_disabled(conn, "ada", None, NOW))
    assert again.find_session(cookie) is None, "a session that was ended stays so"
    cookie, _ = again.sign_in(db, account, 600.0)
    again.change(db, lambda conn: accounts.remove_account(conn, "ada", NOW))
    assert again.find_session(cookie) is None
    again.change(db, lambda conn: accounts.add_account(conn, "ada", Role.ADMIN, NOW))
    assert again.find_session(cookie) is None, "nor is it a session of the next user of this name"


def test_tokens_rest_when_their_owner_has_not_signed_in_for_long(db: Database) -> None:
    clock = Clock()
    found = opened(db, clock)
    token = of_ada(found, db, None)
    found.max_age = 14 * 86_400
    clock.now += found.max_age
    assert found.find(token) is not None, "nobody signs in to this account"
    found.change(db, lambda conn: identities.link(conn, "ada", "https://id.lab.org", "7d3c", clock.now))
    clock.now += found.max_age - 1
    assert found.find(token) is not None
    clock.now += 1
    assert found.find(token) is None
    assert found.log_in(db, token) is None
    found.change(db, lambda conn: identities.note_sign_in(conn, "https://id.lab.org", "7d3c", clock.now))
    assert found.find(token) is not None


def test_the_login_link_is_good_once_and_for_an_hour(db: Database) -> None:
    clock = Clock()
    found = opened(db, clock)
    link = found.login_link()
    assert found.log_in(db, "no" + link) is None
    session = found.log_in(db, link)
    assert session is not None
    grant = found.find_session(session[0])
    assert grant is not None
    assert grant.actor.role is Role.ADMIN
    assert found.log_in(db, link) is None
    assert found.find(link) is None, "it is no token"
    late = found.login_link()
    clock.now += LINK_S
    assert found.log_in(db, late) is None


def test_less_than_before_ends_what_was_open(db: Database) -> None:
    """A stream that an admin opened does not go on for a viewer."""
    found = opened(db, Clock())
    grant = found.find(of_ada(found, db, None))
    assert grant is not None
    found.change(db, lambda conn: accounts.set_role(conn, "ada", Role.ADMIN, NOW))
    assert found.holds(grant)
    found.change(db, lambda conn: accounts.set_role(conn, "ada", Role.VIEWER, NOW))
    assert not found.holds(grant)
