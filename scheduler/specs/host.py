"""Specification of a host for the API, command line and settings file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from schedulearn.scheduler.specs.texts import Pairs, whole

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
SCHEMES = ("ssh", "tcp", "unix")
TLS_FILES = ("ca.pem", "cert.pem", "key.pem")


class HostSpec(BaseModel):
    """Host with a Docker Engine. It needs no other software."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, strict=True)

    address: str = Field(
        max_length=500, description="ssh://user@gpu2, tcp://gpu2:2376 (give `tls` too) or unix:///path/to/docker.sock"
    )
    name: str = Field(default="", max_length=200, description="ID of the host; default: the host name in the address")
    simulate_gpus: Annotated[int, Field(ge=0, le=1024), BeforeValidator(whole)] | None = Field(
        default=None, description="number of simulated GPUs, instead of the real ones"
    )
    labels: Pairs = Field(default_factory=dict, max_length=100, description="key-value pairs, for display and policies")
    tls: str = Field(
        default="",
        max_length=4000,
        description="folder on the service's machine with ca.pem, cert.pem and key.pem, for tcp://",
    )
    network: str = Field(
        default="",
        max_length=200,
        pattern=r"^[A-Za-z0-9._:=-]*$",
        description="network of jobs on several hosts: ADDRESS, INTERFACE or INTERFACE=ADDRESS; default: the host "
        "name in the address",
    )

    @field_validator("address")
    @classmethod
    def _known_scheme(cls, address: str) -> str:
        try:
            url = urlsplit(address)
            port, host = url.port, url.hostname
        except ValueError as error:
            raise ValueError(f"is not a valid address: {error}") from error
        if url.scheme not in SCHEMES:
            raise ValueError("must be like ssh://user@gpu2, tcp://gpu2:2376 or unix:///path/to/docker.sock")
        if url.password:
            raise ValueError("must not contain a password: use a key from ssh's default files or its configuration")
        if url.scheme == "unix":
            if not url.path.startswith("/") or url.netloc:
                raise ValueError("must be like unix:///path/to/docker.sock, with three slashes")
        elif not host or host.startswith("-"):
            raise ValueError("has no host name")
        elif url.scheme == "tcp" and port is None:
            raise ValueError("needs a port, usually 2376 with TLS")
        return address

    @model_validator(mode="after")
    def _complete(self) -> Self:
        url = urlsplit(self.address)
        if not self.name:
            if url.scheme == "unix":
                raise ValueError("needs a `name`: the address of a socket does not give one")
            self.name = _name_of(str(url.hostname))
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"invalid name {self.name!r}: use at most 63 letters, digits, '.', '-' and '_', "
                "beginning with a letter or digit"
            )
        if self.tls:
            if url.scheme != "tcp":
                raise ValueError("tls needs a tcp:// address")
            self.tls = _tls_folder(self.tls)
        return self


def _name_of(host: str) -> str:
    """Return an id made of a host's name or address. IPv6 addresses have colons, which are replaced."""
    return f"ip6-{re.sub('[:%]+', '-', host).strip('-')}" if ":" in host else host


def _tls_folder(given: str) -> str:
    """Return the absolute path of the folder. Raises ValueError if files are missing."""
    try:
        folder = Path(given).expanduser().absolute()
        missing = [name for name in TLS_FILES if not (folder / name).is_file()]
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"the folder in tls can't be read: {error}") from error
    if missing:
        raise ValueError(f"the folder {folder} has no {', '.join(missing)}")
    return str(folder)
