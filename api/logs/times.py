"""Time stamps before the lines of a log.

Pure; the service and the command line use it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence


class LineStamps:
    """Time stamps for the pieces of one log, which may end within a line."""

    def __init__(self) -> None:
        self._second = 0
        self._within_line = False

    def stamp(self, text: str, times: Sequence[tuple[int, int]]) -> str:
        """Return `text` with a time stamp before each line.

        `times`: (line, second), as the stream of a log has them. A line whose time is not known begins with "-"."""
        seconds = dict(times)
        stamped: list[str] = []
        for number, line in enumerate(_lines(text)):
            if number in seconds:
                self._second = seconds[number]
            if not self._within_line:
                stamped.append(_shown(self._second))
            stamped.append(line)
            self._within_line = not line.endswith("\n")
        return "".join(stamped)


def _lines(text: str) -> list[str]:
    """Split at newlines only, and keep them: `splitlines` knows a dozen more ends of lines."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _shown(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime(second)) if second else "- "
