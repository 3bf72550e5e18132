"""The command line without what only Unix has. Run it as a program, with the arguments of `schedulearn`.

Windows itself can't be had here. Third-party packages keep the real modules: they have code of their own for Windows.
"""

from __future__ import annotations

import asyncio  # noqa: F401
import getpass  # noqa: F401
import signal
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import webbrowser  # noqa: F401
from types import ModuleType

import click
import httpx  # noqa: F401
import pathspec  # noqa: F401
import rich.console
import rich.live
import rich.progress
import rich.table  # noqa: F401
import yaml  # noqa: F401

MISSING_MODULES = (
    "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "spwd", "syslog", "termios", "tty", "curses",
)  # fmt: skip
MISSING_OF_OS = (
    "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC", "fchmod", "fchown", "chown", "lchown", "fork", "forkpty",
    "geteuid", "getuid", "getgid", "getegid", "getgroups", "getpgid", "getpgrp", "getsid", "killpg", "mkfifo", "mknod",
    "nice", "openpty", "pipe2", "posix_fallocate", "posix_fadvise", "pread", "pwrite", "sched_getaffinity", "sendfile",
    "setsid", "statvfs", "sync", "uname", "wait3", "wait4", "WNOHANG", "chroot", "fdatasync", "initgroups", "setuid",
    "setgid", "set_blocking", "get_blocking", "getxattr", "setxattr", "confstr", "sysconf", "ctermid", "getloadavg",
)  # fmt: skip
KEPT_SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"}


def without(module: ModuleType, names: set[str]) -> ModuleType:
    """A copy of a module that lacks these names."""
    copy = ModuleType(module.__name__, module.__doc__)
    copy.__dict__.update({name: value for name, value in vars(module).items() if name not in names})
    return copy


def mask() -> None:
    import os

    for name in MISSING_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    sys.modules["os"] = without(os, set(MISSING_OF_OS))
    signals = {name for name in vars(signal) if name.startswith("SIG") and name not in KEPT_SIGNALS}
    sys.modules["signal"] = without(signal, {*signals, "alarm", "pause", "setitimer", "pthread_sigmask"})
    import select

    sys.modules["select"] = without(select, {"poll", "epoll"})


if __name__ == "__main__":
    mask()
    from schedulearn.main import cli

    if sys.argv[1:] == ["--import-all"]:
        for name in cli.known:
            try:
                assert isinstance(cli.commands[name], click.Command)
            except ImportError as error:
                click.echo(f"{name}: {error.name}")
        for name in ("numpy", "pydantic", "sqlalchemy", "fastapi", "uvicorn"):
            assert name not in sys.modules, name
    else:
        cli.run()
