"""How long a job will take by what it is given, learned from the jobs of its family that ended. Pure.

The logarithm of a job's GPU-seconds is taken as a sum: a constant, so much for each number that it is given (epochs,
batch size, GPUs, options of its command), by its logarithm, and so much for each word (data sets, other options). What
few jobs do not tell stays as is usual: twice the epochs take twice as long, and nothing else matters.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from schedulearn.scheduler.core.command import split_command

REMEMBERED = 100
"""Jobs of a family that ended last: what a prediction rests on."""
CONFIDENCE = 0.9
_EPOCHS = ("epochs", "num_epochs", "n_epochs", "max_epochs", "steps", "max_steps", "num_steps", "iterations", "iters")
_BATCH = ("batch_size", "batch", "bs", "train_batch_size")
_MOST_NUMBERS, _MOST_WORDS = 6, 6  # that tell jobs apart
_STIFF = 0.2  # how much stands for what is usual: as so many jobs that differ by a factor of e
_T = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86)  # Student's, nine of ten between both, by degrees of freedom
_LEAST, _ALONE, _MOST = math.log(1.05), math.log(4.0), math.log(30.0)
"""Of half an interval, in logarithms: at least, where one job is all that is known, and at most."""
_LEAST_SCORES = 10
_OPTION = re.compile(r"--?[A-Za-z]")

Features = Mapping[str, float | str]
"""What a job is given, by name: logarithms of numbers, and words."""


class Given(NamedTuple):
    command: str
    gpus: int
    batch_size: int | None
    epochs: int | None
    data: Sequence[str]


class Ended(NamedTuple):
    features: Features
    gpu_seconds: float


class Prediction(NamedTuple):
    """GPU-seconds in all; the interval is to hold nine jobs of ten."""

    value: float
    low: float
    high: float
    jobs: int
    """That ended, on which it rests."""

    @property
    def spread(self) -> float:
        """By which factor it may be off, either way."""
        return self.high / self.value


def features_of(given: Given) -> Features:
    """By which jobs of a family are told apart. The words before the first option are part of the family's name."""
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


class LengthModel:
    """What the jobs of one family that ended tell of its others. `scores`: how far earlier predictions were off, in
    halves of their intervals: if more than one of ten was outside, the intervals are widened until that is so."""

    def __init__(self, ended: Sequence[Ended], scores: Sequence[float] = ()) -> None:
        """Raises ValueError if none has ended."""
        if not ended:
            raise ValueError("no job of the family has ended")
        self.jobs = len(ended)
        self._numbers = _numbers(ended)
        self._words = _words(ended)
        rows = [self._row(each.features) for each in ended]
        self._usual = [0.0] + [float(name == "epochs") for name in self._numbers] + [0.0] * len(self._words)
        left = [math.log(each.gpu_seconds) - _dot(self._usual, row) for each, row in zip(ended, rows, strict=True)]
        self._inverse = _inverse_of(rows)
        sums = [sum(row[at] * y for row, y in zip(rows, left, strict=True)) for at in range(len(self._usual))]
        more = [_dot(row, sums) for row in self._inverse]
        self._weights = [usual + extra for usual, extra in zip(self._usual, more, strict=True)]
        off = [
            (y - _dot(more, row)) / max(1e-3, 1 - self._leverage(row)) for y, row in zip(left, rows, strict=True)
        ]  # each by what the others tell
        self._half = _half_of(off)
        self._stretch = max(1.0, _held_by_nine_of_ten(scores)) if len(scores) >= _LEAST_SCORES else 1.0

    def predict(self, features: Features) -> Prediction:
        row = self._row(features)
        middle = _dot(self._weights, row)
        half = self._half * self._stretch * math.sqrt(1 + self._leverage(row))
        half = min(_MOST, max(_LEAST, half))
        value, low, high = (math.exp(max(-700.0, min(700.0, middle + side))) for side in (0.0, -half, half))
        return Prediction(value, low, high, self.jobs)

    def _row(self, features: Features) -> list[float]:
        row = [1.0]
        for name, mean in self._numbers.items():
            value = features.get(name)
            row.append(value - mean if isinstance(value, float) else 0.0)
        return row + [float(features.get(name, "") == word) for name, word in self._words]

    def _leverage(self, row: Sequence[float]) -> float:
        return _dot(row, [_dot(line, row) for line in self._inverse])


def score(prediction: Prediction, gpu_seconds: float) -> float:
    """How far it was off, in halves of its interval: 1 is its edge."""
    return abs(math.log(max(gpu_seconds, 1e-9) / prediction.value)) / max(math.log(prediction.spread), 1e-9)


def _numbers(ended: Sequence[Ended]) -> dict[str, float]:
    """Name -> mean, of the numbers by which the jobs differ, what is said most often first."""
    found: dict[str, list[float]] = {}
    for each in ended:
        for name, value in each.features.items():
            if isinstance(value, float):
                found.setdefault(name, []).append(value)
    # A job may go on where no other was: how epochs count is known, even of jobs that all had as many.
    able = {name: values for name, values in found.items() if name == "epochs" or max(values) > min(values)}
    names = sorted(able, key=lambda name: (name not in ("epochs", "batch_size", "gpus"), -len(able[name]), name))
    return {name: statistics.fmean(able[name]) for name in names[:_MOST_NUMBERS]}


def _words(ended: Sequence[Ended]) -> list[tuple[str, str]]:
    """(name, word), the most frequent first, of the words by which the jobs differ; the usual one of each name needs no
    place of its own."""
    counts: dict[str, dict[str, int]] = {}
    for each in ended:
        for name, value in each.features.items():
            if isinstance(value, str):
                of_name = counts.setdefault(name, {})
                of_name[value] = of_name.get(value, 0) + 1
    found = []
    for name, of_name in counts.items():
        missing = len(ended) - sum(of_name.values())
        by_count = sorted(of_name, key=lambda word: (-of_name[word], word))
        usual = by_count[0] if of_name[by_count[0]] >= missing else None
        # A word that only one job has tells nothing of others, and a name with a word for each is like a number.
        found += [(of_name[word], name, word) for word in by_count if word != usual and of_name[word] > 1]
    return [(name, word) for _, name, word in sorted(found, key=lambda each: (-each[0], *each[1:]))[:_MOST_WORDS]]


def _inverse_of(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Of the normal equations, by Gauss and Jordan. What holds back the weights keeps it regular."""
    size = len(rows[0])
    left = [[sum(row[a] * row[b] for row in rows) for b in range(size)] for a in range(size)]
    for at in range(1, size):
        left[at][at] += _STIFF
    right = [[float(a == b) for b in range(size)] for a in range(size)]
    for at in range(size):
        pivot = left[at][at]
        left[at], right[at] = [v / pivot for v in left[at]], [v / pivot for v in right[at]]
        for other in range(size):
            if other != at and (factor := left[other][at]):
                left[other] = [v - factor * w for v, w in zip(left[other], left[at], strict=True)]
                right[other] = [v - factor * w for v, w in zip(right[other], right[at], strict=True)]
    return right


def _half_of(off: Sequence[float]) -> float:
    """Half of an interval that holds nine of ten jobs, by how far each was off."""
    if len(off) < 2:
        return _ALONE
    if math.ceil(CONFIDENCE * (len(off) + 1)) > len(off):
        return _T[len(off) - 2] * math.sqrt(statistics.fmean([each * each for each in off]))
    return _held_by_nine_of_ten([abs(each) for each in off])


def _held_by_nine_of_ten(values: Sequence[float]) -> float:
    """As much as a further value of this kind exceeds in one of ten cases at most."""
    rank = min(len(values), math.ceil(CONFIDENCE * (len(values) + 1)))
    return sorted(values)[rank - 1]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))
