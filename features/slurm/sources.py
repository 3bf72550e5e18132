"""Files of the folder that a batch script names, such as the program that it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_WORD = re.compile(r"[\w./-]{1,200}")
_MAX_FILES = 50
_MAX_BYTES = 1 << 18


def named_in(text: str, folder: Path) -> Iterator[str]:
    """Yield the texts of files below `folder` that `text` names: `train.py`, `src/run.sh`, or `-m src.train`."""
    root = folder.resolve()
    words = (word for word in dict.fromkeys(_WORD.findall(text)) if "." in word or "/" in word)
    paths = dict.fromkeys(root / path for word in words for path in (word, f"{word.replace('.', '/')}.py"))
    found = 0
    for path in paths:
        if found == _MAX_FILES:
            return
        try:
            if path.resolve().is_relative_to(root) and path.is_file():
                with path.open("rb") as file:
                    yield file.read(_MAX_BYTES).decode(errors="replace")
                found += 1
        except OSError:  # no file of ours to read
            continue
