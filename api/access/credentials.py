"""Credentials: the service's own token, named tokens, and browser sessions."""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy.engine import Connection

from schedulearn.api.access.logins import LoginRequests
from schedulearn.api.access.refusals import RefusedSignIns
from schedulearn.scheduler.core.people import Actor, Role, least
from schedulearn.scheduler.errors import ForbiddenError
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people import accounts, identities, tokens
from schedulearn.scheduler.store.people.accounts import Account
from schedulearn.scheduler.store.people.acting import ACTOR
from schedulearn.scheduler.store.people.run_as import own_account
from schedulearn.scheduler.store.people.tokens import Session, Token

T = TypeVar("T")

PREFIX = "sl_"
SESSION_S = 7 * 86400.0
LINK_S = 3600.0
"""Seconds for which the login link that the service prints at its start is valid, once."""
_USE_EVERY_S = 60.0  # minimum seconds between writes of `last_used_at`


@dataclass(frozen=True)
class Grant:
    """Identity that a credential proves, and the credential's hash, by which it may end."""

    actor: Actor
    digest: str
    proxy_user: str = ""
    """User whom the proxy must name in each request; empty: no proxy vouches for the session."""


@dataclass(frozen=True)
class _Known:
    """Contents of the database, as of the last change."""

    roles: Mapping[str, Role] = field(default_factory=dict)
    """Roles by name of those accounts that are not disabled."""
    names: Mapping[int, str] = field(default_factory=dict)
    """Names by ID of the same accounts."""
    tokens: Mapping[str, Token] = field(default_factory=dict)
    """Tokens by hash."""
    sessions: Mapping[str, Session] = field(default_factory=dict)
    signed_in_at: Mapping[str, float] = field(default_factory=dict)
    """Time of the last sign-in by name, for accounts that a provider or proxy vouches for."""

    def by_id(self, token_id: int | None) -> Token | None:
        return next((token for token in self.tokens.values() if token.id == token_id), None)


class Credentials:
    """Credentials of one database, also in memory: every request is checked.

    Before `open` only the service's own token is known."""

    def __init__(self, token: str | None, clock: Callable[[], float] = time.time) -> None:
        """`token`: the service's own; None: it has none."""
        self.own = own_account()
        self._own_digest = digest_of(token) if token else None
        self._clock = clock
        self._db: Database | None = None
        self._known = _Known()
        self._used: dict[int, float] = {}
        self._link: tuple[str, float] | None = None
        self.logins = LoginRequests()
        self.max_age = math.inf
        """Seconds after the last sign-in after which a person's tokens no longer work."""
        self.refused = RefusedSignIns()

    def open(self, db: Database) -> None:
        self._db = db
        self._load(db)

    def _load(self, db: Database) -> None:
        with db.read() as conn:
            enabled = [account for account in accounts.list_accounts(conn) if account.disabled_by is None]
            self._known = _Known(
                roles={account.name: account.role for account in enabled},
                names={account.id: account.name for account in enabled},
                tokens={token.hash: token for token in tokens.list_tokens(conn)},
                sessions={session.hash: session for session in tokens.list_sessions(conn)},
                signed_in_at=identities.last_sign_ins(conn),
            )

    def find(self, given: str) -> Grant | None:
        """Return the identity that a token proves; None if it is unknown or no longer valid.

        Records that the token was used."""
        digest = digest_of(given)
        grant = self._grant(digest)
        if grant is not None and grant.actor.token_id is not None:
            self._note_use(grant.actor.token_id)
        return grant

    def find_session(self, cookie: str) -> Grant | None:
        """Return the identity that a session's cookie proves; None if it is unknown or no longer valid."""
        return self._session_grant(digest_of(cookie))

    def note_refusal(self, address: str) -> None:
        """Record that an invalid token came from an address. Call it in the event loop."""
        if self._db is not None:
            self.refused.note(self._db, address)

    def holds(self, grant: Grant) -> bool:
        """Return whether a grant's credential is still valid, with at least the same role."""
        now = self._grant(grant.digest) or self._session_grant(grant.digest)
        return now is not None and now.actor.role.includes(grant.actor.role)

    def _grant(self, digest: str) -> Grant | None:
        if self._own_digest is not None and hmac.compare_digest(digest, self._own_digest):
            return Grant(Actor(self.own, Role.ADMIN), digest)
        token = self._known.tokens.get(digest)
        actor = self._actor(token) if token is not None else None
        return Grant(actor, digest) if actor is not None else None

    def _session_grant(self, digest: str) -> Grant | None:
        session = self._known.sessions.get(digest)
        if session is None or session.expires_at <= self._clock():
            return None
        if session.account_id is not None:
            return self._signed_in(session)
        if session.token_id is None:
            good = self._own_digest is not None and hmac.compare_digest(session.began_by, self._own_digest)
            return Grant(Actor(self.own, Role.ADMIN, None, session.expires_at), digest) if good else None
        token = self._known.by_id(session.token_id)
        actor = self._actor(token) if token is not None else None
        return Grant(actor, digest) if actor is not None else None

    def _signed_in(self, session: Session) -> Grant | None:
        """Return the identity of a session that a provider or proxy vouches for."""
        name = self._known.names.get(session.account_id) if session.account_id is not None else None
        if name is None:
            return None
        actor = Actor(name, self._known.roles[name], None, session.expires_at, signed_in=True)
        return Grant(actor, session.hash, session.proxy_user)

    def _actor(self, token: Token) -> Actor | None:
        if token.expires_at is not None and token.expires_at <= self._clock():
            return None
        if token.owner and self._known.signed_in_at.get(token.owner, math.inf) + self.max_age <= self._clock():
            return None
        owns = Role.ADMIN if token.owner == "" else self._known.roles.get(token.owner)
        if owns is None:
            return None
        role = least(token.role, owns)
        counts_all = role is Role.METRICS and owns is Role.ADMIN
        return Actor(token.owner or self.own, role, token.id, token.expires_at, counts_all=counts_all)

    def _note_use(self, token_id: int) -> None:
        now = self._clock()
        if self._db is not None and now - self._used.get(token_id, 0.0) > _USE_EVERY_S:
            self._used[token_id] = now
            self._db.submit(lambda db: tokens.note_use(db, token_id, now))

    def change(self, db: Database, change: Callable[[Connection], T]) -> T:
        """Change accounts, tokens or sessions. The change is in force once it is durable."""
        changed = db.write(change)
        self._load(db)
        return changed

    def create_token(
        self,
        db: Database,
        name: str,
        answer: Callable[[Token, str], T],
        *,
        maker: Actor,
        owner: str,
        role: Role,
        expires_at: float | None,
    ) -> T:
        """Create a token, and return the `answer` to its row and the token itself.

        The token can't be shown again; if `answer` fails, there is no token. Raises ConflictError for a name that is
        taken."""
        token = PREFIX + secrets.token_urlsafe(32)

        def change(conn: Connection) -> T:
            row = tokens.add_token(
                conn,
                name,
                digest_of(token),
                self._clock(),
                owner="" if owner == self.own else owner,
                role=role,
                expires_at=expires_at,
                parent_id=maker.token_id,
            )
            return answer(row, token)

        return self.change(db, change)

    def login_link(self) -> str:
        """Return a code that opens one session of the service's own account within an hour.

        A new code replaces it."""
        code = secrets.token_urlsafe(24)
        self._link = (digest_of(code), self._clock() + LINK_S)
        return code

    def log_in(self, db: Database, given: str) -> tuple[str, float] | None:
        """Open a session for the holder of a token or of the login link.

        Returns its cookie, and for how many seconds it is valid; None if `given` is neither. Raises ForbiddenError for
        a token that reads metrics only."""
        grant = self.find(given) or self._use_link(digest_of(given))
        if grant is None:
            return None
        if not grant.actor.role.includes(Role.VIEWER):
            raise ForbiddenError(f"a token with the role {grant.actor.role} can't sign in: it only reads /metrics")
        now, cookie = self._clock(), secrets.token_urlsafe(32)
        ends = min(now + SESSION_S, grant.actor.expires_at or now + SESSION_S)
        session = Session(digest_of(cookie), grant.actor.token_id, grant.digest, now, ends)
        self._add_session(db, grant.actor.name, session)
        return cookie, ends - now

    def sign_in(self, db: Database, account: Account, seconds: float, proxy_user: str = "") -> tuple[str, float]:
        """Open a session for an account that a provider or proxy vouches for.

        Returns its cookie, and for how many seconds it is valid."""
        now, cookie = self._clock(), secrets.token_urlsafe(32)
        session = Session(digest_of(cookie), None, "", now, now + seconds, account.id, proxy_user)
        self._add_session(db, account.name, session)
        return cookie, seconds

    def _add_session(self, db: Database, actor: str, session: Session) -> None:
        acting = ACTOR.set(actor)
        try:
            self.change(db, lambda conn: tokens.add_session(conn, session))
        finally:
            ACTOR.reset(acting)

    def _use_link(self, digest: str) -> Grant | None:
        link = self._link
        if link is None or self._own_digest is None or not hmac.compare_digest(link[0], digest):
            return None
        self._link = None
        return Grant(Actor(self.own, Role.ADMIN), self._own_digest) if self._clock() < link[1] else None

    def log_out(self, db: Database, cookie: str) -> None:
        digest = digest_of(cookie)
        if digest not in self._known.sessions:
            return
        grant = self._session_grant(digest)
        acting = ACTOR.set(grant.actor.name if grant is not None else "")
        try:
            self.change(db, lambda conn: tokens.remove_session(conn, digest, self._clock()))
        finally:
            ACTOR.reset(acting)


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
