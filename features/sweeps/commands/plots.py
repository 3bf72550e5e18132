"""Plots of main effects, interactions and levels of an experiment."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Level = bool | int | float | str
Row = tuple[Mapping[str, Level], float]

_MAX_PAIRS = 15
_SIZE = 3.2  # inches of one plot


def draw(rows: Sequence[Row], factors: Sequence[str], response: str, folder: Path, kind: str) -> list[Path]:
    """Draw the plots and return their files. Raises ImportError without matplotlib."""
    from matplotlib.figure import Figure  # no pyplot, which would need a window system

    varied = [name for name in factors if len({row[0][name] for row in rows}) > 1] or list(factors[:1])
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"main-effects": _main_effects(Figure, rows, varied, response)}
    figures["boxes"] = _boxes(Figure, rows, varied, response)
    if len(varied) > 1:
        figures["interactions"] = _interactions(Figure, rows, varied, response)
    files = []
    for name, figure in figures.items():
        files.append(folder / f"{response.replace('/', '_')}-{name}.{kind}")
        figure.savefig(files[-1], dpi=120)
    return files


def _grouped(rows: Sequence[Row], factor: str) -> dict[Level, list[float]]:
    found: dict[Level, list[float]] = {}
    for levels, value in rows:
        found.setdefault(levels[factor], []).append(value)
    return dict(sorted(found.items(), key=lambda each: (isinstance(each[0], str), each[0])))


def _main_effects(make: type[Figure], rows: Sequence[Row], factors: Sequence[str], response: str) -> Figure:
    figure = make(figsize=(_SIZE * len(factors), _SIZE), layout="constrained")
    axes = figure.subplots(1, len(factors), squeeze=False, sharey=True)[0]
    for axis, factor in zip(axes, factors, strict=True):
        groups = _grouped(rows, factor)
        axis.plot([str(level) for level in groups], [statistics.fmean(each) for each in groups.values()], marker="o")
        axis.set_xlabel(factor)
    axes[0].set_ylabel(f"mean {response}")
    return figure


def _boxes(make: type[Figure], rows: Sequence[Row], factors: Sequence[str], response: str) -> Figure:
    figure = make(figsize=(_SIZE * len(factors), _SIZE), layout="constrained")
    axes = figure.subplots(1, len(factors), squeeze=False, sharey=True)[0]
    for axis, factor in zip(axes, factors, strict=True):
        groups = _grouped(rows, factor)
        axis.boxplot([*groups.values()], tick_labels=[str(level) for level in groups])
        axis.set_xlabel(factor)
    axes[0].set_ylabel(response)
    return figure


def _interactions(make: type[Figure], rows: Sequence[Row], factors: Sequence[str], response: str) -> Figure:
    pairs = list(itertools.combinations(factors, 2))[:_MAX_PAIRS]
    figure = make(figsize=(_SIZE * len(pairs), _SIZE), layout="constrained")
    axes = figure.subplots(1, len(pairs), squeeze=False, sharey=True)[0]
    for axis, (across, by) in zip(axes, pairs, strict=True):
        for level in _grouped(rows, by):
            groups = _grouped([row for row in rows if row[0][by] == level], across)
            means = [statistics.fmean(each) for each in groups.values()]
            axis.plot([str(each) for each in groups], means, marker="o", label=f"{by} = {level}")
        axis.set_xlabel(across)
        axis.legend(fontsize="x-small")
    axes[0].set_ylabel(f"mean {response}")
    return figure
