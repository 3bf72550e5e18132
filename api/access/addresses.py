"""Address from which a request came."""

from __future__ import annotations

from starlette.types import Scope

_FORWARDED = b"x-forwarded-for"
_LENGTH = 45
"""Maximum length of an address, as IPv6 with an IPv4 part."""


def address_of(scope: Scope, *, trusts_proxy: bool) -> str:
    """Return the address of a request's sender; empty: unknown.

    A known proxy appends it to a header, or appends a header of its own. The values before it may be forged."""
    if trusts_proxy:
        passed = [value for name, value in scope["headers"] if name == _FORWARDED]
        if passed:
            found = passed[-1].decode("latin-1").rpartition(",")[2].strip()[:_LENGTH]
            return found if found.isascii() and found.isprintable() else ""
    client = scope.get("client")
    return client[0] if client is not None else ""
