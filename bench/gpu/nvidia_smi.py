"""What NVIDIA's own command says of a GPU, and how far our readings are from it."""

from __future__ import annotations

import csv
import io
import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from schedulearn.metrics.probe.readings import GpuReading

TOLERANCE = 0.02
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_FIELDS = ("uuid", "name", "driver_version", "utilization.gpu", "memory.used", "memory.total", "power.draw")
_FIELDS += ("temperature.gpu", "clocks.current.sm", "clocks.current.memory")
_MIN = {"utilization": 2.0, "temperature": 1.0, "power": 1.0, "SM clock": 15.0, "memory clock": 15.0, "memory": 4e6}
"""So much may lie between two looks, or is rounded away: per cent, degrees, W, MHz, bytes."""


class Difference(NamedTuple):
    what: str
    ours: float
    theirs: float
    within: bool

    @property
    def relative(self) -> float:
        return abs(self.ours - self.theirs) / max(abs(self.theirs), 1e-9)


def ask() -> list[dict[str, str]]:
    """A row a GPU. Raises OSError, or CalledProcessError, where there is no driver."""
    command = ["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,nounits"]
    return parse(subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout)


def processes() -> list[str]:
    """Numbers of all that compute on a GPU."""
    command = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.split()


def parse(output: str) -> list[dict[str, str]]:
    """Its CSV with a heading, whose columns carry units: "power.draw [W]"."""
    rows = csv.reader(io.StringIO(output), skipinitialspace=True)
    heading = [name.partition(" [")[0].strip() for name in next(rows, [])]
    return [dict(zip(heading, (cell.strip() for cell in row), strict=True)) for row in rows if row]


def topology() -> dict[str, dict[str, str]]:
    """The table of `nvidia-smi topo -m`: row -> column -> cell."""
    done = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, check=True, timeout=60)
    return parse_topology(done.stdout)


def parse_topology(output: str) -> dict[str, dict[str, str]]:
    """Its columns are parted by tabs, of which some are doubled, and its heading is underlined for a terminal."""
    lines = [re.split(r"\t+", _STYLE.sub("", line).rstrip()) for line in output.splitlines()]
    heading = next((cells for cells in lines if "CPU Affinity" in cells), [])
    rows = (cells for cells in lines if cells[0] and cells[0] in heading)
    return {cells[0]: dict(zip(heading[1:], map(str.strip, cells[1:]), strict=False)) for cells in rows}


def differences(smi: Mapping[str, str], ours: GpuReading) -> Iterator[Difference]:
    """Of what both tell. A reading that nvidia-smi has and we lack is infinitely far off."""
    pairs = (
        ("utilization", "utilization.gpu", ours.utilization, 1.0),
        ("memory", "memory.used", ours.memory_bytes, float(1 << 20)),
        ("power", "power.draw", ours.power_w, 1.0),
        ("temperature", "temperature.gpu", ours.temperature, 1.0),
        ("SM clock", "clocks.current.sm", ours.sm_mhz, 1.0),
        ("memory clock", "clocks.current.memory", ours.memory_mhz, 1.0),
    )
    for what, column, mine, unit in pairs:
        theirs = _number(smi.get(column, ""))
        if theirs is None:
            continue
        theirs *= unit
        value = float("inf") if mine is None else mine
        yield Difference(what, value, theirs, abs(value - theirs) <= max(TOLERANCE * abs(theirs), _MIN[what]))


def _number(text: str) -> float | None:
    """None for "[N/A]" and "[Not Supported]"."""
    try:
        return float(text)
    except ValueError:
        return None
