"""Masking of secret values in logs as they are read. Pure.

Each byte of a value is replaced by one asterisk. Offsets don't change, and a reader that resumes in the middle of a
value sees no more of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SHORTEST = 8
"""Minimum bytes of a masked value.

Shorter values would match everywhere, and could soon be guessed from the places that are masked."""


def parts_of(values: Iterable[str]) -> tuple[bytes, ...]:
    """Return the byte strings to mask: each value, and each of its lines.

    A log may show the lines one by one. The longest come first, since they may contain others."""
    texts = {part for value in values for part in (value, *value.splitlines())}
    parts = (text.strip().encode() for text in texts)
    return tuple(sorted({part for part in parts if len(part) >= SHORTEST}, key=lambda part: (-len(part), part)))


def hide(data: bytes, parts: Sequence[bytes]) -> bytes:
    for part in parts:
        data = data.replace(part, b"*" * len(part))
    return data


def unsure(data: bytes, parts: Sequence[bytes]) -> int:
    """Return the number of last bytes of `data` that may start an incomplete value."""
    most = 0
    for part in parts:
        for length in range(min(len(part) - 1, len(data)), most, -1):
            if data.endswith(part[:length]):
                most = length
                break
    return most
