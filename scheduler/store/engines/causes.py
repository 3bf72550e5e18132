"""How errors name a database and what went wrong with it."""

from __future__ import annotations

from sqlalchemy import Engine


def cause(error: BaseException) -> str:
    """The database's own words for what went wrong first, in one line: clearing up after it may have failed as well."""
    while error.__context__ is not None:
        error = error.__context__
    return " ".join(str(getattr(error, "orig", None) or error).split())


def name_of(engine: Engine) -> str:
    """Its URL, without the password."""
    url = engine.url if engine.dialect.name == "sqlite" else engine.url.set(drivername="postgresql", query={})
    return url.render_as_string(hide_password=True)
