"""Lists of hosts as Slurm writes them: `gpu[1-3,7],login`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

_MAX_HOSTS = 100_000
_PART = re.compile(r"([^\[\],\s]*)(?:\[([\d,-]+)\])?([^\[\],\s]*)")
_NUMBERED = re.compile(r"(.*?)(\d+)")


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
    parts = sorted({_parts(host) for host in hosts})
    for (prefix, width), group in groupby(parts, key=lambda part: part[:2]):
        numbers = [number for _, _, number in group]
        if width == 0:
            found.append(prefix)
        elif len(numbers) == 1:
            found.append(f"{prefix}{numbers[0]:0{width}}")
        else:
            found.append(f"{prefix}[{','.join(_ranges(numbers, width))}]")
    return ",".join(found)


def _parts(host: str) -> tuple[str, int, int]:
    """Return the prefix of a name, the width of its number and the number; a width of 0: it has none."""
    match = _NUMBERED.fullmatch(host)
    if match is None or len(match[2]) > 9:
        return host, 0, 0
    return match[1], len(match[2]) if match[2].startswith("0") else 1, int(match[2])


def _ranges(numbers: list[int], width: int) -> Iterable[str]:
    for _, group in groupby(enumerate(numbers), key=lambda each: each[1] - each[0]):
        run = [number for _, number in group]
        yield f"{run[0]:0{width}}" + (f"-{run[-1]:0{width}}" if len(run) > 1 else "")
