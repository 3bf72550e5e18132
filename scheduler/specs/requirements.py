"""Key `requirements` of a job: lines for pip, or a file name.

The file is in the job's code.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator

MAX_LINES, MAX_BYTES = 1000, 64 << 10
_OPTION = re.compile(
    r"--(index-url|extra-index-url|find-links|trusted-host|pre|prefer-binary|only-binary|no-binary|no-index)\b|-[if]\s"
)
_COMMENT = re.compile(r"(^|\s+)#.*$")


def _check(given: str | list[str]) -> str | list[str]:
    if isinstance(given, str):
        path = given.removeprefix("./")
        if not path or path.startswith("/") or ".." in path.split("/") or "\0" in path or len(path) > 1000:
            raise ValueError("must be a list of requirements, or the name of a file in the code")
        return posixpath.normpath(path)
    return requirement_lines(given)


def requirement_lines(given: Sequence[str]) -> list[str]:
    """Return the requirements without comments and empty lines. Raises ValueError for invalid ones."""
    joined = "\n".join(given).replace("\\\n", " ")
    if len(joined.encode()) > MAX_BYTES:
        raise ValueError(f"must have at most {MAX_BYTES >> 10} KiB")
    lines = [line for each in joined.splitlines() if (line := _COMMENT.sub("", each).strip())]
    if len(lines) > MAX_LINES:
        raise ValueError(f"must have at most {MAX_LINES} lines")
    for line in lines:
        if line.startswith("-") and not _OPTION.match(line):
            raise ValueError(f"the option {line.split()[0][:40]} can't be used here: name packages instead")
        if line.startswith((".", "/", "file:")) or "\0" in line:
            raise ValueError(
                f"{line[:80]!r} is a path, but packages are installed before the code is present: use setup"
            )
    return lines


Requirements = Annotated[str | list[str], AfterValidator(_check)]
