"""Consequences of Xid errors of NVIDIA's driver, by NVIDIA's catalogue. Pure.

The catalogue names an immediate action. Restarting the application, or ignoring the error, is `PROGRAM` here. Resetting
the GPU is `RESET`. Broken memory, links or bus are `LEAVE`. Its workflow for 13 and 31 is `WATCH`. The same error on
one GPU with different programs points to the GPU, and on different GPUs to the program.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from schedulearn.metrics.probe.readings import Xid


class XidVerdict(IntEnum):
    """Severity of an Xid error; higher is worse."""

    PROGRAM = 0
    """Error of the program, or a harmless one: no consequence for the GPU."""
    WATCH = 1
    """Error of the program, unless it recurs with other programs on the same GPU."""
    RESET = 2
    """No more jobs start on the GPU, which needs a reset. Running ones continue."""
    LEAVE = 3
    """The GPU's jobs leave at once."""


class XidMeaning(NamedTuple):
    verdict: XidVerdict
    what: str


_ENGINE = "an engine of the GPU has stopped a program"
_NVLINK = "an NVLink is broken"
_NAMED = {
    8: (XidVerdict.PROGRAM, "a program has timed out"),
    13: (XidVerdict.WATCH, "a program has accessed memory out of bounds, or failed otherwise"),
    31: (XidVerdict.WATCH, "a program has accessed memory that it does not have"),
    32: (XidVerdict.PROGRAM, "a program has sent invalid commands"),
    43: (XidVerdict.PROGRAM, "a program has failed, and was stopped"),
    45: (XidVerdict.PROGRAM, "a program was stopped, for the error before"),
    46: (XidVerdict.RESET, "it has stopped processing"),
    48: (XidVerdict.LEAVE, "its memory has an error of two bits"),
    54: (XidVerdict.RESET, "a power cable is not connected"),
    61: (XidVerdict.RESET, "its microcontroller has stopped"),
    62: (XidVerdict.RESET, "its microcontroller has stopped"),
    63: (XidVerdict.RESET, "a row of its memory is to be replaced by the next reset"),
    64: (XidVerdict.LEAVE, "a broken row of its memory could not be replaced"),
    74: (XidVerdict.LEAVE, _NVLINK),
    78: (XidVerdict.RESET, "its vGPU could not be started"),
    79: (XidVerdict.LEAVE, "it has fallen off the bus"),
    92: (XidVerdict.PROGRAM, "many errors of one bit were corrected"),
    94: (XidVerdict.PROGRAM, "an error of its memory was contained, and has hit one program"),
    95: (XidVerdict.LEAVE, "an error of its memory was not contained"),
    109: (XidVerdict.RESET, "it does not switch between programs any more"),
    110: (XidVerdict.RESET, "its security processor has failed"),
    119: (XidVerdict.RESET, "its firmware (GSP) does not answer"),
    120: (XidVerdict.RESET, "its firmware (GSP) has failed"),
    136: (XidVerdict.RESET, "an NVLink could not be trained"),
    140: (XidVerdict.LEAVE, "its memory has an error that can't be corrected"),
    142: (XidVerdict.RESET, "its encoder has failed"),
    143: (XidVerdict.LEAVE, "it could not be initialised"),
    151: (XidVerdict.RESET, "its keys could not be renewed"),
    154: (XidVerdict.PROGRAM, "its driver asks for something else than before"),
    155: (XidVerdict.RESET, _NVLINK),
    156: (XidVerdict.RESET, "a part of it is to be retired by the next reset"),
    157: (XidVerdict.RESET, "a broken part of it could not be retired"),
    158: (XidVerdict.RESET, "it does not answer"),
    159: (XidVerdict.RESET, "its link to the processor has failed"),
    167: (XidVerdict.LEAVE, "its PCIe link does not answer"),
    168: (XidVerdict.RESET, "a part of its memory is gone"),
    169: (XidVerdict.RESET, "its security processor has stopped"),
    171: (XidVerdict.LEAVE, "its memory has an error that can't be corrected"),
    172: (XidVerdict.LEAVE, "its caches have an error that can't be corrected"),
}
_OTHERS = (
    (XidVerdict.PROGRAM, _ENGINE, (
        11, 25, *range(37, 42), 44, 60, 65, *range(66, 72), 73, 75, 76, 77, 80, *range(82, 87), 88, 89,
        *range(96, 106), *range(126, 136), 139, 141, 152, 153,
    )),
    (XidVerdict.PROGRAM, "it is of no consequence", (
        93, 106, 107, 108, 121, 137, 147, 148, 160, 161, *range(162, 166),
    )),
    (XidVerdict.RESET, _NVLINK, (144, 145, 146, 149, 150, 166, 170)),
)  # fmt: skip
XIDS: Mapping[int, XidMeaning] = {code: XidMeaning(*row) for code, row in _NAMED.items()} | {
    code: XidMeaning(verdict, what) for verdict, what, codes in _OTHERS for code in codes
}
_NEEDS = {54: "a check of its cables", 79: "a restart of its host", 157: "a repair", 167: "a restart of its host"}
_UNKNOWN = XidMeaning(XidVerdict.RESET, "NVIDIA's catalogue does not have it, so the GPU may be broken")

REPEATED = "Xid 13 or 31"
"""Beginning of the fault of a GPU with repeated Xids."""
WATCHED_S = 86_400.0
"""Seconds for which an Xid of the verdict WATCH is remembered."""
WATCHED_JOBS = 3
"""Number of jobs with such an Xid on one GPU that take it out of service."""


def meaning_of(code: int) -> XidMeaning:
    return XIDS.get(code, _UNKNOWN)


def worst(events: Sequence[Xid]) -> XidVerdict:
    return max((meaning_of(event.code).verdict for event in events), default=XidVerdict.PROGRAM)


def fault_by(events: Sequence[Xid]) -> str:
    """Return why a GPU with these events can't be used, or an empty string.

    The worst event comes first, then others that are not caused by programs.
    """
    found = [event for event in events if meaning_of(event.code).verdict >= XidVerdict.RESET]
    if not found:
        return ""
    first, *rest = sorted(found, key=lambda event: (-meaning_of(event.code).verdict, event.at))
    more = f", and Xid {', '.join(str(event.code) for event in rest)}" if rest else ""
    return f"Xid {first.code}: {meaning_of(first.code).what}{more}; it needs {_NEEDS.get(first.code, 'a reset')}"


@dataclass(frozen=True)
class WatchedXid:
    """Xid of the verdict WATCH that a job had on a GPU. `program` is common to all jobs of its kind."""

    gpu_uuid: str
    job_id: str
    program: str


@dataclass(frozen=True)
class Suspects:
    """Suspected and cleared GPUs.

    `faults` maps a GPU to why it is out of service. `cleared` are GPUs whose Xids come only from programs that had the
    same elsewhere.
    """

    faults: dict[str, str]
    cleared: Collection[str]


def suspects(seen: Sequence[WatchedXid]) -> Suspects:
    """Return the GPUs that the Xids of the last day point to. A program with Xids on two GPUs is itself at fault."""
    gpus_of: dict[str, set[str]] = {}
    for each in seen:
        gpus_of.setdefault(each.program, set()).add(each.gpu_uuid)
    against: dict[str, set[str]] = {}
    jobs: dict[str, set[str]] = {}
    for each in seen:
        jobs.setdefault(each.gpu_uuid, set()).add(each.job_id)
        if len(gpus_of[each.program]) == 1:
            against.setdefault(each.gpu_uuid, set()).add(each.job_id)
    faults = {
        uuid: f"{REPEATED} in {len(found)} jobs within a day, and in no similar job elsewhere"
        for uuid, found in against.items()
        if len(found) >= WATCHED_JOBS
    }
    cleared = {uuid for uuid, found in jobs.items() if len(found) >= WATCHED_JOBS and uuid not in faults}
    return Suspects(faults, cleared)
