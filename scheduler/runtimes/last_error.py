"""Selection of the log line that best explains a failure. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

TAIL_BYTES = 16 * 1024
"""Bytes searched at the log's end. They hold a traceback, and a launcher's messages after it."""
MAX_CHARACTERS = 300

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\_-])")
_RANK = re.compile(r"^\s*\[\d{1,6}(?:,\d{1,6})?\](?:<std(?:err|out)>:?)?:?\s*")
"""Prefix that launchers put before the lines of a worker: "[3]<stderr>:"."""
_MEMORY = re.compile(r"(?i:out of memory|cannot allocate memory)|\bOutOfMemory\w*|\bMemoryError\b")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,80}(?:Error|Exception|Interrupt|Exit)(?::|$)")
_COMPLAINT = re.compile(
    r"(?i:\berror\b|\bfatal\b|\bfailed\b|segmentation fault|\bkilled\b|not found|no such file|no module named"
    r"|permission denied)"
)
_LAUNCHER = re.compile(
    r"Horovod detected that one or more processes exited|ChildFailedError|horovod\.runner"
    r"|Terminating all other processes"
)
"""Messages of launchers about a worker that failed: a consequence, not the cause."""
_LAUNCHER_REPORT = re.compile(r"Process \d+ exit with status code -?\d+\.$")
"""Start of horovodrun's report about a failed worker. Its own traceback and the exit code follow."""


def telling_line(lines: Sequence[str]) -> str:
    """Return the line that best explains a failure; empty if there is none.

    In order of preference: the last line about memory, the end of the last traceback, the last line that looks like an
    error, the last line."""
    own = [line for line in takewhile(_is_of_workers, lines) if not _LAUNCHER.search(line)]
    for wanted in (_MEMORY, _EXCEPTION, _COMPLAINT):
        found = next((line for line in reversed(own) if wanted.search(line)), None)
        if found is not None:
            return found
    return next(reversed(own or lines), "")


def _is_of_workers(line: str) -> bool:
    return not _LAUNCHER_REPORT.match(line)


def shown_lines(tail: bytes) -> Sequence[str]:
    """Return the non-blank lines as a terminal would show them, without ranks of workers."""
    text = _ANSI.sub("", tail[-TAIL_BYTES:].decode("utf-8", "replace"))
    shown = (_RANK.sub("", line.rstrip().rpartition("\r")[2]).strip() for line in text.split("\n"))
    return [line[:MAX_CHARACTERS] for line in shown if line]
