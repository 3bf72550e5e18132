"""A command on a terminal of its own, and Ctrl-C pressed there."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import time
from collections.abc import Mapping
from contextlib import suppress

DEADLINE_S = 60.0
AGAIN_S = 2.0
"""Python loses a Ctrl-C that comes just before readline waits for the first key. A user presses it again then; so do
we, once nothing has come for so long."""


def on_terminal(command: list[str], env: Mapping[str, str], until: str | None, columns: int) -> tuple[int, str]:
    """Its exit code and all that it showed; with `until`, Ctrl-C is pressed once that has appeared."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, {**env, "COLUMNS": str(columns), "LINES": "50"})
    shown, pressed, end = b"", False, time.monotonic() + DEADLINE_S
    try:
        with suppress(OSError):  # the terminal is closed with its last process
            while True:
                if select.select([terminal], [], [], AGAIN_S)[0]:
                    if not (data := os.read(terminal, 65536)):
                        break
                    shown += data
                    press = not pressed and until is not None and until in without_escapes(_text(shown))
                else:
                    press = pressed
                if press:
                    os.write(terminal, b"\x03")
                    pressed = True
                if time.monotonic() > end:
                    os.kill(pid, signal.SIGKILL)
                    raise AssertionError(f"{command} did not end within {DEADLINE_S} s; it showed {_text(shown)!r}")
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), _text(shown)


def without_escapes(text: str) -> str:
    return re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[()][A-Z0-9])", "", text).replace("\r\n", "\n")


def _text(shown: bytes) -> str:
    return shown.decode(errors="replace")
