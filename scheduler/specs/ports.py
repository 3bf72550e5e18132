"""Key `ports` of a job: ports that users reach through the service.

Each port has an address at the service.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

LONGEST = 32
"""Maximum length of a port's name, which together with the job's id is one label of a host name."""
_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


def _named(ports: dict[str, int]) -> dict[str, int]:
    for name in ports:
        if len(name) > LONGEST or not _NAME.fullmatch(name):
            raise ValueError(
                f"invalid port name {name[:40]!r}: use at most {LONGEST} lower-case letters, digits and '-', "
                "beginning with a letter and not ending with '-'"
            )
    return ports


Ports = Annotated[dict[str, Annotated[int, Field(ge=1, le=65_535)]], AfterValidator(_named)]
