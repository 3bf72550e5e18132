"""HTML report of a comparison, one file without external references.

Every name is escaped.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from schedulearn.features.simulate.charts import COLOURS, Box, Series, duration, gantt, line_chart, style_of
from schedulearn.scheduler.core.model import HostView, gpu_count
from schedulearn.scheduler.sim.comparison import Comparison, Played, table
from schedulearn.scheduler.sim.run import Held, Run

Floats = npt.NDArray[np.float64]
BINS = 240

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1d2430;--dim:#667085;--grid:#e4e7ec;--best:#067647;
--c0:#2563eb;--c1:#d9480f;--c2:#2b8a3e;--c3:#9c36b5;--c4:#0b7285;--c5:#c2255c;--c6:#8a6100;--c7:#495057}
@media(prefers-color-scheme:dark){:root{--bg:#14181f;--fg:#e6e9ef;--dim:#98a2b3;--grid:#2b323d;--best:#4ade80;
--c0:#6ea8fe;--c1:#ff922b;--c2:#69db7c;--c3:#da77f2;--c4:#3bc9db;--c5:#f783ac;--c6:#e9c46a;--c7:#adb5bd}}
body{margin:0 auto;padding:24px;max-width:1120px;font:15px/1.5 system-ui,sans-serif;
background:var(--bg);color:var(--fg)}
h1{font-size:22px;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:17px;margin:32px 0 4px}
p{margin:4px 0;color:var(--dim)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:5px 0 5px 14px;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}
th{color:var(--dim);font-weight:500;font-size:13px}th:first-child,td:first-child{text-align:left;padding-left:0}
td.best{color:var(--best);font-weight:700}
svg{width:100%;height:auto;display:block}svg text{fill:var(--dim);font-size:11px}
.grid{stroke:var(--grid);fill:none}.axis{stroke:var(--dim);fill:none}.line{fill:none;stroke:currentColor}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}
.c4{color:var(--c4)}.c5{color:var(--c5)}.c6{color:var(--c6)}.c7{color:var(--c7)}
.d1{stroke-dasharray:7 3}.d2{stroke-dasharray:2 3}.d3{stroke-dasharray:9 3 2 3}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}
.f4{fill:var(--c4)}.f5{fill:var(--c5)}.f6{fill:var(--c6)}.f7{fill:var(--c7)}
rect:hover{opacity:.6}.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px}
.legend path{stroke-width:2}.legend svg{display:inline;width:26px;height:10px;margin-right:6px}
summary{cursor:pointer;padding:6px 0;font-weight:600}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:0}
dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
"""


def report(comparison: Comparison, played: Sequence[Played]) -> str:
    """The whole page."""
    total = sum(host.gpus for host in comparison.hosts)
    end = max((held.end for each in played for held in each.run.held), default=1.0)
    edges = np.linspace(min(job.submitted_at for job in comparison.jobs), end, BINS + 1)
    legend = _legend([each.contender.label for each in played])
    parts = [
        f"<h1>{escape(comparison.source)}</h1>",
        f"<p>{len(comparison.jobs)} jobs on {len(comparison.hosts)} hosts with {total} GPUs, simulated</p>",
        "<h2>Figures</h2><p>Seconds. JCT: from submission to end. FTF: finish-time fairness, a job's time over what it "
        "would have taken alone on its share of the cluster. Lower is better everywhere; the best are green.</p>",
        _table(played),
        "<h2>Completion times</h2><p>Share of jobs that were done within a time since their submission.</p>",
        legend,
        line_chart([_done_within(each) for each in played], "Completion times", "jobs", log_x=True, percent=True),
        "<h2>Utilisation</h2><p>Share of the GPUs that jobs hold.</p>",
        legend,
        line_chart([_busy(each, edges, total) for each in played], "Utilisation", "GPUs", percent=True),
        "<h2>Jobs that wait</h2><p>Submitted, not ended, and without GPUs.</p>",
        legend,
        line_chart([_waiting(each, edges) for each in played], "Jobs that wait", "jobs"),
        "<h2>Who had which GPUs</h2><p>A row is a GPU, a colour a job. Point at one to see who it is.</p>",
        *(
            f"<details{' open' if index == 0 else ''}><summary>{escape(each.contender.label)}</summary>"
            f"{_gantt(each.run, float(edges[0]), end)}</details>"
            for index, each in enumerate(played)
        ),
        "<h2>Conditions</h2>",
        _conditions(comparison),
    ]
    title = escape(f"Simulation of {comparison.source}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _table(played: Sequence[Played]) -> str:
    headings, rows = table(played)
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td{' class=best' if best else ''}>{escape(text)}</td>" for text, best in row) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _legend(names: Sequence[str]) -> str:
    return '<div class="legend">' + "".join(
        f'<span><svg viewBox="0 0 26 10"><path class="line {style_of(index)}" d="M0 5H26"/></svg>{escape(name)}</span>'
        for index, name in enumerate(names)
    ) + "</div>"  # fmt: skip


def _done_within(played: Played) -> Series:
    """Return the distribution of completion times, as steps. It ends below 1 if jobs never ended."""
    outcomes = played.run.outcomes
    times = sorted(max(o.ended_at - o.job.submitted_at, 0.1) for o in outcomes if math.isfinite(o.ended_at)) or [1.0]
    x = np.repeat(times, 2)
    share = np.arange(len(times) + 1) / len(outcomes)
    return Series(played.contender.label, x.tolist(), np.repeat(share, 2)[1:-1].tolist())


def mean_level(periods: Sequence[tuple[float, float, float]], edges: Floats) -> Floats:
    """Return the mean total weight of active periods between each two edges, shape (len(edges) - 1,).

    `periods`: (begin, end, weight)."""
    begins, ends, weights = np.array(periods, dtype=float).reshape(-1, 3).T
    times = np.concatenate([begins, ends])
    changes = np.concatenate([weights, -weights])
    order = np.argsort(times, kind="stable")
    times, level = times[order], np.cumsum(changes[order])
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))]) if len(times) else np.zeros(0)
    up_to = np.interp(edges, times, area) if len(times) else np.zeros(len(edges))
    return np.asarray(np.maximum(0.0, np.diff(up_to) / np.maximum(np.diff(edges), 1e-9)))


def _steps(name: str, edges: Floats, values: Floats) -> Series:
    return Series(name, np.repeat(edges, 2)[1:-1].tolist(), np.repeat(values, 2).tolist())


def _busy(played: Played, edges: Floats, total: int) -> Series:
    held = [(h.begin, h.end, float(sum(h.allocation.values()))) for h in played.run.held]
    return _steps(played.contender.label, edges, np.minimum(1.0, mean_level(held, edges) / max(1, total)))


def _waiting(played: Played, edges: Floats) -> Series:
    last = float(edges[-1])
    there = [(o.job.submitted_at, min(o.ended_at, last), 1.0) for o in played.run.outcomes]
    served = [(h.begin, h.end, -1.0) for h in played.run.held]
    return _steps(played.contender.label, edges, mean_level(there + served, edges))


def _gantt(run: Run, begin: float, end: float) -> str:
    by_host: dict[str, list[Held]] = {host.id: [] for host in run.hosts}
    for held in sorted(run.held, key=lambda held: (held.begin, held.job)):
        for host_id in held.allocation:
            by_host[host_id].append(held)
    boxes: list[Box] = []
    rows: list[tuple[str, int]] = []
    for host in run.hosts:
        boxes += _host_boxes(host, by_host[host.id], sum(count for _, count in rows))
        rows.append((host.id, host.gpus))
    return gantt(rows, boxes, begin, end, "Who had which GPUs")


def _host_boxes(host: HostView, held: Sequence[Held], first_row: int) -> list[Box]:
    """Return the boxes of jobs on a host.

    The simulator does not assign GPUs within a host. A job is drawn on free GPUs, if possible on those that it had
    before. GPUs that jobs share are drawn as parts of a row."""
    layers = _most_at_once(host.id, held) / max(1, host.gpus)
    parts = max(1, math.ceil(layers - 1e-9))
    free_at = [-math.inf] * (host.gpus * parts)
    last: dict[str, list[int]] = {}
    boxes = []
    for each in held:
        free = [lane for lane, at in enumerate(free_at) if at <= each.begin + 1e-6]
        before = set(last.get(each.job, ()))
        lanes = sorted(sorted(free, key=lambda lane: (lane not in before, lane))[: each.allocation[host.id]])
        last[each.job] = lanes
        title = f"{each.job}: {_gpus(each.allocation)}, {duration(each.end - each.begin)} from {duration(each.begin)}"
        for lane in lanes:
            free_at[lane] = each.end
        for start, length in _runs(lanes):
            row = first_row + start / parts
            boxes.append(Box(row, length / parts, each.begin, each.end, _colour(each.job), title))
    return boxes


def _most_at_once(host: str, held: Sequence[Held]) -> int:
    changes = sorted((at, n) for h in held for at, n in ((h.begin, h.allocation[host]), (h.end, -h.allocation[host])))
    return int(max(np.cumsum([n for _, n in changes]), default=0))


def _runs(lanes: Sequence[int]) -> list[tuple[int, int]]:
    """Return (first, length) of each run of consecutive numbers."""
    found: list[tuple[int, int]] = []
    for lane in lanes:
        if found and found[-1][0] + found[-1][1] == lane:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((lane, 1))
    return found


def _gpus(allocation: Mapping[str, int]) -> str:
    total = sum(allocation.values())
    where = ", ".join(sorted(allocation)) if len(allocation) <= 3 else f"{len(allocation)} hosts"
    return f"{gpu_count(total)} on {where}"


def _colour(job: str) -> int:
    return zlib.crc32(job.encode()) % COLOURS  # the same under every policy


def _conditions(comparison: Comparison) -> str:
    conditions = comparison.conditions
    speeds = ", ".join(f"{name} x {speed:g}" for name, speed in conditions.speeds.items())
    on_events = ", and at arrivals, ends and new profiles" if conditions.on_events else ""
    rows = {
        "Decisions": f"every {duration(conditions.interval)}{on_events}",
        "Cold start": duration(conditions.cold_start),
        "Stalls": f"{duration(conditions.stall_up)} to grow, move or come back, "
        f"{duration(conditions.stall_down)} to shrink",
        "Profiles": f"after {duration(conditions.learn_after)}, "
        + ("shared by jobs of one application" if conditions.family_memory else "each job its own"),
        "Lengths": conditions.lengths
        + (f", wrong by up to {conditions.length_error:g} x" if conditions.length_error > 1 else ""),
        "GPU speeds": speeds or "all alike",
        "Seed": str(conditions.seed),
    }
    return "<dl>" + "".join(f"<dt>{key}</dt><dd>{escape(value)}</dd>" for key, value in rows.items()) + "</dl>"
