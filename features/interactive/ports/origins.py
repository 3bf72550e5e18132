"""Origins of jobs' ports, each with a host name of its own.

Therefore the pages of a job share no cookie with the service or with another job. Their scripts can't act with the
session of the service's page."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from schedulearn.api.settings import LOOPBACK

LOCAL = "localhost"
"""Browsers resolve each name below it to this machine, and take each for a site of its own."""
_LABEL = re.compile(r"([a-z](?:[a-z0-9-]*[a-z0-9])?)-([0-9a-hjkmnp-tv-z]{10})")


class PortKey(NamedTuple):
    """A port of a job, by its name."""

    job_id: str
    name: str

    @property
    def label(self) -> str:
        return f"{self.name}-{self.job_id}"


def port_of(host: str, domain: str | None) -> PortKey | None:
    """Return the port that the header Host names; None: it is the service's own.

    Raises ValueError for an invalid address."""
    name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    for parent in (LOCAL, domain):
        label, dot, rest = name.partition(".")
        if dot and rest == parent and (found := _LABEL.fullmatch(label)):
            return PortKey(found[2], found[1])
    return None


def origin_of(key: PortKey, *, service: str, scheme: str, domain: str | None) -> str | None:
    """Return the origin of a port, for a browser that reaches the service at the host `service`.

    None: there is no name for it."""
    asked = urlsplit(f"//{service}")
    parent = LOCAL if asked.hostname in LOOPBACK else domain
    if parent is None:
        return None
    return f"{scheme}://{key.label}.{parent}" + (f":{asked.port}" if asked.port is not None else "")
