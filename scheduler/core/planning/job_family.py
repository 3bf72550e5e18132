"""Families: jobs of one kind, which share what is learned of them. Pure."""

from __future__ import annotations

import hashlib
import re

from schedulearn.scheduler.core.command import split_command
from schedulearn.scheduler.core.planning.command_masking import hide_in_words

MOST = 200  # characters of a name
_OPTION = re.compile(r"--?[A-Za-z]")
_PROGRAM = ("-m", "-c")  # their value says what is run


def family_of(image: str, command: str) -> str:
    """The image and the command without its arguments' values: `train.py --lr=0.1 --epochs 5` and `train.py --lr=0.2
    --epochs 9` are of one family. Names that would be too long are told apart by a hash."""
    kept: list[str] = []
    options = False
    program = False
    for word in hide_in_words(split_command(command)):  # everybody sees the names of families
        if _OPTION.match(word) and not program:
            program = word in _PROGRAM and not options
            options = options or not program
            kept.append(word.partition("=")[0])
        elif program or not options:
            kept.append(word)
            program = False
    name = " ".join([image, *kept])
    return name if len(name) <= MOST else hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
