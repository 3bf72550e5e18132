"""Types of user input: bounded text, name-value pairs, whole numbers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

LONGEST_NAME = 256
MAX_PAIRS = 1000
LARGEST_PAIR = 128 << 10
"""Maximum bytes of NAME=value: Linux starts no program with a larger variable."""


def plain(text: str) -> str:
    """Return the text. Raises ValueError if it contains NUL."""
    if "\0" in text:
        raise ValueError("must not contain a NUL character")
    return text


def _as_text(value: Any) -> Any:
    """Convert values that are numbers, as people write them in JSON, to text."""
    if isinstance(value, dict):
        if len(value) > MAX_PAIRS:
            raise ValueError(f"must have at most {MAX_PAIRS} names, not {len(value)}")
        return {k: str(v) if isinstance(v, int | float) and not isinstance(v, bool) else v for k, v in value.items()}
    return value


def _bounded(pairs: dict[str, str]) -> dict[str, str]:
    for name, value in pairs.items():
        if len(name) > LONGEST_NAME:
            raise ValueError(f"a name must have at most {LONGEST_NAME} characters; {name[:40]}... has {len(name)}")
        # A character has at most four bytes, and most values are short.
        if len(value) > LARGEST_PAIR // 8 and len(f"{name}={value}".encode()) >= LARGEST_PAIR:
            raise ValueError(f"{name} and its value have more than {LARGEST_PAIR >> 10} KiB")
    return pairs


Text = Annotated[str, AfterValidator(plain)]
Pairs = Annotated[
    dict[Text, Text],
    BeforeValidator(_as_text, json_schema_input_type=dict[str, str | int | float]),
    AfterValidator(_bounded),
]
"""Name-value pairs, e.g. environment variables or labels."""


def whole(value: object) -> object:
    """Convert 1.0 to 1 in a strict model, since it is a whole number in JSON Schema."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
