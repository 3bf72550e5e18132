"""Features of jobs, and their regression columns within a family. Pure."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from schedulearn.scheduler.core.command import split_command

_EPOCHS = ("epochs", "num_epochs", "n_epochs", "max_epochs", "steps", "max_steps", "num_steps", "iterations", "iters")
_BATCH = ("batch_size", "batch", "bs", "train_batch_size")
_MAX_NUMBERS, _MAX_WORDS = 6, 6  # maximum number of columns
_OPTION = re.compile(r"--?[A-Za-z]")

Features = Mapping[str, float | str]
"""Name -> input of a job: the logarithm of a number, or a word."""


class Given(NamedTuple):
    command: str
    gpus: int
    batch_size: int | None
    epochs: int | None
    data: Sequence[str]


def features_of(given: Given) -> Features:
    """Return the features that distinguish jobs of a family.

    The words before the first option are not features: they are part of the family's name.
    """
    found: dict[str, float | str] = {}
    words = split_command(given.command)
    for at, word in enumerate(words):
        if _OPTION.match(word):
            name, equals, value = word.partition("=")
            following = words[at + 1] if at + 1 < len(words) else ""
            if not equals and following and not _OPTION.match(following):
                value = following
            found[name.lstrip("-").replace("-", "_").lower()] = _number_or_word(value)
    for key, value_given, names in (("epochs", given.epochs, _EPOCHS), ("batch_size", given.batch_size, _BATCH)):
        said = [found.pop(name) for name in names if isinstance(found.get(name), float)]
        if value_given:
            found[key] = math.log(value_given)
        elif said:
            found[key] = said[0]
    if given.gpus > 0:
        found["gpus"] = math.log(given.gpus)
    return found | {f"data {name}": "there" for name in given.data}


def _number_or_word(value: str) -> float | str:
    try:
        number = float(value)
    except ValueError:
        return value
    return math.log(number) if 0 < number < math.inf else value


class FeatureColumns:
    """Regression columns that distinguish jobs of one family. The first column is a constant."""

    def __init__(self, jobs: Sequence[Features]) -> None:
        self.numbers = _numbers(jobs)
        self.words = _words(jobs)

    def row(self, features: Features) -> list[float]:
        row = [1.0]
        for name, mean in self.numbers.items():
            value = features.get(name)
            row.append(value - mean if isinstance(value, float) else 0.0)
        return row + [float(features.get(name, "") == word) for name, word in self.words]


def _numbers(jobs: Sequence[Features]) -> dict[str, float]:
    """Return name -> mean of the numbers by which the jobs differ, most frequent names first."""
    found: dict[str, list[float]] = {}
    for each in jobs:
        for name, value in each.items():
            if isinstance(value, float):
                found.setdefault(name, []).append(value)
    # A job may train for more epochs than any before it. The effect of epochs is known even if all jobs had as many.
    able = {name: values for name, values in found.items() if name == "epochs" or max(values) > min(values)}
    names = sorted(able, key=lambda name: (name not in ("epochs", "batch_size", "gpus"), -len(able[name]), name))
    return {name: statistics.fmean(able[name]) for name in names[:_MAX_NUMBERS]}


def _words(jobs: Sequence[Features]) -> list[tuple[str, str]]:
    """Return (name, word) of the words by which the jobs differ, most frequent first.

    The usual word of each name needs no column.
    """
    counts: dict[str, dict[str, int]] = {}
    for each in jobs:
        for name, value in each.items():
            if isinstance(value, str):
                of_name = counts.setdefault(name, {})
                of_name[value] = of_name.get(value, 0) + 1
    found = []
    for name, of_name in counts.items():
        missing = len(jobs) - sum(of_name.values())
        by_count = sorted(of_name, key=lambda word: (-of_name[word], word))
        usual = by_count[0] if of_name[by_count[0]] >= missing else None
        # A word of only one job says nothing about others, and a name with a different word for each is like a number.
        found += [(of_name[word], name, word) for word in by_count if word != usual and of_name[word] > 1]
    return [(name, word) for _, name, word in sorted(found, key=lambda each: (-each[0], *each[1:]))[:_MAX_WORDS]]
