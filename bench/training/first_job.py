"""What the environment of the first job costs on a fresh machine, in processor seconds of each step.

The whole of `build-env.sh` runs once, in a cache folder that is empty. Processor seconds are told, since the clock is
that of whatever else the machine does. Two bounds follow: all of the work shared by two cores, and the longest chain
of steps of which each needs the one before. A wheel from a place that the operator names (`SCHEDULEARN_HOROVOD_WHEELS`)
takes the compiler's share away, so that is told beside it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from bench.measured_service import verdict

SCRIPT = Path(__file__).parents[2] / "worker_images" / "build-env.sh"
CORES = 2
BUDGET_S = 120.0
COMPILING = ("configuring Horovod", "compiling Horovod")
LAUNCHER = """\
import os, resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(os.environ["MEASURED_FILES"], "a") as file:
    print(f"{used.ru_utime + used.ru_stime:.2f}", sys.argv[-1], file=file)
sys.exit(code)
"""


@dataclass
class Steps:
    """Seconds of each step of the script, in order."""

    processor: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    clock: dict[str, float] = field(default_factory=lambda: defaultdict(float))


def main() -> bool:
    with tempfile.TemporaryDirectory(prefix="schedulearn-first-job-") as folder:
        steps, files = _build(Path(folder))
    total = sum(steps.processor.values())
    compiling = sum(seconds for name, seconds in steps.processor.items() if name in COMPILING)
    for name, seconds in steps.processor.items():
        print(f"  {name}: {seconds:.0f} s of processor, {steps.clock[name]:.0f} s by the clock")
    print(f"  the slowest of {len(files)} files: " + ", ".join(f"{name} {took:.0f} s" for took, name in files[:6]))
    chain = total - compiling + max(compiling / CORES, files[0][0] if files else 0.0)
    shared = f"shared by {CORES} cores {total / CORES:.0f} s"
    print(f"  {total:.0f} s of processor, {compiling:.0f} of them the compiler's; {shared}")
    print(f"  one step after another, the compiler on {CORES} cores: {chain:.0f} s")
    print(f"  with a wheel that is fetched: {total - compiling:.0f} s")
    return verdict("the first job's environment on two quiet cores", f"{chain:.0f} s", f"<= {BUDGET_S:.0f} s",
                   chain <= BUDGET_S)  # fmt: skip


def _build(folder: Path) -> tuple[Steps, list[tuple[float, str]]]:
    measured, launcher = folder / "files", folder / "launcher.py"
    launcher.write_text(LAUNCHER)
    measured.touch()
    with_launcher = f"{sys.executable};{launcher}"
    env = {
        **os.environ, "PYTHON": sys.executable,
        "SCHEDULEARN_CACHE": str(folder / "cache"), "MEASURED_FILES": str(measured),
        "CMAKE_CXX_COMPILER_LAUNCHER": with_launcher, "CMAKE_C_COMPILER_LAUNCHER": with_launcher,
    }  # fmt: skip
    env.pop("SCHEDULEARN_HOROVOD_WHEELS", None)
    steps = Steps()
    with subprocess.Popen(
        [SCRIPT, "cpu"], env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as script:
        assert script.stdout is not None
        step, used, at = "making the environment", 0.0, time.monotonic()
        for line in script.stdout:
            now_used, now = _used_by(script.pid), time.monotonic()
            steps.processor[step] += now_used - used
            steps.clock[step] += now - at
            used, at = now_used, now
            if found := re.match(r"progress \d+ (.*?)(?: \(.*\))?$", line):
                step = found[1]
    if script.returncode:
        raise RuntimeError(f"{SCRIPT.name} ended with {script.returncode}")
    rows = (line.split(" ", 1) for line in measured.read_text().splitlines())
    return steps, sorted(((float(took), Path(name).name) for took, name in rows), reverse=True)


def _used_by(session: int) -> float:
    """Processor seconds of a session's processes, and of those of their children that have ended."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "stat").read_text().rpartition(") ")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if words and int(words[3]) == session:
            ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
