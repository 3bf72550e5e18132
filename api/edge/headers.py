"""Headers of a request, for those that look at several of each."""

from __future__ import annotations

from starlette.types import Scope


def first_values(scope: Scope) -> dict[str, str]:
    """Name -> value, each by its first occurrence, as `starlette.datastructures.Headers` has it: that takes a
    microsecond for each header that is not there, and most are not."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
