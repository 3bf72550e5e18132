"""Identities and sessions of accounts, in each kind of database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import insert

from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store.accounting.usage import DeletedTask
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people import accounts, identities, tokens
from schedulearn.scheduler.store.people.tokens import Session

ISSUER, NOW = "https://id.lab.org", 1_000_000.0


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    found = Database(database_url)
    yield found
    found.close()


def test_a_person_has_one_account_until_it_is_unlinked_or_removed(database: Database) -> None:
    for name in ("ada", "ben"):
        database.write(lambda conn, name=name: accounts.add_account(conn, name, Role.USER, NOW))
    with database.read() as conn:
        assert identities.account_of(conn, ISSUER, "1") is None
        assert [identities.namesake_of(conn, name) for name in ("ADA", "ada", "carol")] == ["ada", "ada", None]
    for _ in range(2):
        database.write(lambda conn: identities.link(conn, "ada", ISSUER, "1", NOW))
    with pytest.raises(ConflictError, match="signs in as ada"):
        database.write(lambda conn: identities.link(conn, "ben", ISSUER, "1", NOW))
    database.write(lambda conn: identities.link(conn, "ben", "proxy", "1", NOW))
    database.write(lambda conn: identities.note_sign_in(conn, ISSUER, "1", NOW + 5))
    with database.read() as conn:
        ada = identities.account_of(conn, ISSUER, "1")
        assert ada is not None
        assert ada.name == "ada"
        assert identities.last_sign_ins(conn) == {"ada": NOW + 5, "ben": NOW}
        assert [each.signed_in_at for each in identities.identities_by_account(conn)[ada.id]] == [NOW + 5]
    database.write(lambda conn: accounts.remove_account(conn, "ada", NOW))
    database.write(lambda conn: accounts.add_account(conn, "ada", Role.ADMIN, NOW))
    with database.read() as conn:
        assert identities.account_of(conn, ISSUER, "1") is None, "the next account of the name is not theirs"
    database.write(lambda conn: identities.unlink(conn, "ben", NOW))
    with pytest.raises(NotFoundError):
        database.write(lambda conn: identities.unlink(conn, "ben", NOW))


def test_an_account_has_a_bounded_number_of_identities_and_sessions(database: Database) -> None:
    ada = database.write(lambda conn: accounts.add_account(conn, "ada", Role.USER, NOW))
    for number in range(identities.MAX_OF_ACCOUNT):
        database.write(lambda conn, number=number: identities.link(conn, "ada", ISSUER, str(number), NOW))
    with pytest.raises(ConflictError, match="already"):
        database.write(lambda conn: identities.link(conn, "ada", ISSUER, "more", NOW))
    database.write(lambda conn: tokens.add_session(conn, Session("of-a-token", None, "x", NOW, NOW + 600)))
    for number in range(tokens.MAX_SESSIONS_OF_ACCOUNT + 1):
        session = Session(f"hash-{number}", None, "", NOW + number, NOW + 600, ada.id)
        database.write(lambda conn, session=session: tokens.add_session(conn, session))
    with database.read() as conn:
        hashes = {session.hash for session in tokens.list_sessions(conn)}
    assert len(hashes) == tokens.MAX_SESSIONS_OF_ACCOUNT + 1
    assert "of-a-token" in hashes
    assert "hash-0" not in hashes


def test_what_a_name_owns_without_an_account_is_found(database: Database) -> None:
    with database.read() as conn:
        assert not accounts.owns_something(conn, "carol")
    row = {
        "id": "t", "job_id": "j", "user": "carol", "labels": {}, "created_at": NOW, "gpu_uuids": [], "energy_joules": 0
    }  # fmt: skip
    database.write(lambda conn: conn.execute(insert(DeletedTask).values(**row)))
    with database.read() as conn:
        assert accounts.owns_something(conn, "carol")
        assert not accounts.owns_something(conn, "car")
