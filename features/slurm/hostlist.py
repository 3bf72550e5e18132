"""Lists of hosts as Slurm writes them: `gpu[1-3,7],login`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

_MAX_HOSTS = 100_000
_PART = re.compile(r"([^\[\],\s]*)(?:\[([\d,-]+)\])?([^\[\],\s]*)")
_NUMBERED = re.compile(r"(.*?)(\d{1,9})")


def expand(text: str) -> list[str]:
    """Return the hosts of a list. Raises ValueError."""
    found: list[str] = []
    for part in filter(None, re.split(r",(?![^\[]*\])", text.strip())):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not a list of hosts: write e.g. gpu[1-3,7],login")
        if match[2] is None:
            found.append(part)
            continue
        for span in match[2].split(","):
            first, dash, last = span.partition("-")
            if not first.isdigit() or (dash and not last.isdigit()) or max(len(first), len(last)) > 9:
                raise ValueError(f"{span!r} in {part!r} is not a range: write e.g. gpu[1-3]")
            if int(last or first) - int(first) + len(found) > _MAX_HOSTS:
                raise ValueError(f"{part!r} has more than {_MAX_HOSTS} hosts")
            numbers = range(int(first), int(last or first) + 1)
            found += [f"{match[1]}{number:0{len(first)}}{match[3]}" for number in numbers]
    return found


def compress(hosts: Iterable[str]) -> str:
    """Return hosts as one list, with ranges of their numbers."""
    found: list[str] = []
    parts = sorted({_parts(host) for host in hosts}, key=lambda part: (part[0], int(part[1] or 0), part[1]))
    for prefix, group in groupby(parts, key=lambda part: part[0]):
        numbers = [digits for _, digits in group]
        found += [prefix] * ("" in numbers)
        spans = _ranges([digits for digits in numbers if digits])
        if len(spans) == 1 and "-" not in spans[0]:
            found.append(prefix + spans[0])
        elif spans:
            found.append(f"{prefix}[{','.join(spans)}]")
    return ",".join(found)


def _parts(host: str) -> tuple[str, str]:
    """Return the prefix of a name, and the digits at its end."""
    match = _NUMBERED.fullmatch(host)
    return (match[1], match[2]) if match else (host, "")


def _ranges(numbers: Iterable[str]) -> list[str]:
    """Return the ranges of sorted numbers; those of a range are written with as many digits as its first."""
    runs: list[list[str]] = []
    for digits in numbers:
        if runs and f"{int(runs[-1][-1]) + 1:0{len(runs[-1][0])}}" == digits:
            runs[-1].append(digits)
        else:
            runs.append([digits])
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
