"""Masking of secrets in command lines, URLs and messages. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from schedulearn.scheduler.core.words import split_words

MASK = "********"
"""Replacement for a value that may be a secret."""

_NAME = (
    r"[\w.-]*?(?<![A-Za-z])(?:pass(?:word|wd|phrase|code)?|pwd|secrets?|token|credentials?|auth|authorization|cookie|dsn|"
    r"jwt|pat|key|api-?key)"
)
"""Pattern of names whose last word suggests a secret: `--hf-token`, `db.password`; not `--max-tokens`."""
_CAMEL = r"[\w.-]*[a-z](?:Password|Token|Secret|Key|Credentials?)"
_NAMED = rf"(?:(?i:{_NAME})|{_CAMEL})"
_OPTION = re.compile(rf"--?{_NAMED}")
_ASSIGNED = re.compile(rf"((?:--?)?{_NAMED}=)(.+)", re.DOTALL)
_QUOTED_OR_WORD = r"""(?:"[^"]*"|'[^']*'|\\.|[^\s"'\\;&|])+"""
_ASSIGNED_INSIDE = re.compile(rf"(?<![\w.-])((?:--?)?{_NAMED}=)({_QUOTED_OR_WORD})")
_OPTION_INSIDE = re.compile(rf"(?<![\w.-])(--{_NAMED}\s+)(?!-)({_QUOTED_OR_WORD})")
_USER_INFO = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*://)([^\s/?#'\"@]+(?:@[^\s/?#'\"@]+)*)@")
_BEARER = re.compile(r"\b((?i:bearer|basic)\s+)([\w.~+/=-]{8,})")
_KNOWN = re.compile(
    r"\b(?:gh[pousr]_\w{16,}|github_pat_\w{16,}|hf_\w{16,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}|"
    r"sl_[\w-]{16,}|AKIA[0-9A-Z]{16})"
)
_MAYBE_JWT = re.compile(r"\beyJ[\w-]*+(?:\.[\w-]++)*+")
_HARMLESS = re.compile(r"[\w./-]{0,14}")
"""Pattern of words that are too short for a token, and hold no `name=value`."""
_MAY_HOLD = re.compile(
    r"://|(?i:pass|pwd|secret|token|credential|auth|cookie|dsn|jwt|pat|key|bearer|basic)|gh[pousr]_|hf_|glpat|sk-|xox|sl_"
    r"|AKIA|eyJ"
)


_SHELL = frozenset("#&;|<>$`()~")
_SHORT = 1000
"""Maximum characters of a cached command; all cached commands together take at most 10 MB."""


def hide_in_text(text: str) -> str:
    """Return a message, script or URL with recognizable secrets masked.

    These are values of options and variables with telling names, credentials in URLs and headers, and tokens with
    known prefixes."""
    if _MAY_HOLD.search(text) is None:
        return text
    text = _USER_INFO.sub(_without_user_info, text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _ASSIGNED_INSIDE.sub(rf"\1{MASK}", text)
    text = _OPTION_INSIDE.sub(rf"\1{MASK}", text)
    text = _MAYBE_JWT.sub(_without_jwt, text)
    return _KNOWN.sub(MASK, text)


def _without_jwt(found: re.Match[str]) -> str:
    parts = found[0].split(".")
    heads = pairwise(parts[:-1])  # a signature follows
    return MASK if any("eyJ" in head and len(head) > 10 and len(payload) > 7 for head, payload in heads) else found[0]


def _without_user_info(found: re.Match[str]) -> str:
    """Return a URL's start without secrets. A user name is masked only for http(s), where it may be a token."""
    scheme, info = found[1], found[2]
    user, colon, _ = info.partition(":")
    if colon:
        return f"{scheme}{user}:{MASK}@" if user else f"{scheme}:{MASK}@"
    return f"{scheme}{MASK}@" if scheme.lower().startswith("http") else found[0]


def hide_in_command(command: str) -> str:
    """Return a command line with secrets masked, word by word. Without secrets it stays as it is."""
    return _hide_in_short(command) if len(command) <= _SHORT else _hide_in(command)


@lru_cache(10_000)
def _hide_in_short(command: str) -> str:
    return _hide_in(command)


def _hide_in(command: str) -> str:
    if _MAY_HOLD.search(command) is None:
        return command
    try:
        words = split_words(command)
    except ValueError:
        return hide_in_text(command)
    hidden = hide_in_words(words)
    return command if hidden == words else " ".join(map(_quoted, hidden))


def hide_in_words(words: Iterable[str]) -> list[str]:
    found: list[str] = []
    before = ""
    for word in words:
        if before.startswith("-") and not word.startswith("-") and _OPTION.fullmatch(before):
            found.append(MASK)
        elif _HARMLESS.fullmatch(word):
            found.append(word)
        elif before != "-c" and (assigned := _ASSIGNED.fullmatch(word)) is not None:  # what follows -c is a script
            found.append(assigned[1] + MASK)
        else:
            found.append(hide_in_text(word))
        before = word
    return found


def _quoted(word: str) -> str:
    return word if word.isprintable() and not _SHELL & set(word) and _is_one_word(word) else shlex.quote(word)


def _is_one_word(word: str) -> bool:
    try:
        return split_words(word) == [word]
    except ValueError:
        return False
