"""Tells flaky tests from broken ones: what failed in a run of all is run again, alone.

    python scripts/again.py FAILED.json

`FAILED.json` is pytest's own list of what failed last. A test that then passes three times in a row is flaky: it is
named loudly and written to build/flaky.txt, and the run counts as passed. More than three failures are
no coincidence, and none is run again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MAX, TIMES = 3, 3


def passes(test: str) -> bool:
    """Whether it passes alone, as often as asked."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", test]
    return all(subprocess.run(command, check=False).returncode == 0 for _ in range(TIMES))


def main(failed_file: str) -> int:
    path = Path(failed_file)
    failed = sorted(json.loads(path.read_text())) if path.is_file() else []
    if not failed:
        print("again: pytest failed, but names no test that did")
        return 1
    if len(failed) > MAX:
        print(f"again: {len(failed)} tests failed; more than {MAX} are no coincidence, so none is run again")
        return 1
    print(f"\n== again, alone, {TIMES} times each: {', '.join(failed)}", flush=True)
    if broken := [test for test in failed if not passes(test)]:
        print(f"again: failed again, so broken: {', '.join(broken)}")
        return 1
    flaky = Path("build/flaky.txt")
    flaky.parent.mkdir(exist_ok=True)
    flaky.write_text("".join(f"{test}\n" for test in failed))
    print(f"\n!! FLAKY: {len(failed)} of the tests failed among all others and passed {TIMES} times alone.")
    print("!! A flaky test is a bug, of the test or of what it tests. Mend it before anything else:")
    for test in failed:
        print(f"!!   {test}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
