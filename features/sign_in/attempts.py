"""Attempts to sign in, between the page, the provider and the way back.

An attempt is sealed in a cookie of the browser that began it. The service stores nothing, so strangers can't fill it. A
code that another browser brings has no such cookie, and an attempt serves once.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import secrets
import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from schedulearn.scheduler.errors import ForbiddenError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

LIFE_S = 600
"""Seconds from the sign-in page to the way back."""
_REMEMBERED = 10_000
_PAGE = re.compile(r"/ui/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]{0,1000}")
"""Paths of the page. A host, a backslash or a control character would lead elsewhere."""
HOME = "/ui/"


@dataclass(frozen=True)
class Attempt:
    """What the way back is compared with, and where it leads."""

    state: str
    nonce: str
    verifier: str
    to: str


class Attempts:
    """Attempts of this process. A restart ends them. Threads share it."""

    def __init__(self) -> None:
        self._key = base64.urlsafe_b64encode(secrets.token_bytes(32))
        self._lock = threading.Lock()
        self._used: OrderedDict[str, None] = OrderedDict()

    def begin(self, to: str) -> tuple[Attempt, str]:
        """Return an attempt, and the cookie that holds it."""
        state, nonce, verifier = (secrets.token_urlsafe(length) for length in (24, 24, 48))
        attempt = Attempt(state, nonce, verifier, page_path(to))
        return attempt, self._seal().encrypt(json.dumps(asdict(attempt)).encode()).decode()

    def end(self, cookie: str | None, state: str) -> Attempt:
        """Return the attempt of a cookie, once. Raises ForbiddenError."""
        from cryptography.fernet import InvalidToken

        again = "begin again at the sign-in page"
        if not cookie:
            raise ForbiddenError(f"this browser has not begun the sign-in, or its cookies are off: {again}")
        try:
            attempt = Attempt(**json.loads(self._seal().decrypt(cookie.encode(), ttl=LIFE_S)))
        except (InvalidToken, UnicodeEncodeError) as error:
            raise ForbiddenError(f"the sign-in took longer than {LIFE_S // 60} minutes: {again}") from error
        if not hmac.compare_digest(attempt.state.encode(), state.encode("utf-8", "surrogatepass")):
            raise ForbiddenError(f"the answer belongs to another sign-in: {again}")
        with self._lock:
            if attempt.state in self._used:
                raise ForbiddenError(f"this sign-in was used before: {again}")
            self._used[attempt.state] = None
            if len(self._used) > _REMEMBERED:
                self._used.popitem(last=False)
        return attempt

    def _seal(self) -> Fernet:
        from cryptography.fernet import Fernet  # slow to import, and most services have no provider

        return Fernet(self._key)


def page_path(to: str) -> str:
    """Return a path of the page; its start for anything else."""
    return to if _PAGE.fullmatch(to) and "//" not in to.partition("?")[0] else HOME
