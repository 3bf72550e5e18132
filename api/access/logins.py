"""Login requests of command lines, approved by a signed-in user.

They are in memory: a restart of the service ends them. The code is short, because people compare it. Therefore wrong
codes are counted, and only the secret, which the command line alone has, gets the token.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from threading import Lock

from schedulearn.scheduler.core.people import Actor, Role
from schedulearn.scheduler.errors import ConflictError, NotFoundError, QuotaError

LIFE_S = 600.0
"""Seconds from the request to its end, whether or not it was approved."""
MAX_REQUESTS, MAX_OF_ADDRESS = 200, 10
MAX_WRONG_CODES = 10
"""Wrong codes that one user may send within `LIFE_S`."""
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels, so no words; no digits, so none looks like a letter
_LENGTH = 8


class LoginState(StrEnum):
    WAITING = "waiting"
    APPROVED = "approved"
    REFUSED = "refused"


@dataclass(frozen=True)
class Approval:
    """User who approved a request, and the role of the token."""

    actor: Actor
    role: Role
    holds: Callable[[], bool]
    """Whether the credential that approved it is still valid."""


@dataclass(frozen=True)
class LoginRequest:
    """One request: who says to ask, and from which address."""

    code: str
    host: str
    account: str
    address: str
    role: Role | None
    asked_at: float
    """Seconds since the epoch, for display."""
    ends: float
    """Value of the monotonic clock."""
    state: LoginState = LoginState.WAITING
    approval: Approval | None = None


@dataclass
class _Misses:
    ends: float
    count: int = 0


@dataclass
class LoginRequests:
    """Requests that have not ended. Threads share it."""

    clock: Callable[[], float] = time.monotonic
    _lock: Lock = field(default_factory=Lock)
    _by_secret: dict[str, LoginRequest] = field(default_factory=dict)
    """Requests by the hash of their secret, oldest first."""
    _misses: dict[str, _Misses] = field(default_factory=dict)
    """Wrong codes by user."""

    def ask(self, host: str, account: str, address: str, role: Role | None) -> tuple[LoginRequest, str]:
        """Begin a request, and return it with its secret. Raises QuotaError if too many wait."""
        with self._lock:
            now = self._forget_ended()
            network = _network(address)
            of_address = sum(_network(each.address) == network for each in self._by_secret.values())
            if of_address >= MAX_OF_ADDRESS or len(self._by_secret) >= MAX_REQUESTS:
                raise QuotaError(
                    "too many logins wait for approval: approve or refuse them on the page, or try again later",
                    retry_after=LIFE_S,
                )
            taken = {each.code for each in self._by_secret.values()}
            while (code := _new_code()) in taken:
                pass
            secret = secrets.token_urlsafe(32)
            request = LoginRequest(code, host, account, address, role, time.time(), now + LIFE_S)
            self._by_secret[_digest(secret)] = request
            return request, secret

    def seconds_left(self, request: LoginRequest) -> float:
        return max(0.0, request.ends - self.clock())

    def find(self, actor: Actor, code: str) -> LoginRequest:
        """Return the request with a code. Raises NotFoundError, and QuotaError after too many wrong codes."""
        with self._lock:
            self._forget_ended()
            return self._by_secret[self._place(actor, code)]

    def decide(self, actor: Actor, code: str, approval: Approval | None) -> LoginRequest:
        """Approve a request, or refuse it without an `approval`.

        Raises NotFoundError and QuotaError as `find`, ConflictError if it was decided before."""
        with self._lock:
            self._forget_ended()
            place = self._place(actor, code)
            if self._by_secret[place].state is not LoginState.WAITING:
                raise ConflictError(f"this login was {self._by_secret[place].state} already")
            state = LoginState.REFUSED if approval is None else LoginState.APPROVED
            self._by_secret[place] = replace(self._by_secret[place], state=state, approval=approval)
            return self._by_secret[place]

    def take(self, secret: str) -> LoginRequest:
        """Return the request of a secret. A decided one is taken away: it serves once. Raises NotFoundError."""
        with self._lock:
            self._forget_ended()
            request = self._by_secret.get(_digest(secret))
            if request is None:
                raise NotFoundError("this login has ended: run `schedulearn login` again")
            if request.state is not LoginState.WAITING:
                del self._by_secret[_digest(secret)]
            return request

    def put_back(self, secret: str, request: LoginRequest) -> None:
        """Undo `take`, where the token could not be stored."""
        with self._lock:
            self._by_secret[_digest(secret)] = request

    def _forget_ended(self) -> float:
        now = self.clock()
        for place in [place for place, each in self._by_secret.items() if each.ends <= now]:
            del self._by_secret[place]
        for name in [name for name, each in self._misses.items() if each.ends <= now]:
            del self._misses[name]
        return now

    def _place(self, actor: Actor, code: str) -> str:
        missed = self._misses.get(actor.name)
        if missed is not None and missed.count >= MAX_WRONG_CODES:
            raise QuotaError("too many wrong codes: try again later", retry_after=max(1.0, missed.ends - self.clock()))
        wanted = plain_code(code)
        for place, request in self._by_secret.items():
            if request.code == wanted:
                return place
        missed = self._misses.setdefault(actor.name, _Misses(self.clock() + LIFE_S))
        missed.count += 1
        raise NotFoundError("no login waits with this code: compare it with your terminal, or run the login again")


def plain_code(given: str) -> str:
    """Return a code as it is stored, however a user wrote it."""
    letters = [letter for letter in given.upper() if letter in _LETTERS]
    return f"{''.join(letters[:4])}-{''.join(letters[4:])}"


def _new_code() -> str:
    return plain_code("".join(secrets.choice(_LETTERS) for _ in range(_LENGTH)))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _network(address: str) -> str:
    """Return the address, or the network of an IPv6 address: one machine may use all of it."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else address
