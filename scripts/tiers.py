"""Which tier each test of an earlier commit is in today.

    python scripts/tiers.py COMMIT

prints a line for each file of COMMIT's tests, and each test that is gone: those that scripts/moved_tests.txt does not
explain make it end with 1. Each line of that file is `OLD -> NEW` or `OLD: why it is gone`, where OLD and NEW are
FILE::TEST, or FILE for all of its tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOVED = ROOT / "scripts/moved_tests.txt"
TIERS = ("check", "test", "all")


def collected(tree: Path, *options: str) -> Counter[str]:
    """FILE::TEST -> the number of its cases."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", *options],
        cwd=tree, env={**os.environ, "PYTHONPATH": str(tree / "src")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"tiers: pytest can't collect the tests of {tree}:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    return Counter(line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line)


def tier_of_each() -> dict[str, str]:
    """FILE::TEST -> the shortest tier that has cases of it."""
    found: dict[str, str] = {}
    for tier in TIERS:
        for test in collected(ROOT, "--tier", tier, "--postgres"):
            found.setdefault(test, tier)
    return found


def moves() -> dict[str, str]:
    """Of tests that were renamed or removed: where they went, or why."""
    lines = MOVED.read_text().splitlines() if MOVED.is_file() else []
    apart = (line.partition(" -> " if " -> " in line else ": ") for line in lines if line and line[0] != "#")
    return {old: new for old, _, new in apart}


def main(commit: str) -> int:
    now = tier_of_each()
    with tempfile.TemporaryDirectory(prefix="tiers-") as folder:
        tree = Path(folder, "tree")
        subprocess.run(["git", "worktree", "add", "--detach", "-q", str(tree), commit], cwd=ROOT, check=True)
        try:
            before = collected(tree)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    explained = moves()
    of_file: dict[str, Counter[str]] = defaultdict(Counter)
    gone = []
    for test, cases in before.items():
        file = test.partition("::")[0]
        why = explained.get(test, explained.get(file, ""))
        if test in now:
            of_file[file][now[test]] += cases
        elif why:
            of_file[file][now.get(why, why)] += cases
        else:
            of_file[file]["GONE"] += cases
            gone.append(test)
    for file, tiers in sorted(of_file.items()):
        print(f"{file}: " + ", ".join(f"{count} {tier}" for tier, count in tiers.most_common()))
    total: Counter[str] = Counter()
    for tiers in of_file.values():
        for tier, count in tiers.items():
            total[tier if tier in (*TIERS, "GONE") else "elsewhere"] += count
    print("cases: " + ", ".join(f"{count} {tier}" for tier, count in total.most_common()))
    for test in gone:
        print(f"gone, and {MOVED.name} has no reason: {test}")
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 2 else (__doc__ or ""))
