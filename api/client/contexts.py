"""Contexts: services that this account has logged in to, with tokens.

Each is a file that only its user can read, so two logins at once never overwrite each other. The environment comes
first: jobs and programs that set SCHEDULEARN_URL or SCHEDULEARN_TOKEN are not affected.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from schedulearn.api.client.errors import ClientError
from schedulearn.scheduler.private_files import write_private

VARIABLE = "SCHEDULEARN_CONTEXT"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SUFFIX = ".json"
_CURRENT = "current"
_LARGEST = 1 << 16


@dataclass(frozen=True)
class Context:
    """Service, with the token and the certificate for it."""

    name: str
    url: str
    token: str
    ca: str | None = None


def config_home() -> Path:
    """Return the folder in which this account's programs keep their configuration."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData/Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def folder() -> Path:
    """Return the folder of the contexts, which may not exist."""
    return config_home() / "schedulearn"


def list_contexts() -> list[Context]:
    """Return all contexts by name."""
    names = sorted(path.stem for path in (folder() / "contexts").glob(f"*{_SUFFIX}") if _NAME.fullmatch(path.stem))
    return [read_context(name) for name in names]


def read_context(name: str) -> Context:
    """Return a context. Raises ClientError if there is none, or its file can't be used."""
    try:
        with _file(name).open(encoding="utf-8") as file:
            found = json.loads(file.read(_LARGEST))
        return Context(name, str(found["url"]), str(found["token"]), found.get("ca"))
    except FileNotFoundError:
        raise ClientError(f"there is no context {name!r}: see `schedulearn contexts ls`") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClientError(f"{_file(name)} can't be used: log in again, or remove it ({error!r})") from error


def current_name() -> str | None:
    """Return the name of the context in use; None: no context is."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    if os.environ.get("SCHEDULEARN_URL") or os.environ.get("SCHEDULEARN_TOKEN"):
        return None  # the environment describes the service
    try:
        name = (folder() / _CURRENT).read_text(encoding="utf-8").strip()
    except (OSError, ValueError, RuntimeError):  # RuntimeError: there is no home folder
        return None
    return name if _NAME.fullmatch(name) and _file(name).exists() else None


def context_of(url: str) -> Context | None:
    """Return the context of a service; None: there is none. The current one is preferred."""
    try:
        found = [each for each in list_contexts() if each.url == url]
    except (ClientError, OSError, RuntimeError):
        return None
    return next((each for each in found if each.name == current_name()), found[0] if found else None)


def store_context(context: Context) -> None:
    """Store a context, and make it the current one. Raises ClientError."""
    try:
        path = _file(context.name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        values = {key: value for key, value in asdict(context).items() if key != "name"}
        write_private(path, json.dumps(values, indent=2).encode())
    except OSError as error:
        raise ClientError(f"{folder()} can't be written: {error.strerror or error}") from error
    use_context(context.name)


def use_context(name: str) -> None:
    """Make a context the current one. Raises ClientError if there is none."""
    read_context(name)
    try:
        write_private(folder() / _CURRENT, f"{name}\n".encode())
    except OSError as error:
        raise ClientError(f"{folder()} can't be written: {error.strerror or error}") from error


def remove_context(name: str) -> None:
    """Remove a context. Raises ClientError if there is none."""
    read_context(name)
    _file(name).unlink(missing_ok=True)


def free_name(url: str) -> str:
    """Return the name for a service: its host, with the port where another service has that name."""
    parts = urlsplit(url)
    host = re.sub(r"[^A-Za-z0-9._-]", "-", parts.hostname or "").strip("-._")[:50] or "service"
    taken = {each.name: each.url for each in list_contexts()}
    if taken.get(host, url) == url:
        return host
    return f"{host}-{parts.port or parts.scheme}"


def _file(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ClientError(f"{name!r} is not a name of a context: use letters, digits, '-', '_' and '.', at most 63")
    return folder() / "contexts" / f"{name}{_SUFFIX}"
