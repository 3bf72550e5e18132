"""Keys of a job that state on which hosts it runs: names and labels of hosts, and types of GPUs."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from schedulearn.scheduler.specs.texts import Text

MAX_TERMS = 100
MAX_LABELS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
_VALUE = re.compile(r"[A-Za-z0-9._:/@+-]{1,63}")


def check_label(key: str, value: str) -> None:
    """Raise ValueError for a label of a host that jobs could not name."""
    if not _KEY.fullmatch(key):
        raise ValueError(
            f"invalid label {key[:80]!r}: use at most 63 letters, digits, '.', '_', '/' and '-', beginning with a "
            "letter or digit"
        )
    if not _VALUE.fullmatch(value):
        raise ValueError(
            f"invalid value {value[:80]!r} of the label {key}: use 1 to 63 letters, digits and '.', '_', ':', '/', "
            "'@', '+', '-'"
        )


def _as_terms(value: Any) -> Any:
    """Convert `a,b` and `{room: b2}` to a list of names and `key=value`."""
    if isinstance(value, str):
        value = value.split(",") if value.strip() else []
    if isinstance(value, dict):
        pairs = []
        for key, values in value.items():
            for each in values if isinstance(values, list) else [values]:
                if not isinstance(each, str | int | float) or isinstance(each, bool):
                    raise ValueError(f"the label {str(key)[:80]!r} must have a text or a list of texts")
                pairs.append(f"{key}={each}")
        value = pairs
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return list(dict.fromkeys("=".join(side.strip() for side in each.split("=", 1)) for each in value))
    return value


def _checked(terms: list[str]) -> list[str]:
    for term in terms:
        key, equals, value = term.partition("=")
        if equals:
            check_label(key, value)
        elif not _NAME.fullmatch(term):
            raise ValueError(
                f"invalid host {term[:80]!r}: write the name of a host, or a label as key=value; `schedulearn hosts "
                "ls` shows both"
            )
    return terms


HostTerms = Annotated[
    list[Text],
    Field(max_length=MAX_TERMS),
    AfterValidator(_checked),
    BeforeValidator(_as_terms, json_schema_input_type=str | list[str] | dict[str, str | list[str]]),
]
"""Names of hosts, and labels as `key=value`."""


def _joined(value: Any) -> Any:
    """Convert a list of types to one text. Types are separated by commas."""
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        value = ",".join(value)
    return ",".join(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


GpuTypes = Annotated[Text, Field(min_length=1, max_length=200), BeforeValidator(_joined)]
"""Types of GPUs, in full or by words, separated by commas."""
