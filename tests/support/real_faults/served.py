"""`schedulearn` with two faults built in: it dies at a side effect that has a number, and its clock can be set.

    python served.py SWITCHES COMMAND ARGUMENTS...

Side effects are commits, and what the runtime of local processes does to files and processes. What is asked of a Docker
Engine passes the proxy (`engine_proxy.py`), which counts by itself. Nothing of the product is changed for it: commits
are seen below SQLAlchemy, the others by Python's audit events.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from real_faults.switches import Switches

EFFECTS = frozenset({"subprocess.Popen", "os.kill", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"})

_lock = threading.RLock()  # to kill is a side effect too
_own = os.getpid()


def count_one(switches: Switches) -> None:
    """Dies here if this is the one."""
    if os.getpid() != _own:
        return
    with _lock:
        switches.count += 1
        if switches.count == switches.kill_at:
            os.kill(_own, signal.SIGKILL)
            time.sleep(60)


def number_effects(switches: Switches) -> None:
    from sqlalchemy.engine.default import DefaultDialect

    commit = DefaultDialect.do_commit

    def numbered(self: Any, connection: Any) -> None:
        if connection.in_transaction:
            count_one(switches)
        commit(self, connection)

    DefaultDialect.do_commit = numbered  # type: ignore[method-assign]

    def hook(event: str, _arguments: tuple[Any, ...]) -> None:
        if event in EFFECTS:
            count_one(switches)

    sys.addaudithook(hook)


def set_clock(switches: Switches) -> None:
    real = time.time
    time.time = lambda: real() + switches.clock_offset


if __name__ == "__main__":
    switches = Switches(Path(sys.argv[1]))
    switches.count = 0
    set_clock(switches)
    number_effects(switches)
    del sys.argv[:2]
    runpy.run_path(sys.argv[0], run_name="__main__")
