"""Output formats of Slurm's commands: `%.18i %.9P`, `JobID:10,Name` and `JobID%20,State`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

_MAX_WIDTH = 10_000
_LETTER = re.compile(r"%(\.?)(\d{0,5})([A-Za-z])")
_NAME = re.compile(r"([A-Za-z-]+)(?::(\.?)(\d{0,5}))?")
_ACCOUNTING = re.compile(r"([A-Za-z]+)(?:%(-?)(\d{1,5}))?")
LONG_WIDTH = 20
"""Width of a column of --Format that has none."""


@dataclass(frozen=True)
class Column:
    """Column of a table: its field, header, and how it is written.

    `width`: None: as long as the text. `cut`: character at the end of a text that is too long."""

    field: str
    header: str
    width: int | None = None
    right: bool = False
    suffix: str = ""
    cut: str = ""

    def write(self, text: str) -> str:
        if self.width is not None:
            if len(text) > self.width:
                text = text[: self.width - len(self.cut)] + self.cut if self.width else ""
            text = text.rjust(self.width) if self.right else text.ljust(self.width)
        return text + self.suffix


def by_letters(text: str, fields: Mapping[str, tuple[str, str]]) -> list[Column]:
    """Return the columns of `%.18i %j`. `fields`: letter -> field and header. Raises ValueError."""
    found: list[Column] = []
    begin = text.partition("%")[0]
    if begin:
        found.append(Column("", begin))
    matches = list(_LETTER.finditer(text))
    if text.count("%") != len(matches) or not matches:
        raise ValueError(f"invalid format {text!r}: write e.g. '%.18i %j'")
    for match, after in zip(matches, [*matches[1:], None], strict=True):
        if match[3] not in fields:
            raise ValueError(f"invalid format {text!r}: %{match[3]} is not known here")
        field, header = fields[match[3]]
        suffix = text[match.end() : after.start() if after else len(text)]
        found.append(Column(field, header, _width(match[2]), match[1] == ".", suffix))
    return found


def by_names(text: str, fields: Mapping[str, str]) -> list[Column]:
    """Return the columns of `JobID:10,Name`. `fields`: name -> header. Raises ValueError."""
    found: list[Column] = []
    for part in text.split(","):
        match = _NAME.fullmatch(part.strip())
        if match is None or match[1].lower() not in fields:
            raise ValueError(f"invalid format {text!r}: {part!r} is not known here")
        name = match[1].lower()
        found.append(Column(name, fields[name], _width(match[3] or "") or LONG_WIDTH, match[2] == "."))
    return found


def by_accounting(text: str, fields: Mapping[str, int]) -> list[Column]:
    """Return the columns of `JobID%20,State`. `fields`: name -> width. Raises ValueError."""
    names = {name.lower(): name for name in fields}
    found: list[Column] = []
    for part in filter(None, text.split(",")):
        match = _ACCOUNTING.fullmatch(part.strip())
        name = names.get(match[1].lower()) if match else None
        if match is None or name is None:
            raise ValueError(f"Invalid field requested: {part!r}")
        width = _width(match[3] or "") or abs(fields[name])
        right = match[2] != "-" if match[3] else fields[name] > 0
        found.append(Column(name, name, width, right, " ", "+"))
    return found


def _width(digits: str) -> int | None:
    if digits and int(digits) > _MAX_WIDTH:
        raise ValueError(f"a column has a width of at most {_MAX_WIDTH}")
    return int(digits) if digits else None


def lines(columns: Sequence[Column], rows: Iterable[Mapping[str, str]], *, header: bool = True) -> Iterator[str]:
    """Yield the lines of a table."""
    if header:
        yield "".join(column.write(column.header) for column in columns)
    for row in rows:
        yield "".join(column.write(row[column.field] if column.field else column.header) for column in columns)


def parsable(
    columns: Sequence[Column], rows: Iterable[Mapping[str, str]], *, header: bool, ends: bool, between: str = "|"
) -> Iterator[str]:
    """Yield the lines of a table for programs. `ends`: each line ends with the delimiter."""
    end = between if ends else ""
    if header:
        yield between.join(column.header for column in columns) + end
    for row in rows:
        yield between.join(row[column.field] for column in columns) + end
