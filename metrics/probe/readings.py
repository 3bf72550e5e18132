"""Readings of a machine's GPUs, as lines of JSON of a probe.

docs/hosts.md has the schema.
Standard library only, and Python 3.8: the probe's container runs this file too.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Mapping, NamedTuple, Union

from schedulearn.metrics.probe.machine import MachineCounters

Json = Any
"""Result of `json` for a line of any origin: each value is checked where it is used."""

PROTOCOL = 1
MAX_GPUS = 128  # of one machine, MIG devices counted one by one
MAX_NODES = 64
MAX_PROCESSES = 16  # of one GPU that a line names
MAX_XIDS = 256  # codes of one GPU
MAX_LINE = 1 << 20  # bytes; no probe writes longer ones
MAX_NUMBER = 1e38  # fits four bytes


@dataclass(frozen=True)
class GpuInfo:
    """A GPU, or one MIG device, as the driver names it. `uuid` is what NVIDIA_VISIBLE_DEVICES takes."""

    uuid: str
    index: int
    """Its place among those of the machine. It may change with a reboot; the UUID does not."""
    type: str
    memory_bytes: int
    parent: str = ""
    """UUID of the GPU that a MIG device is a part of; empty for whole GPUs."""
    island: int | None = None
    """GPUs with the same number reach each other by NVLink; None: no NVLink, or unknown."""
    numa: int | None = None
    """The NUMA node that it is attached to; None: there is only one, or the firmware does not tell."""
    pci: str = ""
    """Bus id, as in 00000000:3B:00.0."""
    pcie: str = ""
    """Generation and width of its PCIe link, as in 4x16."""
    compute: str = ""
    """CUDA compute capability, as in 9.0."""
    minor: int | None = None
    """Number of its device file, /dev/nvidia<minor>; None: not known."""


@dataclass(frozen=True)
class GpuLink:
    """Link between two GPUs, given by their `index`.

    `kind`: nvlink, or the nearest thing that they share (internal, single, multiple, hostbridge, node, system), by
    NVML's names.
    """

    a: int
    b: int
    kind: str


class NumaNode(NamedTuple):
    """A NUMA node with processors."""

    id: int
    cpus: str
    """As Linux lists them: 0-31,64-95."""
    memory_bytes: int = 0
    """Zero: it has none of its own."""


class GpuProcess(NamedTuple):
    """A process that computes on a GPU. Unknown fields are empty."""

    pid: int
    name: str = ""
    memory_bytes: int | None = None
    container: str = ""
    """Id of its container, 64 hexadecimal digits."""
    task: str = ""
    """Its variable SCHEDULEARN_TASK."""
    uid: int | None = None


class Xid(NamedTuple):
    """An Xid error of a GPU: how often the probe saw it since it began, and when last, by the clock of the machine."""

    code: int
    times: int
    at: float


class GpuHealth(NamedTuple):
    """State of a GPU by its driver. Default of a field: all is well, or the driver does not report it."""

    recovery: str = ""
    """Action that the driver requests: none, or a reset and the like."""
    remap_pending: bool = False
    """A row of its memory is replaced by the next reset."""
    remap_failed: bool = False
    retired_pending: bool = False
    """A page of its memory is retired by the next reset."""
    nvlinks: int | None = None
    """Number of active NVLinks."""
    pcie_generation: int | None = None
    """Generation now: lower while the GPU is idle."""
    pcie_width: int | None = None
    max_pcie_generation: int | None = None
    """Maximum with this machine, as is the width."""
    max_pcie_width: int | None = None
    compute_mode: str = ""
    """default, exclusive, prohibited."""
    fabric: str = ""
    """State of joining NVSwitches: not started, in progress, completed, or an error."""
    fabric_degraded: bool = False
    default_limit_w: float | None = None
    """Power limit by default, before any change."""


class GpuReading(NamedTuple):
    """One GPU at one time. None: it, or its driver, does not report the value."""

    uuid: str
    utilization: float | None = None
    """Share of the last sample period in which a kernel ran, in per cent."""
    memory_bytes: float | None = None
    """Used."""
    temperature: float | None = None
    """Degrees Celsius."""
    power_w: float | None = None
    energy_j: float | None = None
    """A counter, since the driver was loaded."""
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    ecc_errors: int | None = None
    """Uncorrected ones since the driver was loaded."""
    xids: tuple[Xid, ...] = ()
    """Xid errors that the probe saw, each code once; that of the last one at the end."""
    throttle: tuple[str, ...] = ()
    """Why its clocks are lower than they could be."""
    processes: tuple[GpuProcess, ...] | None = None
    lost: bool = False
    """The driver says that it has fallen off the bus."""
    power_limit_w: float | None = None
    """Maximum power that it draws."""
    slowdown_temperature: float | None = None
    """Degrees Celsius from which on it lowers its clocks."""
    health: GpuHealth | None = None
    """Not in each sample."""
    stuck: bool = False
    """NVML hangs in a query about it."""

    @property
    def xid(self) -> int | None:
        """The code of the last Xid error."""
        return self.xids[-1].code if self.xids else None


@dataclass(frozen=True)
class Inventory:
    """GPUs of a machine. Reported first, when it changes, and once a minute."""

    version: str = ""
    """Version of the probe."""
    driver: str = ""
    gpus: tuple[GpuInfo, ...] = ()
    links: tuple[GpuLink, ...] = ()
    problem: str = ""
    """Why `gpus` may lack some; empty: these are all."""
    nodes: tuple[NumaNode, ...] = ()
    """NUMA nodes of the machine; none where there is only one."""


@dataclass(frozen=True)
class Sample:
    """All GPUs at one time."""

    at: float
    """Seconds since the epoch, by the clock of the machine."""
    gpus: tuple[GpuReading, ...] = ()
    machine: MachineCounters | None = None
    """The machine itself; not in each sample."""


Reading = Union[Inventory, Sample]


def to_line(reading: Reading) -> str:
    """Return one line of JSON, without fields that are at their default."""
    if isinstance(reading, Inventory):
        content = {"schedulearn_probe": PROTOCOL, **_short(asdict(reading))}
        if reading.nodes:
            content["nodes"] = [node._asdict() for node in reading.nodes]
    else:
        content = {"at": round(reading.at, 3), "gpus": [_short(gpu._asdict()) for gpu in reading.gpus]}
        if reading.machine is not None:
            told = reading.machine._asdict().items()
            content["machine"] = {key: _rounded(value) for key, value in told if value is not None}
    return json.dumps(content, separators=(",", ":"))


def from_line(line: str | bytes) -> Reading:
    """Parse a line. Raises ValueError for a line that no probe of this protocol has written.

    The parser is written by hand, so that the whole protocol is in this file and needs the standard library only. A
    service with 800 GPUs checks 10,000 values a second here. It therefore uses tuples, which are made three times as
    fast as frozen dataclasses, and the short cut in `_maybe_number`. pydantic takes 0.85 times as long for the same
    tuples.
    """
    if len(line) > MAX_LINE:
        raise ValueError("the line is too long")
    found = _DECODER.decode(line.decode() if isinstance(line, bytes) else line)
    if not isinstance(found, dict):
        raise ValueError("the line is not an object")
    gpus = found.get("gpus", [])
    if not isinstance(gpus, list) or len(gpus) > MAX_GPUS:
        raise ValueError("gpus is not a list, or too long")
    if "schedulearn_probe" not in found:
        machine = found.get("machine")
        return Sample(
            _number(found.get("at")),
            tuple(_gpu_reading(gpu) for gpu in gpus),
            None if machine is None else _machine(machine),
        )
    if found["schedulearn_probe"] != PROTOCOL:
        raise ValueError(f"unknown probe protocol {found['schedulearn_probe']!r}")
    return Inventory(
        _text(found.get("version", "")),
        _text(found.get("driver", "")),
        tuple(_gpu_info(gpu) for gpu in gpus),
        tuple(_link(link) for link in found.get("links", ())),
        _text(found.get("problem", "")),
        tuple(_node(node) for node in found.get("nodes", ())[:MAX_NODES]),
    )


def _short(fields: Mapping[str, Json]) -> Json:
    """Remove fields that are at their default."""
    default: tuple[Json, ...] = (None, "", (), [])
    short = {key: _rounded(value) for key, value in fields.items() if value not in default and value is not False}
    if fields.get("health") is not None:
        short["health"] = _short(fields["health"]._asdict())
    if fields.get("processes") is not None:  # none is not the same as unknown
        short["processes"] = [_short(process._asdict()) for process in fields["processes"]]
    for name in ("gpus", "links"):
        if name in short:
            short[name] = [_short(each) for each in short[name]]
    for name in ("index", "a", "b"):
        if name in fields:
            short[name] = fields[name]
    return short


def _rounded(value: Json) -> Json:
    return round(value, 3) if isinstance(value, float) else value


def _gpu_info(fields: Json) -> GpuInfo:
    return GpuInfo(
        _uuid(fields),
        _whole(fields.get("index")),
        _text(fields.get("type", "")),
        _whole(fields.get("memory_bytes", 0)),
        _text(fields.get("parent", "")),
        _maybe_whole(fields.get("island")),
        _maybe_whole(fields.get("numa")),
        _text(fields.get("pci", "")),
        _text(fields.get("pcie", "")),
        _text(fields.get("compute", "")),
        _maybe_whole(fields.get("minor")),
    )


def _gpu_reading(fields: Json) -> GpuReading:
    uuid, get = _uuid(fields), fields.get
    processes = get("processes")
    return GpuReading(
        uuid,
        _maybe_number(get("utilization")),
        _maybe_number(get("memory_bytes")),
        _maybe_number(get("temperature")),
        _maybe_number(get("power_w")),
        _maybe_number(get("energy_j")),
        _maybe_number(get("sm_mhz")),
        _maybe_number(get("memory_mhz")),
        _maybe_whole(get("ecc_errors")),
        tuple(_xid(xid) for xid in get("xids", ())[:MAX_XIDS]),
        tuple(_text(word) for word in get("throttle", ())),
        None if processes is None else tuple(_process(process) for process in processes[:MAX_PROCESSES]),
        get("lost") is True,
        _maybe_number(get("power_limit_w")),
        _maybe_number(get("slowdown_temperature")),
        None if get("health") is None else _health(get("health")),
        get("stuck") is True,
    )


def _xid(fields: Json) -> Xid:
    code, times, at = fields
    return Xid(_whole(code), _whole(times), _number(at))


def _health(fields: Json) -> GpuHealth:
    if not isinstance(fields, dict):
        raise ValueError("the health of a GPU is not an object")
    get = fields.get
    return GpuHealth(
        _text(get("recovery", "")),
        get("remap_pending") is True,
        get("remap_failed") is True,
        get("retired_pending") is True,
        _maybe_whole(get("nvlinks")),
        _maybe_whole(get("pcie_generation")),
        _maybe_whole(get("pcie_width")),
        _maybe_whole(get("max_pcie_generation")),
        _maybe_whole(get("max_pcie_width")),
        _text(get("compute_mode", "")),
        _text(get("fabric", "")),
        get("fabric_degraded") is True,
        _maybe_number(get("default_limit_w")),
    )


def _machine(fields: Json) -> MachineCounters:
    if not isinstance(fields, dict):
        raise ValueError("the machine is not an object")
    return MachineCounters(
        _whole(fields.get("cpus")),
        _number(fields.get("cpu_seconds")),
        *(_whole(fields.get(name)) for name in ("memory_bytes", "memory_total", "disk_bytes", "disk_total")),
        *(_maybe_whole(fields.get(name)) for name in ("network_in", "network_out", "disk_read", "disk_written")),
    )


def _process(fields: Json) -> GpuProcess:
    return GpuProcess(
        _whole(fields.get("pid")),
        _text(fields.get("name", "")),
        _maybe_whole(fields.get("memory_bytes")),
        _text(fields.get("container", "")),
        _text(fields.get("task", "")),
        _maybe_whole(fields.get("uid")),
    )


def _link(fields: Json) -> GpuLink:
    return GpuLink(_whole(fields.get("a")), _whole(fields.get("b")), _text(fields.get("kind", "")))


def _node(fields: Json) -> NumaNode:
    return NumaNode(_whole(fields.get("id")), _text(fields.get("cpus", "")), _whole(fields.get("memory_bytes", 0)))


def _uuid(fields: Json) -> str:
    if not isinstance(fields, dict):
        raise ValueError("a GPU is not an object")
    uuid = _text(fields.get("uuid", ""))
    if not uuid.startswith(("GPU-", "MIG-")):
        raise ValueError(f"{uuid!r} is not the UUID of a GPU")
    return uuid


def _text(value: Json) -> str:
    if not isinstance(value, str) or len(value) > 500:
        raise ValueError(f"{str(value)[:50]!r} is not text, or too long")
    return value


def _number(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -MAX_NUMBER < value < MAX_NUMBER:
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _maybe_number(value: Json) -> float | None:
    if value.__class__ is float and -MAX_NUMBER < value < MAX_NUMBER:
        return value  # nearly always: the quick way
    return None if value is None else _number(value)


def _whole(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 62) < value < 1 << 62:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _maybe_whole(value: Json) -> int | None:
    return None if value is None else _whole(value)


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not a number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)  # `json.loads` would make one for each line
