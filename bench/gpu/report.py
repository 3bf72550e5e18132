"""What checks found, as a table and an exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["passed", "failed", "SKIPPED"]
ALL_WELL, SOME_FAILED, NO_GPU = 0, 1, 3
"""Exit codes; 2 is for a command that makes no sense. NO_GPU: nothing was proven."""


@dataclass(frozen=True)
class Check:
    name: str
    status: Status
    measured: str = ""
    wanted: str = ""


class Skipped(Exception):
    """A check can't be made here; the message says why, and what would be needed."""


def passed(name: str, holds: bool, measured: str, wanted: str) -> Check:
    return Check(name, "passed" if holds else "failed", measured, wanted)


def run(name: str, check: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """What one check finds. One that breaks has failed, and the others go on."""
    try:
        yield from check()
    except Skipped as reason:
        yield Check(name, "SKIPPED", str(reason))
    except Exception as error:
        yield Check(name, "failed", f"{type(error).__name__}: {error}"[:300])


def exit_code(checks: Sequence[Check], gpu: bool) -> int:
    if any(check.status == "failed" for check in checks):
        return SOME_FAILED
    return ALL_WELL if gpu else NO_GPU


def markdown(facts: Mapping[str, str], checks: Sequence[Check]) -> str:
    """For docs/gpu.md: where it ran, then what was found."""
    lines = ["| | |", "| --- | --- |", *(f"| {key} | {_cell(value)} |" for key, value in facts.items()), ""]
    lines += ["| check | result | measured | wanted |", "| --- | --- | --- | --- |"]
    lines += [f"| {c.name} | {c.status} | {_cell(c.measured)} | {_cell(c.wanted)} |" for c in checks]
    return "\n".join(lines) + "\n"


def loudly(checks: Sequence[Check]) -> str:
    """What was not checked, for the end of the output; empty if all was."""
    skipped = [check for check in checks if check.status == "SKIPPED"]
    if not skipped:
        return ""
    bar = "!" * 78
    listed = "\n".join(f"  {check.name}: {check.measured}" for check in skipped)
    return f"{bar}\nNOT CHECKED ({len(skipped)} of {len(checks)}):\n{listed}\n{bar}\n"


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")
