"""Byte range of a file that a request asks for (RFC 9110).

With it, an interrupted download continues where it ended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


@dataclass(frozen=True)
class RangePart:
    offset: int
    length: int


class NoSuchPart(Exception):
    """The file has no byte of the range."""


def asked_part(header: str | None, size: int) -> RangePart | None:
    """Return the part that the header asks for; None: the whole file.

    It is also None for an invalid range and for several ranges, as the RFC allows. Raises NoSuchPart."""
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        length = min(int(last), size)
        if not length:
            raise NoSuchPart
        return RangePart(size - length, length)
    begin, end = int(first), min(int(last), size - 1) if last else size - 1
    if last and int(last) < begin:
        return None
    if begin >= size:
        raise NoSuchPart
    return RangePart(begin, end - begin + 1)
