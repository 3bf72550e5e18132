"""Writer of job files as YAML, in the order of the keys."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from schedulearn.api.client.client import Json

_PLAIN = re.compile(r"[A-Za-z/][\w./@+-]*(?:[ =][\w./@+-]+)*")
_NOT_TEXT = re.compile(r"true|false|null|yes|no|on|off|y|n|~", re.IGNORECASE)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def as_yaml(job: Json) -> str:
    """Return `job` as YAML. `read_jobs`, and every other reader of YAML 1.1 or 1.2, reads the same job."""
    lines = []
    for key, value in job.items():
        if isinstance(value, Mapping) and value:
            lines += [f"{key}:", *(f"  {scalar(name)}: {scalar(each)}" for name, each in value.items())]
        else:
            lines.append(f"{key}: {scalar(value)}")
    return "\n".join(lines) + "\n"


def scalar(value: object) -> str:
    """Return a value on one line. Plain words get no quotes."""
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value) else _quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_quoted(str(name))}: {scalar(each)}" for name, each in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_quoted(each) if isinstance(each, str) else scalar(each) for each in value) + "]"
    return json.dumps(value)


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}") for c in text) + '"'
