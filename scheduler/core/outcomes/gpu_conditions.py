"""GPU conditions that the driver reports besides errors: hindrances and warnings. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from schedulearn.metrics.probe.readings import GpuHealth, GpuReading

WELL = "none"
"""Recovery action of a GPU that needs none."""
_BUSY = 50.0
"""Minimum utilization in per cent at which a GPU's link runs at its full generation."""
_SLOWED = {
    "hw_slowdown": "its hardware has lowered its clocks",
    "sw_thermal": "it is too hot, its driver has lowered its clocks",
    "hw_thermal": "it is too hot, its hardware has lowered its clocks",
    "power_brake": "its power supply has lowered its clocks",
}
_SELDOM_FULL = 0.99


def hindrances(health: GpuHealth) -> list[str]:
    """Return why no job may start on a GPU in its present state."""
    found = []
    if health.recovery not in ("", WELL):
        found.append(f"its driver asks for: {health.recovery}")
    if health.remap_failed:
        found.append("a broken row of its memory could not be replaced; it needs a repair")
    if health.remap_pending:
        found.append("a row of its memory is to be replaced by the next reset; it needs a reset")
    if health.retired_pending:
        found.append("a page of its memory is to be retired by the next reset; it needs a reset")
    if health.compute_mode == "prohibited":
        found.append("its compute mode is `prohibited`: nvidia-smi -c 0 allows programs")
    if health.fabric in ("not started", "in progress"):
        found.append(f"its NVLink fabric is not ready ({health.fabric}): see the service nvidia-fabricmanager")
    elif health.fabric not in ("", "completed"):
        found.append(f"its NVLink fabric has failed ({health.fabric}): see the service nvidia-fabricmanager")
    return found


def warnings(reading: GpuReading, health: GpuHealth, most_nvlinks: int | None) -> Mapping[str, str]:
    """Return name -> sentence of each warning about a usable GPU. `most_nvlinks` is the maximum active before."""
    found = {word: _SLOWED[word] for word in reading.throttle if word in _SLOWED}
    if health.compute_mode == "exclusive":
        found["compute_mode"] = "its compute mode allows only one process: nvidia-smi -c 0 allows several"
    if health.fabric_degraded:
        found["fabric"] = "its NVLink fabric has lost bandwidth"
    if health.nvlinks is not None and most_nvlinks is not None and health.nvlinks < most_nvlinks:
        found["nvlinks"] = f"{health.nvlinks} of its NVLinks are active, it had {most_nvlinks}"
    if health.pcie_width and health.max_pcie_width and health.pcie_width < health.max_pcie_width:
        found["pcie_width"] = f"its PCIe link has {health.pcie_width} lanes of {health.max_pcie_width}"
    generation, most = health.pcie_generation, health.max_pcie_generation
    if generation and most and generation < most and (reading.utilization or 0.0) >= _BUSY:
        found["pcie_generation"] = f"its PCIe link runs at generation {generation} of {most} under load"
    limit, usual = reading.power_limit_w, health.default_limit_w
    if limit is not None and usual is not None and limit < _SELDOM_FULL * usual:
        found["power_limit"] = f"its power limit is {limit:.0f} W, {usual:.0f} W is usual"
    return found


class Lasting:
    """Debounced set: a thing counts after it was present for `after_s`, until it was absent for `gone_s`."""

    def __init__(self, after_s: float, gone_s: float) -> None:
        self._after_s, self._gone_s = after_s, gone_s
        self._turned: dict[str, float] = {}
        """Thing -> time since which its presence differs from whether it counts."""
        self.lasting: set[str] = set()
        """Things that count now."""

    def update(self, present: Collection[str], now: float) -> set[str]:
        """Apply the things present now, and return the new `lasting`."""
        for thing in [*self.lasting | self._turned.keys() | set(present)]:
            counts, there = thing in self.lasting, thing in present
            if counts is there:
                self._turned.pop(thing, None)
            elif now - self._turned.setdefault(thing, now) >= (self._after_s if there else self._gone_s):
                del self._turned[thing]
                (self.lasting.add if there else self.lasting.discard)(thing)
        return set(self.lasting)
