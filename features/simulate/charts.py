"""Line charts and Gantt charts as inline SVG.

Colours are CSS classes: the page's style sheet defines them for light and dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 34
COLOURS = 8
"""Classes c0 to c7; further series take the same ones, dashed."""
MAX_BOXES = 12_000
"""Maximum boxes for which a Gantt chart shows all. Beyond, those narrower than a fifth of a pixel are left out."""


@dataclass(frozen=True)
class Series:
    """One series: `x` rising, `y` of the same length."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Box:
    """Rectangle on rows `row` to `row + rows` from `begin` to `end`, of the colour `colour`."""

    row: float
    rows: float
    begin: float
    end: float
    colour: int
    title: str


def style_of(index: int) -> str:
    """The classes of the series with this index."""
    return f"c{index % COLOURS}" + (f" d{min(3, index // COLOURS)}" if index >= COLOURS else "")


def duration(seconds: float) -> str:
    """Return a duration as text, short enough for a tick."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (seconds >= size and seconds % size == 0):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def line_chart(lines: Sequence[Series], label: str, y_label: str, *, log_x: bool = False, percent: bool = False) -> str:
    """Return a chart of lines over time.

    `log_x`: the axis is logarithmic if times differ by more than a factor of 20. All must be above 0."""
    xs = [x for line in lines for x in line.x]
    low, high = min(xs), max(xs)
    log_x = log_x and high > 20 * low
    if log_x:
        low, high = math.log10(low), math.log10(high)
    top = 1.0 if percent else max((y for line in lines for y in line.y), default=1.0) or 1.0
    x_ticks = _log_ticks(low, high) if log_x else _time_ticks(low, high)
    y_ticks = [0, 0.25, 0.5, 0.75, 1] if percent else _ticks(0.0, top, 4)
    top = max(top, y_ticks[-1])

    def across(x: float) -> float:
        at = math.log10(x) if log_x else x
        return LEFT + (at - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        return HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM)

    parts = [_open(HEIGHT, label)]
    for y in y_ticks:
        text = f"{y:.0%}" if percent else f"{y:g}"
        parts.append(f'<path class="grid" d="M{LEFT} {down(y):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{down(y) + 4:.1f}" text-anchor="end">{text}</text>')
    parts += _x_axis([(across(x), x) for x in x_ticks], HEIGHT)
    turned = f'transform="translate(12 {HEIGHT / 2 - 10:.0f}) rotate(-90)"'
    parts.append(f'<text {turned} text-anchor="middle">{escape(y_label)}</text>')
    for index, line in enumerate(lines):
        points = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in zip(line.x, line.y, strict=True))
        # Earlier lines are wider: where several run on top of each other, all of them show.
        style = f'class="line {style_of(index)}" stroke-width="{1.5 + min(0.9 * (len(lines) - 1 - index), 5):.1f}"'
        parts.append(f'<polyline {style} points="{points}"><title>{escape(line.name)}</title></polyline>')
    return "".join(parts) + "</svg>"


def gantt(rows: Sequence[tuple[str, int]], boxes: Sequence[Box], begin: float, end: float, label: str) -> str:
    """Return a Gantt chart.

    `rows`: (name of a group, number of its rows), from the top. `Box.row` counts the rows of all groups."""
    count = sum(each for _, each in rows)
    height = 12 if count <= 40 else 8 if count <= 100 else 4 if count <= 400 else 2
    total = count * height + TOP + BOTTOM
    scale = (WIDTH - LEFT - RIGHT) / ((end - begin) or 1)
    parts = [_open(total, label)]
    at = 0
    shown_at = -math.inf
    for name, each in rows:
        y = TOP + at * height
        parts.append(f'<path class="grid" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>')
        if y - shown_at >= 11:  # names that would overlap are left out
            short = name if len(name) <= 9 else f"{name[:4]}…{name[-4:]}"
            text = f"{escape(short)}<title>{escape(name)}</title>"
            parts.append(f'<text x="{LEFT - 6}" y="{y + 9}" text-anchor="end">{text}</text>')
            shown_at = y
        at += each
    parts.append(f'<path class="grid" d="M{LEFT} {TOP + count * height}H{WIDTH - RIGHT}"/>')
    few = len(boxes) <= MAX_BOXES
    for box in boxes:
        width = (box.end - box.begin) * scale
        if few or width >= 0.2:
            x, top = LEFT + (box.begin - begin) * scale, TOP + box.row * height
            inset = 0.5 if height > 4 else 0
            size = f'width="{max(width, 0.3):.1f}" height="{box.rows * height - 2 * inset:.1f}"'
            place = f'class="f{box.colour % COLOURS}" x="{x:.1f}" y="{top + inset:.1f}"'
            parts.append(f"<rect {place} {size}><title>{escape(box.title)}</title></rect>")
    ticks = [(LEFT + (t - begin) * scale, t) for t in _time_ticks(begin, end)]
    return "".join(parts + _x_axis(ticks, total)) + "</svg>"


def _open(height: float, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(label)}">'


def _x_axis(ticks: Sequence[tuple[float, float]], height: float) -> list[str]:
    y = height - BOTTOM
    parts = [f'<path class="axis" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>']
    for x, value in ticks:
        parts.append(f'<path class="axis" d="M{x:.1f} {y}v4"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + 18}" text-anchor="middle">{duration(value)}</text>')
    return parts


def _ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers from `low` to at least `high`."""
    step = 10 ** math.floor(math.log10((high - low) / about or 1))
    step = next(step * k for k in (1, 2, 5, 10) if step * k * about >= high - low)
    return [low + step * i for i in range(math.ceil((high - low) / step - 1e-9) + 1)]


def _time_ticks(low: float, high: float) -> list[float]:
    """Round times within [low, high]."""
    steps = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
    step = next((s for s in steps if (high - low) / s <= 10), 86400 * math.ceil((high - low) / 864000))
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Return common times between 10**`low` and 10**`high`, without those too close together."""
    days = [86400 * d for d in (1, 3, 10, 30, 100)]
    known = (0.1, 1, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 36000, *days)
    inside = [t for t in known if low <= math.log10(t) <= high]
    apart: list[float] = []
    for tick in inside:
        if not apart or (math.log10(tick) - math.log10(apart[-1])) / ((high - low) or 1) > 0.06:
            apart.append(tick)
    return apart
