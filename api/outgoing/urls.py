"""URLs of receivers: what may be one, and how it is shown."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from schedulearn.scheduler.core.planning.command_masking import MASK

_SECRET_LENGTH = 20  # minimum length of a path segment that may be a secret


def checked_url(url: str) -> str:
    """Return the URL. Raises ValueError for one that can't be called."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"is not a valid URL: {error}") from error
    if parts.scheme not in ("http", "https"):
        raise ValueError("must begin with http:// or https://")
    if not host:
        raise ValueError("names no host: write it like https://chat.example.org/hooks/abc")
    if not url.isprintable() or " " in url or not url.isascii():
        raise ValueError("has invalid characters: write them as %XX, and names of hosts in ASCII")
    if "@" in parts.netloc:
        raise ValueError("must not contain a user name or password: all users who can read the settings see it")
    return url


def shown_url(url: str) -> str:
    """Return a URL with possible secrets masked: many receivers know their senders by a secret in it."""
    parts = urlsplit(url)
    path = "/".join(MASK if len(part) >= _SECRET_LENGTH else part for part in parts.path.split("/"))
    return urlunsplit(parts._replace(path=path, query=MASK if parts.query else "", fragment=""))
