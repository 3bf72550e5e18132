"""A command in a job, with this terminal or these pipes as its own."""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from schedulearn.api.client.errors import ClientError
from schedulearn.features.interactive.commands.remote import ERR, RemoteCommand

BROKEN_PIPE = 141  # as a shell reports SIGPIPE
_READ = 32 << 10


def require_unix() -> None:
    """Raise ClientError on Windows, whose terminals and pipes can't be passed on."""
    if importlib.util.find_spec("termios") is None:
        raise ClientError("a command in a job needs a terminal of Linux or macOS: on Windows, run this in WSL")


def is_terminal() -> bool:
    """Whether somebody sits at both ends of this command."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def own_size() -> tuple[int, int]:
    """Columns and rows of this terminal."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return 80, 24
    return max(1, min(size.columns, 1000)), max(1, min(size.lines, 1000))


def attach(command: RemoteCommand, *, terminal: bool) -> int:
    """Passes everything on until the command ends; returns its exit code. With a terminal every key goes to the
    command, also Ctrl-C."""
    done, tell_done = os.pipe()
    resized, tell_resized = os.pipe()
    os.set_blocking(tell_resized, False)
    writer = threading.Thread(target=_pass_input, args=(command, done, resized), daemon=True)
    try:
        with _raw(terminal), _watched_size(terminal, tell_resized):
            writer.start()
            for stream, data in command.output():
                _write_all(2 if stream == ERR else 1, data)
            return command.exit_code
    except BrokenPipeError:
        return BROKEN_PIPE  # whoever read our output has gone
    finally:
        os.close(tell_done)
        writer.join(1)
        for fd in (done, resized, tell_resized):
            os.close(fd)


def _pass_input(command: RemoteCommand, done: int, resized: int) -> None:
    poller = select.poll()
    for fd in (0, done, resized):
        poller.register(fd, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poller.poll()}
        if done in ready:
            return
        if resized in ready:
            os.read(resized, _READ)
            command.resize(*own_size())
        if 0 in ready:
            try:
                data = os.read(0, _READ)
            except OSError:
                data = b""
            if data:
                command.write(data)
            else:
                poller.unregister(0)
                command.end_input()


@contextmanager
def _raw(terminal: bool) -> Iterator[None]:
    """Keys go to the command as they are; the terminal is as before afterwards, whatever happens."""
    if not terminal:
        yield
        return
    import termios  # not on Windows
    import tty

    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # what is typed already counts
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextmanager
def _watched_size(terminal: bool, tell: int) -> Iterator[None]:
    if not terminal:
        yield
        return

    def note(*_: object) -> None:
        try:
            os.write(tell, b"x")
        except BlockingIOError:
            pass  # it is told already

    before = signal.signal(signal.SIGWINCH, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
