"""Parser of progress and metrics in a training script's output. Pure.

It knows the lines of plain loops, PyTorch's examples, Lightning, Keras, Hugging Face, tqdm, YOLO, Megatron and
MMDetection. Its work is linear in the size of the output: lines are cut, and every repetition in a pattern has a bound.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, Self

from pydantic import TypeAdapter

MAX_LINE = 1000
"""Characters of a line that are read."""
MAX_NAMES = 20
_MAX_TOTALS = 8
_MAX_COLUMNS = 20
_LARGEST = 1 << 53

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_LINE = re.compile(rb"[^\r\n\x08]+")
_NUMBER = r"[-+]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?"
_EPOCH = re.compile(
    r"\bepoch(?:\(train\))?['\"]?[ ]{0,4}[:=#]?[ ]{0,4}[\[(]?[ ]{0,6}(\d{1,7})(?:[ ]{0,6}(?:/|of)[ ]{0,6}(\d{1,7}))?"
    r"(?!\.?\d|%)",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"\b(global[_ ]step|step|iter|iteration|batch|update)s?['\"]?[ ]{0,10}[:=#]?[ ]{0,10}[\[(]?[ ]{0,10}"
    r"(\d{1,12})(?:[ ]{0,10}(?:/|of)[ ]{0,10}(\d{1,12}))?(?!\.?\d|%)",
    re.IGNORECASE,
)
_BAR = re.compile(r"\d{1,3}%\|[^|]{0,200}\|[ ]{0,10}(\d{1,12})/(\d{1,12})[ ]{0,3}\[")
_BRACKET = re.compile(r"\[[ ]{0,8}(\d{1,12})[ ]{0,4}/[ ]{0,4}(\d{1,12})(?=[\] (])")
_START = re.compile(r"[ ]{0,20}(\d{1,12})/(\d{1,12})(?=[ ])")
_RUN_PAGE = re.compile(
    r"(?:View run(?: .{1,200}?)? at:?|live on comet\.com|Open in the app:|ClearML results page:)[ ]{1,4}"
    r"(https?://[^\s<>\"'`]{1,500})"
)
"""Address of the run's page, as W&B, MLflow, Comet, Neptune and ClearML print it."""
_MAX_RUN_PAGES = 5
_TRAINING = re.compile(r"(?:train|epoch|step|iter|fit|loss|progress)", re.IGNORECASE)
_VALIDATION = re.compile(r"[\W_]{0,8}(val|valid|validation|validating|eval|evaluation|evaluating|test|testing)\b", re.I)
_VALUE = re.compile(
    r"(?<![\w./@-])(?:(train|training|val|valid|validation|test|eval|dev)[ ])?([A-Za-z][\w./@-]{0,63})['\"]?"
    r"[ ]{0,4}(?:[:=][ ]{0,4}|[ ])(?:tensor\()?['\"]?"
    rf"({_NUMBER})(?:/(\d{{1,12}}))?(?![\w.:/]|%\|)",
    re.ASCII,
)
"""Name and number. The classes of its parts differ where they meet, so a failed match is not tried in many ways."""

_KNOWN = frozenset({
    "loss", "acc", "accuracy", "top1", "top5", "f1", "precision", "recall", "auc", "auroc", "map", "map50",
    "map50-95", "iou", "miou", "dice", "bleu", "rouge", "rouge1", "rouge2", "rougel", "wer", "cer", "ppl",
    "perplexity", "mse", "mae", "rmse", "mape", "r2", "psnr", "ssim", "fid", "reward", "elbo", "kl", "nll", "bce",
    "ce", "bpb", "bpc", "entropy", "lr",
})  # fmt: skip
"""Last word of a name that is a metric without being asked for."""
_KNOWN_PARTS = frozenset({"error", "norm", "return", "score"})
"""Last word of such a name with another word before it: `val_error`, but not `error 404`."""
_KNOWN_NAMES = frozenset({"learning_rate", "samples_per_second", "tokens_per_second"})
_WORDS = re.compile(r"[_/.@ ]")
_SPLITS = {"training": "train", "valid": "val", "validation": "val", "validating": "val", "evaluation": "eval",
           "evaluating": "eval", "testing": "test"}  # fmt: skip


class Value(NamedTuple):
    """Value of a metric, at a step of the training."""

    name: str
    step: int
    value: float


class LogProgress(NamedTuple):
    """Place of a training by its output."""

    epoch: int
    """Completed epochs."""
    epochs: int
    position: int
    """Completed steps of this epoch, of `epoch_steps`."""
    epoch_steps: int

    @property
    def fraction(self) -> float:
        """Progress from 0 to 1."""
        within = self.position / self.epoch_steps if self.epoch_steps else 0.0
        return min(1.0, (self.epoch + within) / self.epochs)


@dataclass
class LogReading:
    """What the lines of one attempt have shown so far; it survives as JSON."""

    epoch: int | None = None
    """Index of the current epoch, as the script counts."""
    epochs: int | None = None
    first: int = 1
    """Index of the script's first epoch: 0 or 1."""
    complete: bool = False
    """Whether the line of the current epoch came at its end."""
    position: int = 0
    total: int = 0
    """Steps of the current epoch, or of the training if it has no epochs."""
    restarted: bool = False
    """Whether epochs began again, as in a cross-validation. The whole is then unknown."""
    totals: dict[str, list[int]] = field(default_factory=dict)
    """Total of steps outside epochs -> [position, how often it began again]."""
    columns: list[str] = field(default_factory=list)
    """Names of the columns of a table (YOLO)."""
    steps: dict[str, int] = field(default_factory=dict)
    """Metric -> step of its last value."""
    run_pages: list[str] = field(default_factory=list)
    """Addresses of the run's pages in trackers of experiments, the last ones."""

    @classmethod
    def load(cls, stored: Mapping[str, object]) -> Self:
        """Raises ValueError for a state of another version."""
        return TypeAdapter(cls).validate_python(stored)

    def dump(self) -> dict[str, object]:
        return asdict(self)

    @property
    def progress(self) -> LogProgress | None:
        """Place of the training; None if the whole is unknown."""
        if self.epoch is not None:
            if not self.epochs or self.restarted:
                return None
            done = min(self.epochs, max(0, self.epoch - self.first) + self.complete)
            within = min(self.position, self.total) if not self.complete and done < self.epochs else 0
            return LogProgress(done, self.epochs, within, self.total)
        once = [(int(total), seen[0]) for total, seen in self.totals.items() if not seen[1]]
        if not once:
            return None
        total, position = max(once)
        return LogProgress(0, 1, min(position, total), total)

    def read(self, line: str, names: Collection[str] | None = None) -> list[Value]:
        """Read one line, and return its metrics. `names`: the metrics wanted; None: the usual ones."""
        line = _ANSI.sub("", line[:MAX_LINE]).replace("\t", " ")
        if "://" in line and (page := _RUN_PAGE.search(line)) is not None:
            self.run_pages = [*(url for url in self.run_pages if url != page[1]), page[1]][-_MAX_RUN_PAGES:]
            return []
        if not any(char.isdigit() for char in line):
            self._read_header(line)
            return []
        found = dict(self._row(line, names) or _values(line, names))
        step = self._place(line, bool(found))
        return [Value(name, self._step_of(name, step), value) for name, value in found.items() if self._keeps(name)]

    def _keeps(self, name: str) -> bool:
        return name in self.steps or len(self.steps) < MAX_NAMES

    def _step_of(self, name: str, step: int | None) -> int:
        """Return the step of a value. It never falls: a curve goes on, whatever else the script counts."""
        before = self.steps.get(name)
        found = (before or 0) + 1 if step is None else max(step, before or 0)
        self.steps[name] = min(found, _LARGEST)
        return self.steps[name]

    def _place(self, line: str, has_values: bool) -> int | None:
        """Follow the progress, and return the step of the line's metrics; None: unknown."""
        if _VALIDATION.match(line):
            return self._now()
        epoch = None if self.columns else _EPOCH.search(line)
        if epoch is not None:
            self._set_epoch(int(epoch[1]), int(epoch[2] or 0))
        end = epoch.end() if epoch is not None else 0
        at = self._table_epoch(line)
        bar = _BAR.search(line, end)
        if bar is not None:
            label = line[end : bar.start()].strip(" :|")
            if at or epoch is not None or not label or _TRAINING.search(label):
                self._set_step(int(bar[1]), int(bar[2]))
            return self._now()
        pair = _BRACKET.search(line, end) if epoch is not None else None
        if pair is None and epoch is None and not at:
            pair = _START.match(line)
        if pair is not None:
            self._set_step(int(pair[1]), int(pair[2]))
            return self._now()
        if (step := _STEP.search(line)) is not None and (step[3] or step[1].lower() not in ("batch", "update")):
            if step[3]:
                self._set_step(int(step[2]), int(step[3]))
                return self._now()
            return int(step[2])
        if epoch is not None:
            self.complete = has_values
        return self._now()

    def _set_epoch(self, index: int, epochs: int) -> None:
        if index == 0:
            self.first = 0
        before = self.epoch
        if before is not None and index < before and (before - index > 1 or self.complete):
            self.restarted = True
        if before is not None and index < before and not self.restarted:
            return  # a line of a slower worker
        if index != before:
            self.position, self.complete = 0, False
        self.epoch = index
        self.epochs = epochs or self.epochs
        if self.epochs is not None and index > self.epochs:
            self.epochs = None

    def _set_step(self, position: int, total: int) -> None:
        if not 0 < total <= _LARGEST or position > total:
            return
        if self.epoch is not None:
            if total >= self.total:
                self.position = position if self.total != total else max(position, self.position)
                self.total = total
            return
        key = str(total)
        seen = self.totals.get(key)
        if seen is None and len(self.totals) < _MAX_TOTALS:
            self.totals[key] = [position, 0]
        elif seen is not None:
            seen[1] += position < seen[0] // 2
            seen[0] = position

    def _now(self) -> int | None:
        """Return the number of steps so far, or of epochs; None if neither is known."""
        if self.epoch is None:
            known = [(int(total), seen[0]) for total, seen in self.totals.items() if not seen[1]]
            return max(known)[1] if known else None
        done = max(0, self.epoch - self.first)
        if not self.total:
            return self.epoch
        return done * self.total + (self.total if self.complete else self.position)

    def _read_header(self, line: str) -> None:
        words = line.lower().split()[:_MAX_COLUMNS]
        if len(words) > 2 and words[0] == "epoch" and any(_is_known(word) for word in words):
            self.columns = [word[:64] for word in words]

    def _table_epoch(self, line: str) -> bool:
        """Follow the first column of a table. Return whether it was there."""
        if not self.columns or (match := _START.match(line)) is None:
            return False
        self._set_epoch(int(match[1]), int(match[2]))
        return True

    def _row(self, line: str, names: Collection[str] | None) -> list[tuple[str, float]]:
        """Return the metrics of a table's row."""
        if not self.columns or _START.match(line) is None:
            return []
        cells = line.split()[: len(self.columns)]
        pairs = [(name, _number(cell)) for name, cell in zip(self.columns, cells, strict=False)]
        return [(name, value) for name, value in pairs if value is not None and _is_wanted(name, names)]


def _values(line: str, names: Collection[str] | None) -> Iterator[tuple[str, float]]:
    part = _VALIDATION.match(line)
    prefix = _short(part[1]) if part is not None else ""
    for match in _VALUE.finditer(line):
        split, name, number, of = match.groups()
        value = _number(number)
        if value is not None and of is not None:
            value = value / int(of) if int(of) else None
        name = normal_name(name)
        before = _short(split) if split else prefix
        if before and not name.startswith(before):
            name = f"{before}_{name}"
        if value is not None and len(name) <= 64 and _is_wanted(name, names):
            yield name, value


def normal_name(name: str) -> str:
    """Return the name under which a metric is stored, for a name in a log."""
    return name.lower().replace("@", "_")


def _short(word: str) -> str:
    return _SPLITS.get(word.lower(), word.lower())


def _is_wanted(name: str, names: Collection[str] | None) -> bool:
    return _is_known(name) if names is None else name in names


def _is_known(name: str) -> bool:
    """Whether a name is that of a usual metric, with any words before: `train/box_loss`, `grad_norm`."""
    words = [word for word in _WORDS.split(name) if word]
    while words and (words[-1].isdigit() or words[-1] in ("epoch", "step", "avg", "mean")):
        words.pop()
    if not words:
        return False
    return words[-1] in _KNOWN or name in _KNOWN_NAMES or (words[-1] in _KNOWN_PARTS and len(words) > 1)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < 1e300 else None


def lines_of(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield the offset and text of each line. Bars overwrite their line by a return, or by backspaces (Keras)."""
    for match in _LINE.finditer(data):
        yield match.start(), match[0][: 4 * MAX_LINE].decode("utf-8", "replace")


def complete_part(data: bytes) -> int:
    """Return the length of the complete lines at the beginning of `data`."""
    return 1 + max(data.rfind(end) for end in (b"\n", b"\r", b"\x08"))
