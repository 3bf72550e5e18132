"""Text of a database error and name of a database, for messages."""

from __future__ import annotations

from sqlalchemy import Engine


def cause(error: BaseException) -> str:
    """Return the database's message for the first error, in one line.

    Later errors are skipped: the clean-up after the first one may have failed as well."""
    while error.__context__ is not None:
        error = error.__context__
    return " ".join(str(getattr(error, "orig", None) or error).split())


def name_of(engine: Engine) -> str:
    """Return the URL of a database, without the password."""
    url = engine.url if engine.dialect.name == "sqlite" else engine.url.set(drivername="postgresql", query={})
    return url.render_as_string(hide_password=True)
