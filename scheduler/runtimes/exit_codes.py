"""The exit code of a command that a launcher ran: horovodrun and torchrun end with 1 whatever the command ended with,
and say the code in their last words."""

from __future__ import annotations

import re

from schedulearn.scheduler.core.command import SETUP_FAILED

FAILED = 1
"""With which launchers end when a worker fails."""
TAIL_BYTES = 8192
"""Of the output: enough for their last words."""

_HOROVODRUN = re.compile(
    rb"RuntimeError: Horovod detected that one or more processes exited with non-zero status[^\n]*\r?\n"
    rb"Process name: [^\n]*\r?\nExit code: (-?\d+)\s*\Z"
)
_TORCHRUN = re.compile(rb"Root Cause \(first observed failure\):\r?\n[^=]*?exitcode  : (-?\d+) [^=]*=+\s*\Z")


_SETUP = re.compile(rb"(?:^|\n)" + SETUP_FAILED.encode() + rb" \d+\s*\Z")


def why_failed(tail: bytes) -> str:
    """What the end of a failed program's output says of the cause; empty: nothing that we know."""
    return "the setup command failed, so that the command did not run" if _SETUP.search(tail) else ""


def command_exit_code(code: int, tail: bytes) -> int:
    """That of the first worker that failed, where `tail`, the end of a program's output, is what a launcher says of
    it; else `code`, the program's own."""
    if code != FAILED:
        return code
    found = _HOROVODRUN.search(tail) or _TORCHRUN.search(tail)
    worker = int(found[1]) if found else code
    return worker if 0 < worker <= 255 else 128 - worker if -128 < worker < 0 else code  # negative: by a signal
