"""Messages of the validator in plain words: what a value must be, without the pattern that it missed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SUBJECT = re.compile(r"^[A-Z]\w* should ")
_WORDS = {"^[^\\x00]*$": "must not have the character NUL"}
_NAME = re.compile(r"\^\[A-Za-z0-9\]\[A-Za-z0-9(?P<marks>[^\]]*)\][*+]\$")
_HEX = re.compile(r"\^(?P<prefix>[a-z0-9]+:)?\[0-9a-f\]\{(?P<digits>\d+)\}\$")
_START = re.compile(r"\^(?P<start>[a-z]+\??://)")


def plain_message(error: Mapping[str, Any]) -> str:
    """Return what an error of the validator says, as the end of a sentence about its field."""
    if error["type"] == "string_pattern_mismatch":
        return _form(str(error["ctx"]["pattern"]))
    message = str(error["msg"]).removeprefix("Value error, ")
    return _SUBJECT.sub("must ", message)


def _form(pattern: str) -> str:
    if pattern in _WORDS:
        return _WORDS[pattern]
    if name := _NAME.fullmatch(pattern):
        marks = " ".join(name["marks"].replace("\\", ""))
        return f"must begin with a letter or a digit, and have only letters, digits and {marks} (no spaces or accents)"
    if digits := _HEX.fullmatch(pattern):
        after = f"'{digits['prefix']}' and " if digits["prefix"] else ""
        return f"must be {after}{digits['digits']} hexadecimal digits, in lower case"
    if start := _START.match(pattern):
        return f"must begin with {start['start'].replace('s?', '')} or https://"
    return f"has characters that are not allowed, or not its form: {pattern}"
