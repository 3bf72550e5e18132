"""Start command of small helper programs beside the service.

They start without site-packages, whose setup takes longer than the rest of the start. Instead, they get the paths of
our packages, however these are installed.
"""

from __future__ import annotations

import os
import sys

from schedulearn import scheduler, worker
from schedulearn.scheduler import runtimes
from schedulearn.scheduler.runtimes import process

_BOOT = """
import importlib, sys, types
scheduler, runtimes = "schedulearn.scheduler", "schedulearn.scheduler.runtimes"
names = ("schedulearn", scheduler, runtimes, runtimes + ".process", "schedulearn.worker")
for name, path in zip(names, sys.argv[1:6]):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [path]
sys.exit(importlib.import_module("schedulearn.scheduler.runtimes.process." + sys.argv[6]).main(*sys.argv[7:]))
"""


def program(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `main` of a module in this package with these arguments.

    The module may import only the standard library and our packages."""
    paths = (package.__path__[0] for package in (scheduler, runtimes, process, worker))
    python = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT]
    return [*python, os.path.dirname(scheduler.__path__[0]), *paths, module, *arguments]
