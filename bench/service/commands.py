"""Processor time of the command line and of the import of the API, by turns."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence

from bench.measured_service import COMMAND, compile_all, service, verdict

IMPORT_AS_SERVE_DOES = "import gc, os; gc.disable(); import schedulearn.api.app; os._exit(0)"


def main(rounds: float = 7.0) -> bool:
    """`rounds`: each command runs this often, by turns; the least time counts, as other work only adds to it."""
    compile_all()
    with service("--runtime", "process", "--simulate-gpus", "4") as target:
        url = f"http://127.0.0.1:{target.port}"
        budgets: dict[str, tuple[Sequence[str], float]] = {
            "schedulearn --help": ([*COMMAND, "--help"], 0.2),
            "schedulearn ls": ([*COMMAND, "ls", "--url", url], 0.25),
            "import schedulearn.api.app": ([sys.executable, "-c", IMPORT_AS_SERVE_DOES], 0.8),
        }
        seen: dict[str, list[float]] = {name: [] for name in budgets}
        for _ in range(int(rounds)):
            for name, (command, _) in budgets.items():
                seen[name].append(_processor_seconds(command))
    kept = True
    for name, (_, budget) in budgets.items():
        least = min(seen[name])
        kept = verdict(f"processor time of {name}", f"{least:.3f} s", f"<= {budget} s", least <= budget) and kept
    return kept


def _processor_seconds(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
