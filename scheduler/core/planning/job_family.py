"""Families: similar jobs that share measurements and predictions. Pure."""

from __future__ import annotations

import hashlib
import re

from schedulearn.scheduler.core.command import split_command
from schedulearn.scheduler.core.planning.command_masking import hide_in_words

MAX = 200  # maximum characters of a name
_OPTION = re.compile(r"--?[A-Za-z]")
_PROGRAM = ("-m", "-c")  # their value names the program


def family_of(image: str, command: str) -> str:
    """Return the family: the image, and the command without values of its options.

    `train.py --lr=0.1 --epochs 5` and `train.py --lr=0.2 --epochs 9` are one family. A name that would be too long is
    replaced by a hash."""
    kept: list[str] = []
    options = False
    program = False
    for word in hide_in_words(split_command(command)):  # all users see names of families
        if _OPTION.match(word) and not program:
            program = word in _PROGRAM and not options
            options = options or not program
            kept.append(word.partition("=")[0])
        elif program or not options:
            kept.append(word)
            program = False
    name = " ".join([image, *kept])
    return name if len(name) <= MAX else hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
