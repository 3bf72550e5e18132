"""Watchdog of NVML in a child process, since NVML calls may hang.

One faulty GPU must not hide the others of its host. The child reports which GPU it queries next. A child that is silent
for too long is replaced by one that leaves this GPU out. The GPU is queried again later, after ever longer delays.
Calls are made one after another, never in parallel. Standard library only, and Python 3.8: the probe's container runs
this file too.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from typing import Callable, Generator, Iterator

from schedulearn.metrics.probe.readings import (
    GpuInfo,
    GpuLink,
    GpuReading,
    Inventory,
    Reading,
    Sample,
    Xid,
    from_line,
)
from schedulearn.metrics.probe.sampling import VERSION_VARIABLE

HANG_S = 10.0
"""A child that is silent for this long hangs."""
TRIED_S = 5.0
"""As HANG_S, for a GPU that hung before."""
AGAIN_S = 60.0
"""Delay after which a GPU that hung is queried again; it doubles each time."""
_LONGEST_S = 960.0
_ALIVE_S = 5.0  # interval of reports while NVML does not answer at all
_MAX_LEFT = 4  # children that can't be killed: with this many, no others are started
NVML = -1
"""In place of a GPU's number: NVML as a whole is queried."""
_HANGS = "NVML does not respond"


def marker(number: int, uuid: str = "") -> str:
    """Return the line by which a child reports the GPU that it queries next."""
    return f"?{number} {uuid}\n"


def command(task: str, left_out: dict[int, int], machine: bool) -> list[str]:
    """Return the command of a child. `left_out`: number of a GPU in NVML's list -> its places in an inventory."""
    numbers = ",".join(f"{number}:{places}" for number, places in sorted(left_out.items()))
    return [sys.executable, "-m", "schedulearn.metrics.probe", task, numbers or "-", str(int(machine))]


def read_left_out(text: str) -> dict[int, int]:
    pairs = [pair.partition(":") for pair in text.split(",")] if text != "-" else []
    return {int(number): int(places) for number, _, places in pairs}


def find_once(timeout_s: float = 30.0) -> Inventory:
    """Return the inventory, by a child that reports it once."""
    child = subprocess.Popen(
        command("once", {}, machine=False), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        told, _ = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill(child)
        return Inventory(problem=f"{_HANGS} within {timeout_s:.0f} s")
    found = next((line for line in told.splitlines() if not line.startswith(b"?")), b"")
    try:
        reading = from_line(found)
    except ValueError:
        reading = None
    return reading if isinstance(reading, Inventory) else Inventory(problem="NVML ended the process that queried it")


def _kill(child: subprocess.Popen[bytes]) -> bool:
    """Kill a child; return whether it is gone: one that waits in the kernel stays."""
    child.kill()
    if child.stdout is not None:
        child.stdout.close()
    try:
        child.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        return False
    return True


@dataclass
class _Stuck:
    """A GPU on which NVML hangs."""

    again_at: float
    wait_s: float = AGAIN_S
    infos: tuple[GpuInfo, ...] = ()
    links: tuple[GpuLink, ...] = ()
    child: subprocess.Popen[bytes] | None = None
    """Child that hung: while it can't be killed, the GPU is not queried again."""


@dataclass
class _Seen:
    """Reports of the children so far."""

    inventory: Inventory = field(default_factory=Inventory)
    numbers: dict[str, int] = field(default_factory=dict)
    """UUID of a whole GPU -> its number in NVML's list."""
    xids: dict[str, dict[int, Xid]] = field(default_factory=dict)
    """Xids of earlier children, by UUID and code."""
    latest: dict[str, tuple[Xid, ...]] = field(default_factory=dict)
    """Xids of this child, by UUID."""


class Watchdog:
    """Watchdog of children that query NVML. Call `readings` once; `stop` from any thread ends them."""

    def __init__(self, version: str = "", *, machine: bool = False) -> None:
        self._version = version
        self._machine = machine
        self._seen = _Seen()
        self._stuck: dict[int, _Stuck] = {}
        self._trying: dict[int, _Stuck] = {}
        """GPUs that hung before, and that the present child queries again."""
        self._left: list[subprocess.Popen[bytes]] = []
        """Children that were killed, and are maybe not gone yet."""
        self._asked = NVML
        """The GPU, or NVML, that the child queries."""
        self._mute = 0
        """Number of times in a row that NVML as a whole hung."""
        self._wake, self._woken = os.pipe()
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        try:
            os.write(self._woken, b"x")
        except OSError:  # the readings have ended, and the pipe is closed
            pass

    def readings(self) -> Iterator[Reading]:
        """Yield the same as `sampling.readings`; end where those of the child do."""
        try:
            while not self._stopped:
                ended = yield from self._follow()
                if ended:
                    return
        finally:
            woken, self._woken = self._woken, -1
            os.close(self._wake)
            os.close(woken)

    def _follow(self) -> Generator[Reading, None, bool]:
        """Follow one child, to its end or ours. Return whether that is the end of all readings."""
        self._left = [child for child in self._left if child.poll() is None]
        if len(self._left) >= _MAX_LEFT:
            yield from self._wait()
            return False
        left_out = {number: max(1, len(stuck.infos)) for number, stuck in self._stuck.items()}
        child = subprocess.Popen(
            command("child", left_out, self._machine),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True,
            env={**os.environ, VERSION_VARIABLE: self._version},
        )  # fmt: skip
        self._asked = NVML
        hung = ended = False
        try:
            for line in self._lines(child, lambda: TRIED_S if self._asked in self._trying else HANG_S):
                if line is None:
                    hung = True
                    break
                if line.startswith(b"?"):
                    number, _, uuid = line[1:].decode().strip().partition(" ")
                    self._asked = int(number)
                    if uuid:
                        self._seen.numbers[uuid] = self._asked
                    continue
                reading = self._taken(from_line(line))
                yield reading
                if isinstance(reading, Sample) and self._try_again():
                    break
            else:
                ended = not self._stopped
        finally:
            self._end(child)
        if hung:
            yield self._hung(self._asked, child)
            if self._asked == NVML:
                yield from self._wait()
        return ended

    def _lines(self, child: subprocess.Popen[bytes], patience: Callable[[], float]) -> Iterator[bytes | None]:
        """Yield the lines of a child; None: it hangs."""
        assert child.stdout is not None
        source, rest = child.stdout.fileno(), b""
        while not self._stopped:
            ready, _, _ = select.select([source, self._wake], [], [], patience())
            if self._wake in ready:
                return
            if not ready:
                yield None
                return
            found = os.read(source, 1 << 16)
            if not found:
                return
            *lines, rest = (rest + found).split(b"\n")
            yield from lines

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        if not _kill(child):
            self._left.append(child)
        for uuid, xids in self._seen.latest.items():
            self._seen.xids[uuid] = {xid.code: xid for xid in xids}
        self._seen.latest.clear()

    def _wait(self) -> Iterator[Reading]:
        """Report that NVML as a whole hangs, until it is time for another child."""
        until = time.monotonic() + min(_LONGEST_S, HANG_S * 2 ** min(self._mute, 8))
        while not self._stopped and time.monotonic() < until:
            ready, _, _ = select.select([self._wake], [], [], min(_ALIVE_S, max(0.0, until - time.monotonic())))
            if ready:
                return
            yield Sample(time.time(), tuple(self._readings_of_stuck()))

    def _hung(self, asked: int, child: subprocess.Popen[bytes]) -> Reading:
        """Return the report of a child that hung while it queried this GPU."""
        if asked == NVML:
            self._mute += 1
            self._trying.clear()
            return Inventory(self._version, problem=f"{_HANGS}: see dmesg")
        self._mute = 0
        before = self._trying.pop(asked, None)
        wait_s = AGAIN_S if before is None else min(_LONGEST_S, 2 * before.wait_s)
        infos, links = (before.infos, before.links) if before is not None else self._known_of(asked)
        self._stuck[asked] = _Stuck(time.monotonic() + wait_s, wait_s, infos, links, child)
        return Sample(time.time(), tuple(self._readings_of_stuck()))

    def _known_of(self, number: int) -> tuple[tuple[GpuInfo, ...], tuple[GpuLink, ...]]:
        found = self._seen.inventory
        infos = tuple(gpu for gpu in found.gpus if self._seen.numbers.get(gpu.parent or gpu.uuid) == number)
        places = {gpu.index for gpu in infos}
        return infos, tuple(link for link in found.links if places & {link.a, link.b})

    def _try_again(self) -> bool:
        """Return whether a GPU that hung is due, to be queried by another child."""
        for number, stuck in list(self._stuck.items()):
            if time.monotonic() >= stuck.again_at and (stuck.child is None or stuck.child.poll() is not None):
                self._trying[number] = self._stuck.pop(number)
                return True
        return False

    def _taken(self, reading: Reading) -> Reading:
        """Complete a child's report by GPUs that it leaves out, and by reports of earlier children."""
        self._mute = 0
        if isinstance(reading, Inventory):
            reading = self._completed(reading)
            self._seen.inventory = reading
            return reading
        self._trying.clear()  # all were queried, and answered
        gpus = [self._with_xids(gpu) for gpu in reading.gpus]
        return replace(reading, gpus=(*gpus, *self._readings_of_stuck()))

    def _completed(self, inventory: Inventory) -> Inventory:
        problems = [inventory.problem] if inventory.problem else []
        gpus, links = list(inventory.gpus), list(inventory.links)
        for number, stuck in sorted(self._stuck.items()):
            gpus += stuck.infos
            links += [link for link in stuck.links if link not in links]
            if not stuck.infos:
                problems.append(f"GPU {number} can't be queried: {_HANGS}")
        gpus.sort(key=lambda gpu: gpu.index)
        return replace(inventory, gpus=tuple(gpus), links=tuple(links), problem=", ".join(problems))

    def _with_xids(self, gpu: GpuReading) -> GpuReading:
        self._seen.latest[gpu.uuid] = gpu.xids
        before = self._seen.xids.get(gpu.uuid)
        if not before:
            return gpu
        merged = dict(before)
        for xid in gpu.xids:
            old = merged.pop(xid.code, None)
            merged[xid.code] = xid if old is None else xid._replace(times=old.times + xid.times)
        self._seen.latest[gpu.uuid] = tuple(merged.values())
        return gpu._replace(xids=tuple(merged.values()))

    def _readings_of_stuck(self) -> Iterator[GpuReading]:
        for stuck in self._stuck.values():
            for info in stuck.infos:
                xids = self._seen.latest.get(info.uuid) or tuple(self._seen.xids.get(info.uuid, {}).values())
                yield GpuReading(info.uuid, xids=xids, stuck=True)
