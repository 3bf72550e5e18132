"""The command line in a terminal window, typed into while it runs."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from services import COMMAND, Service


def with_address(service: Service) -> dict[str, str]:
    return {**service.env, "SCHEDULEARN_URL": service.url}


@contextmanager
def terminal(service: Service, *arguments: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A command in a terminal of 80 columns and 24 rows, which is closed at the end."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    client = subprocess.Popen(
        [COMMAND, *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=with_address(service),
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield master, client
    finally:
        os.close(master)
        if client.poll() is None:
            client.send_signal(signal.SIGHUP)  # as a terminal does that closes
        client.wait(30)


def type_in(fd: int, text: str) -> None:
    os.write(fd, text.encode())


def read_until(fd: int, text: str) -> str:
    seen = ""
    while text not in seen:
        seen += os.read(fd, 4096).decode(errors="replace")
    return seen
