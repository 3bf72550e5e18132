"""A command on a terminal of its own: Ctrl-C pressed there, or typed into while it runs."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

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


@contextmanager
def terminal_window(command: Sequence[str], env: Mapping[str, str]) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The window and what runs in it; 80 columns and 24 rows, closed at the end."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    # These tests may run under `nohup`, where programs are born deaf to the end of their terminal.
    command = ["env", "--default-signal=HUP", *command]
    client = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    try:
        yield master, client
    finally:
        os.close(master)
        if client.poll() is None:
            client.send_signal(signal.SIGHUP)  # as a terminal does that closes
        client.wait(30)


def type_in(window: int, text: str) -> None:
    os.write(window, text.encode())


def read_until(window: int, text: str) -> str:
    seen, end = "", time.monotonic() + DEADLINE_S
    while text not in seen:
        assert select.select([window], [], [], max(0.0, end - time.monotonic()))[0], f"{text!r} did not come: {seen!r}"
        seen += os.read(window, 4096).decode(errors="replace")
    return seen
