"""Secret values in logs, hidden as the logs are read. Pure.

A value is replaced by as many asterisks as it has bytes: offsets stay what they are, and who resumes in the middle of
a value sees no more of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SHORTEST = 8
"""Bytes of what is hidden. What is shorter would be found everywhere, and soon guessed by where it is hidden."""


def parts_of(values: Iterable[str]) -> tuple[bytes, ...]:
    """What to hide of these values: each as a whole, and its lines, which a log may show one by one. The longest come
    first, since they may hold others."""
    texts = {part for value in values for part in (value, *value.splitlines())}
    parts = (text.strip().encode() for text in texts)
    return tuple(sorted({part for part in parts if len(part) >= SHORTEST}, key=lambda part: (-len(part), part)))


def hide(data: bytes, parts: Sequence[bytes]) -> bytes:
    for part in parts:
        data = data.replace(part, b"*" * len(part))
    return data


def unsure(data: bytes, parts: Sequence[bytes]) -> int:
    """How many bytes at the end of `data` may be the beginning of a value that goes on."""
    most = 0
    for part in parts:
        for length in range(min(len(part) - 1, len(data)), most, -1):
            if data.endswith(part[:length]):
                most = length
                break
    return most
