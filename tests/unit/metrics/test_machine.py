"""How busy a machine is, by its /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schedulearn.metrics.probe.machine import read_machine

STAT = """cpu  1000 20 300 5000 400 6 70 8 900 10
cpu0 500 10 150 2500 200 3 35 4 450 5
cpu1 500 10 150 2500 200 3 35 4 450 5
intr 12345
ctxt 77
"""
MEMINFO = "MemTotal:       16000 kB\nMemFree:  100 kB\nMemAvailable:   12000 kB\n"


def proc(folder: Path, stat: str = STAT, meminfo: str = MEMINFO) -> str:
    (folder / "stat").write_text(stat)
    (folder / "meminfo").write_text(meminfo)
    return str(folder)


def test_time_of_guests_counts_once_and_waiting_for_a_disk_is_idle(tmp_path: Path) -> None:
    found = read_machine(str(tmp_path), proc(tmp_path))
    assert found is not None
    assert found.cpus == 2
    assert found.cpu_seconds == pytest.approx((1000 + 20 + 300 + 6 + 70 + 8) / os.sysconf("SC_CLK_TCK"))
    assert (found.memory_bytes, found.memory_total) == (4000 << 10, 16000 << 10)
    assert 0 < found.disk_bytes <= found.disk_total


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    found = read_machine(str(tmp_path))
    assert found is not None
    assert found.cpus >= 1
    assert 0 < found.memory_bytes < found.memory_total


@pytest.mark.parametrize(("stat", "meminfo"), [("", MEMINFO), ("cpu x", MEMINFO), (STAT, "MemTotal: 1 kB\n")])
def test_what_is_no_proc_tells_nothing(tmp_path: Path, stat: str, meminfo: str) -> None:
    assert read_machine(str(tmp_path), proc(tmp_path, stat, meminfo)) is None
    assert read_machine(str(tmp_path / "gone"), proc(tmp_path)) is None
