"""Validation messages in plain words, without regular expressions.

Every text of the validator that reaches a person comes from this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from schedulearn.scheduler.core.model_keys import keys_at
from schedulearn.scheduler.core.suggestions import did_you_mean

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_LARGEST = 1e12  # limit below which a number is written with all its digits
_SUBJECT = re.compile(r"^[A-Z]\w* should ")
_OBJECT = "must be an object: names with values"
_WHOLE = "must be a whole number"
_NUMBER = "must be a number"
_BY_TYPE = {
    "missing": "is missing",
    "string_type": "must be text",
    "string_unicode": "must be text that Unicode can write",
    "int_type": _WHOLE, "int_parsing": _WHOLE, "int_from_float": _WHOLE, "int_parsing_size": "is too large a number",
    "float_type": _NUMBER, "float_parsing": _NUMBER, "finite_number": "must be a finite number",
    "bool_type": "must be true or false", "bool_parsing": "must be true or false",
    "list_type": "must be a list", "tuple_type": "must be a list", "set_type": "must be a list",
    "dict_type": _OBJECT, "model_type": _OBJECT, "model_attributes_type": _OBJECT, "dataclass_type": _OBJECT,
    "path_type": "must be a path",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries, not {actual_length}",
    "too_long": "must have at most {max_length} entries",
    "greater_than_equal": "must be at least {ge}", "less_than_equal": "must be at most {le}",
    "greater_than": "must be more than {gt}", "less_than": "must be less than {lt}",
}  # fmt: skip
_BY_PATTERN = {
    "^[^\\x00]*$": "must not have the character NUL",
    r"^[0-9.]+:[0-9]+$": "must be an IPv4 address and a port, such as 10.0.0.1:29500",
    r"^[0-9a-f]{40}([0-9a-f]{24})?$": "must be a whole commit id: 40 or 64 hexadecimal digits, in lower case",
    r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$": "must be a domain in lower case, such as jobs.example.org",
    r"^(sqlite:////?[^/]|postgresql://)": "must begin with postgresql:// or sqlite:///",
}
_CHARACTERS = re.compile(r"\^(?:\[(?P<first>[^\]]*)\])?\[(?P<others>[^\]]*)\][*+]\$")
_RANGES = {"A-Za-z": "letters", "0-9": "digits"}
_HEX = re.compile(r"\^(?P<prefix>[a-z0-9]+:)?\[0-9a-f\]\{(?P<digits>\d+)\}\$")
_START = re.compile(r"\^(?P<start>[a-z]+\??://)")


_OF_UNION = re.compile(r"(function-[a-z]+|constrained-[a-z]+|list|literal)\[|constrained-[a-z]+$")
"""Parts of a place by which the validator names the members of a union. No key of ours has this form."""


class FieldFault(NamedTuple):
    """Validation error of one value."""

    place: tuple[int | str, ...]
    """Keys and indexes that lead to the value; empty for the whole value."""
    message: str

    @property
    def field(self) -> str:
        return ".".join(str(part) for part in self.place)


def faults_of(error: ValidationError) -> Sequence[ErrorDetails]:
    """Return the validator's errors without the input, which may be a secret or not be text."""
    found = error.errors(include_url=False, include_input=False)
    for each in found:
        each["loc"] = tuple(part for part in each["loc"] if not (isinstance(part, str) and _OF_UNION.match(part)))
    return found


def first_fault(error: ValidationError, kind: object = None) -> FieldFault:
    """Return the first fault of an error. `kind` is the expected type; unknown keys get suggestions from it."""
    return fault_of(faults_of(error)[0], kind)


def fault_of(error: ErrorDetails, kind: object = None) -> FieldFault:
    place = tuple(error["loc"])
    return FieldFault(place, plain_message(error, keys_at(kind, place[:-1])))


def plain_message(error: ErrorDetails, known: Iterable[str] = ()) -> str:
    """Return an error's message as the end of a sentence about its field. `known` are the allowed keys."""
    kind = str(error["type"])
    if kind == "string_pattern_mismatch":
        return _form(str(error["ctx"]["pattern"]))
    if kind == "extra_forbidden" and error["loc"]:
        return f"there is no such key{did_you_mean(str(error['loc'][-1]), known)}"
    if kind in _BY_TYPE:
        bounds = {name: _number(value) for name, value in error.get("ctx", {}).items()}
        told = _BY_TYPE[kind].format_map(bounds)
        return told.replace("least 1 characters", "least 1 character").replace("least 1 entries", "least 1 entry")
    if kind.startswith(("date_", "datetime_")):
        return "must be a time such as 2026-01-31T12:00:00Z"
    message = str(error["msg"]).removeprefix("Value error, ")
    return _SUBJECT.sub("must ", message)


def _number(bound: object) -> object:
    """Return a bound without the `.0` of a whole number."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() and bound < _LARGEST else bound


def _form(pattern: str) -> str:
    if pattern in _BY_PATTERN:
        return _BY_PATTERN[pattern]
    if digits := _HEX.fullmatch(pattern):
        after = f"'{digits['prefix']}' and " if digits["prefix"] else ""
        return f"must be {after}{digits['digits']} hexadecimal digits, in lower case"
    if start := _START.match(pattern):
        return f"must begin with {start['start'].replace('s?', '')} or https://"
    if found := _CHARACTERS.fullmatch(pattern):
        mark = ", a digit or _" if "_" in (found["first"] or "") else " or a digit"
        begins = f"begin with a letter{mark}, and " if found["first"] else ""
        return f"must {begins}have only {_characters(found['others'])}"
    return f"has characters that are not allowed, or not its form: {pattern}"


def _characters(allowed: str) -> str:
    """Return a character class in words."""
    left = allowed.replace(r"\w", "A-Za-z0-9_").replace("\\", "")
    names = [name for characters, name in _RANGES.items() if characters in left]
    for characters in _RANGES:
        left = left.replace(characters, "")
    spaces = "and spaces" if " " in left else "(no spaces or accents)"
    return f"{', '.join(names)} and {' '.join(left.replace(' ', ''))} {spaces}"
