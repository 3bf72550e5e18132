"""Asks public databases whether a package that we name in a lock file has a known weakness: pip-audit for Python's, npm
for the page's. A weakness fails, with what to do; a database that does not answer is said loudly and fails nothing.

Usage: audit.py [LOCK...] (`make audit`: all of them). It takes a minute at most. `requirements/accepted.txt` names what
we live with, and why.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
MAX_S = float(os.environ.get("SCHEDULEARN_AUDIT_SECONDS", "25"))
"""Of each database for each lock file; at most two are asked one after the other."""


@dataclass(frozen=True)
class Weakness:
    package: str
    ids: Sequence[str]
    fixed_in: str


@dataclass(frozen=True)
class Audit:
    """What came of one lock file. `trouble`: why nobody answered; empty: somebody did."""

    lock: str
    found: Sequence[Weakness] = ()
    trouble: str = ""


def main() -> int:
    locks = sys.argv[1:] or [
        "requirements/server.txt",
        "requirements/dev.txt",
        "requirements/build.txt",
        "requirements/node.txt",
    ]
    with ThreadPoolExecutor() as pool:
        audits = [*pool.map(audit_python, locks), audit_page()]
    accepted = accepted_ids((ROOT / "requirements/accepted.txt").read_text())
    failed = False
    for audit in audits:
        left = [weakness for weakness in audit.found if not accepted.intersection(weakness.ids)]
        failed = failed or bool(left)
        sys.stdout.write(report(audit, left) + "\n")
    return int(failed)


def report(audit: Audit, left: Sequence[Weakness]) -> str:
    if audit.trouble:
        return f"!! {audit.lock} is NOT AUDITED: {audit.trouble}"
    if not left:
        return f"{audit.lock}: no known weakness"
    lines = [f"{audit.lock}: {len(left)} with a known weakness"]
    lines += [f"  {each.package}: {', '.join(each.ids)}; {each.fixed_in or 'no version mends it yet'}" for each in left]
    how = "npm update PACKAGE in ui/" if audit.lock.startswith("ui/") else "make lock"
    lines.append(f"Raise the version ({how}), or write the id and why it does no harm into requirements/accepted.txt.")
    return "\n".join(lines)


def accepted_ids(text: str) -> set[str]:
    """The first word of each line; the rest says why."""
    return {line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("#")}


def audit_python(lock: str) -> Audit:
    """Asks OSV, then the package index."""
    osv = ["--osv-url", os.environ["SCHEDULEARN_OSV_URL"]] if "SCHEDULEARN_OSV_URL" in os.environ else []
    given = [str(BIN / "pip-audit"), "-r", str(ROOT / lock), "--no-deps", "--disable-pip", "--timeout", "5"]
    given += ["--progress-spinner", "off", "--format", "json", "-s"]
    troubles = []
    for service in (["osv", *osv], ["pypi"]):
        answer, trouble = _json_of([*given, *service])
        if not trouble and (trouble := _unanswered(answer)) == "":
            return Audit(lock, weaknesses_of_python(answer))
        troubles.append(f"{service[0]}: {trouble}")
    return Audit(lock, trouble="; ".join(troubles))


def _unanswered(answer: Mapping[str, Any]) -> str:
    """A mirror of the index may know no weaknesses at all: then each package is left out."""
    packages = answer.get("dependencies", [])
    skipped = [package for package in packages if "skip_reason" in package]
    return f"it knows nothing of {len(skipped)} of {len(packages)} packages" if skipped or not packages else ""


def weaknesses_of_python(answer: Mapping[str, Any]) -> list[Weakness]:
    return [
        Weakness(
            f"{package['name']} {package['version']}",
            [each["id"], *each.get("aliases", [])],
            f"mended in {', '.join(each['fix_versions'])}" if each["fix_versions"] else "",
        )
        for package in answer["dependencies"]
        for each in package["vulns"]
    ]


def audit_page() -> Audit:
    """Of what the page is made of and built with."""
    lock = "ui/package-lock.json"
    answer, trouble = _json_of(
        [str(ROOT / "scripts/node.sh"), str(BIN.parent), "npm", "audit", "--json", *_ONCE], ROOT / "ui"
    )
    if not trouble and "vulnerabilities" not in answer:
        words = answer.get("message") or answer.get("error", {}).get("summary") or "its answer is none"
        trouble = f"npm: {words}"
    return Audit(lock, trouble=trouble) if trouble else Audit(lock, weaknesses_of_page(answer))


_ONCE = ("--fetch-retries=0", "--fetch-timeout=10000")


def weaknesses_of_page(answer: Mapping[str, Any]) -> list[Weakness]:
    """Each where it is; not what only depends on it."""
    return [
        Weakness(
            f"{name} {found['range']} ({via['severity']})",
            [via["url"].rpartition("/")[2]],
            "npm knows a version that mends it" if found.get("fixAvailable") else "",
        )
        for name, found in answer["vulnerabilities"].items()
        for via in found["via"]
        if isinstance(via, dict)
    ]


def _json_of(command: Sequence[str], cwd: Path = ROOT) -> tuple[Mapping[str, Any], str]:
    """What a tool answers, or why it does not. The exit code says nothing: it is 1 for a weakness and for trouble."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_S, cwd=cwd)
    except subprocess.TimeoutExpired:
        return {}, f"no answer within {MAX_S:.0f} s"
    except OSError as error:
        return {}, str(error)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return {}, (done.stderr.strip().splitlines() or ["it says nothing"])[-1][:300]
    return answer, "" if isinstance(answer, dict) else "its answer is none"


if __name__ == "__main__":
    sys.exit(main())
