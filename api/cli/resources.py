"""Tables of processors, memory, network and disk of hosts and containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedulearn.api.cli.common import Cell
from schedulearn.api.client.client import Json
from schedulearn.scheduler.code.archive import show_bytes

RESOURCE_HEADERS = ("CPU", "MEMORY", "DISK")
RATE_HEADERS = ("NETWORK IN", "OUT", "DISK READ", "WRITTEN")
TASK_HEADERS = ("JOB", "NAME", "RANK", "HOST", "CPU", "MEMORY", *RATE_HEADERS)
_FULL = 0.9
"""Share from which on use is shown as a warning."""
_TITLES = {"cpus": "CPU", "memory_bytes": "MEMORY", "disk_bytes": "DISK"}


def of_host(taken: Json | None) -> list[Cell]:
    """Return the cells of a host for `RESOURCE_HEADERS`."""
    if taken is None:
        return ["-"] * len(RESOURCE_HEADERS)
    cpus = "-" if taken["cpus"] is None else f"{taken['cpus']:.1f} of {taken['cpus_total']}"
    return [
        cpus,
        _share(taken["memory_bytes"], taken["memory_total"]),
        _share(taken["disk_bytes"], taken["disk_total"]),
    ]


def rates_of(taken: Json) -> list[Cell]:
    """Return the cells of a host or a task for `RATE_HEADERS`."""
    return [_rate(taken[key]) for key in ("network_in", "network_out", "disk_read", "disk_written")]


def of_task(taken: Json, names: Mapping[str, str]) -> list[Cell]:
    """Return the cells of a task for `TASK_HEADERS`. `names`: job ID -> name."""
    limit = taken["memory_limit"]
    memory: Cell = show_bytes(taken["memory_bytes"])
    if limit:
        memory = _colored(f"{show_bytes(taken['memory_bytes'])} of {show_bytes(limit)}", taken["memory_bytes"] / limit)
    return [
        taken["job"],
        names.get(taken["job"], ""),
        str(taken["rank"]),
        taken["host"],
        "-" if taken["cpus"] is None else f"{taken['cpus']:.1f}",
        memory,
        *rates_of(taken),
    ]


def series_headers(taken: Json) -> list[str]:
    return ["WHAT", "POINTS", *(_TITLES.get(name, name.replace("_", " ").upper()) for name in taken["metrics"])]


def series_rows(taken: Json) -> list[list[Cell]]:
    """Return the mean and the maximum of each series."""
    return [
        [
            series["name"],
            str(len(series["points"])),
            *(_mean_and_most(name, series["points"], place) for place, name in enumerate(taken["metrics"], 1)),
        ]
        for series in taken["series"]
    ]


def _mean_and_most(metric: str, points: Sequence[Sequence[float | None]], place: int) -> str:
    values = [value for point in points if (value := point[place]) is not None]
    if not values:
        return "-"
    mean, most = sum(values) / len(values), max(values)
    if metric == "cpus":
        return f"{mean:.1f} {most:.1f}"
    each = f"{show_bytes(int(mean))} {show_bytes(int(most))}"
    return each if metric.endswith("_bytes") else f"{each}/s"


def _share(used: int, total: int) -> Cell:
    gib = 1 << 30
    return _colored(f"{used / gib:.0f} of {total / gib:.0f} GiB", used / max(1, total))


def _colored(text: str, share: float) -> Cell:
    return (text, "yellow") if share >= _FULL else text


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{show_bytes(int(value))}/s"
