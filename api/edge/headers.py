"""Headers of a request, for code that reads several of them."""

from __future__ import annotations

from starlette.types import Scope


def first_values(scope: Scope) -> dict[str, str]:
    """Return name -> value of the first occurrence, as in `starlette.datastructures.Headers`.

    That class takes a microsecond for each header that is absent, and most are."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
