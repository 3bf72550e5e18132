"""`make check` in 3 minutes, `make test` in 10, in 20 beside a process that takes a core; and what takes how much."""

from __future__ import annotations

import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

from bench.measured_service import verdict

ROOT = Path(__file__).parents[2]
BUDGETS = (("check", False, 180.0), ("test", False, 600.0), ("test", True, 1200.0))
"""Tier, whether a process takes a core meanwhile, and the seconds that it may take."""
_BUSY = "while True: pass"


def main(times: float = 1) -> bool:
    """`times`: how often each is run."""
    kept = True
    for tier, busy, budget in BUDGETS:
        for _ in range(round(times)):
            passed, seconds = _run(tier, busy)
            beside = " beside a busy core" if busy else ""
            kept = (
                verdict(f"make {tier}{beside}", f"{seconds:.0f} s", f"{budget:.0f} s", passed and seconds <= budget)
                and kept
            )
        _tell(ROOT / f"build/tests/{tier}.xml")
    return kept


def _run(tier: str, busy: bool) -> tuple[bool, float]:
    """Whether it passed, and its seconds."""
    other = subprocess.Popen([sys.executable, "-c", _BUSY]) if busy else None
    try:
        began = time.monotonic()
        done = subprocess.run(["make", "--no-print-directory", tier], cwd=ROOT, capture_output=True, text=True)
        seconds = time.monotonic() - began
    finally:
        if other is not None:
            other.kill()
            other.wait()
    if done.returncode != 0:
        print(done.stdout[-3000:], done.stderr[-1000:])
    return done.returncode == 0, seconds


def _tell(report: Path) -> None:
    """The share of each need in the seconds of all cases, and the modules that take most."""
    needs: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    cases: Counter[str] = Counter()
    for case in ET.parse(report).iter("testcase"):
        seconds = float(case.get("time", "0"))
        named = case.find("properties/property[@name='needs']")
        need = (named.get("value") if named is not None else "") or "nothing"
        needs[need] += seconds
        cases[need] += 1
        modules[case.get("classname", "")] += seconds
    whole = sum(needs.values()) or 1.0
    for need, seconds in needs.most_common():
        print(f"  {seconds / whole:4.0%} {seconds:6.0f} s {cases[need]:5d} cases need {need}")
    for module, seconds in modules.most_common(15):
        print(f"       {seconds:6.0f} s {module}")
