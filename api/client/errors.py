"""Errors of the client.

This module imports nothing: `schedulearn --help` needs it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class ClientError(Exception):
    """No usable response. `str(error)` says what is wrong and what to do."""


class UnreachableError(ClientError):
    """Nothing answers at the address."""


class ApiError(ClientError):
    """The service refused: an RFC 9457 problem document. `code` is stable, `errors` names the fields at fault."""

    def __init__(self, status: int, code: str, detail: str, errors: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors


def may_return(error: ClientError) -> bool:
    """Return whether the service may answer later: it restarts, behind a proxy or beside a standby."""
    return isinstance(error, UnreachableError) or (isinstance(error, ApiError) and error.status in (502, 503, 504))
