"""Ports of a job that people reach at an address of the service."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

LONGEST = 32
"""Characters of a name: with the job's id it is one label of a host name."""

PortName = Annotated[str, Field(max_length=LONGEST, pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?$")]
Port = Annotated[int, Field(ge=1, le=65_535)]
Ports = dict[PortName, Port]
