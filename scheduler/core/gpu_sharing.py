"""Time shares of GPUs held by several tasks at once, split evenly. Pure."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Holding(NamedTuple):
    """GPUs of a task from `begin` to `end`, in seconds since the epoch."""

    begin: float
    end: float
    gpu_uuids: Sequence[str]


class Part(NamedTuple):
    begin: float
    end: float
    holders: int


class Sharing:
    """Number of holders of each GPU over time."""

    def __init__(self, holdings: Iterable[Holding]) -> None:
        spans: dict[str, list[tuple[float, float]]] = {}
        for begin, end, uuids in holdings:
            for uuid in uuids if begin < end else ():
                spans.setdefault(uuid, []).append((begin, end))
        self._shared = {uuid: _levels(each) for uuid, each in spans.items() if _overlap(each)}

    def parts(self, uuid: str, begin: float, end: float) -> Iterator[Part]:
        """Split the time in which a task held a GPU where the number of its holders changes."""
        at, holders = self._shared.get(uuid, _ALONE)
        index = bisect_right(at, begin) - 1
        while begin < end:
            until = min(end, at[index + 1]) if index + 1 < len(at) else end
            yield Part(begin, until, holders[index])
            begin, index = until, index + 1

    def seconds(self, uuid: str, begin: float, end: float) -> float:
        """Return a task's share of the time in which it held a GPU."""
        return sum((part.end - part.begin) / part.holders for part in self.parts(uuid, begin, end))


_Levels = tuple[Sequence[float], Sequence[int]]
_ALONE: _Levels = ((float("-inf"),), (1,))


def _overlap(spans: list[tuple[float, float]]) -> bool:
    spans.sort()
    return any(following < end for (_, end), (following, _) in itertools.pairwise(spans))


def _levels(spans: Iterable[tuple[float, float]]) -> _Levels:
    """Return (times of change, number of holders from each of them on)."""
    changes: dict[float, int] = {}
    for begin, end in spans:
        changes[begin] = changes.get(begin, 0) + 1
        changes[end] = changes.get(end, 0) - 1
    at, holders, now = sorted(changes), [], 0
    for each in at:
        now += changes[each]
        holders.append(now)
    return at, holders
