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


NETWORK = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo: 999 9 0 0 0 0 0 0 999 9 0 0 0 0 0 0
  eth0: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0
enp3s0f1:5000000000000 1 0 0 0 0 0 0 7 2 0 0 0 0 0 0
eth0.5: 50 1 0 0 0 0 0 0 60 2 0 0 0 0 0 0
docker0: 50 1 0 0 0 0 0 0 60 2 0 0 0 0 0 0
br-1a2b: 50 1 0 0 0 0 0 0 60 2 0 0 0 0 0 0
veth99a: 50 1 0 0 0 0 0 0 60 2 0 0 0 0 0 0
 bond0: 50 1 0 0 0 0 0 0 60 2 0 0 0 0 0 0
"""
DISKS = """   8       0 sda 1 2 10 3 4 5 20 6 0 0 0
   8       1 sda1 1 2 9 3 4 5 19 6 0 0 0
 259       0 nvme0n1 1 2 100 3 4 5 200 6 0 0 0 0 0 0 0 0 0
 259       1 nvme0n1p1 1 2 100 3 4 5 200 6 0 0 0
 202       1 xvda1 1 2 1000 3 4 5 2000 6 0 0 0
 253       0 dm-0 1 2 100 3 4 5 200 6 0 0 0
   7       0 loop0 1 2 100 3 4 5 200 6 0 0 0
   9       0 md127 1 2 100 3 4 5 200 6 0 0 0
"""


def of_machine(folder: Path, *, comm: str = "kthreadd", network: str = NETWORK, disks: str = DISKS) -> str:
    for process in ("1", "2"):
        (folder / process / "net").mkdir(parents=True)
    (folder / "2" / "comm").write_text(f"{comm}\n")
    (folder / "1" / "net" / "dev").write_text(network)
    (folder / "diskstats").write_text(disks)
    return proc(folder)


def test_what_passes_by_cards_and_whole_disks_counts_once(tmp_path: Path) -> None:
    found = read_machine(str(tmp_path), of_machine(tmp_path))
    assert found is not None
    assert (found.network_in, found.network_out) == (5000000000100, 207)
    assert (found.disk_read, found.disk_written) == (1110 * 512, 2220 * 512)


def test_the_network_of_a_container_is_not_that_of_its_machine(tmp_path: Path) -> None:
    found = read_machine(str(tmp_path), of_machine(tmp_path, comm="nginx"))
    assert found is not None
    assert (found.network_in, found.network_out, found.disk_read) == (None, None, 1110 * 512)


@pytest.mark.parametrize(("network", "disks"), [("", ""), ("eth0: x\n", "8 0 sda\n"), ("eth0: 1\n", "8\n")])
def test_rates_that_can_not_be_told_leave_the_rest(tmp_path: Path, network: str, disks: str) -> None:
    found = read_machine(str(tmp_path), of_machine(tmp_path, network=network, disks=disks))
    assert found is not None
    assert found[-4:] == (None, None, None, None)


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    found = read_machine(str(tmp_path))
    assert found is not None
    assert found.cpus >= 1
    assert 0 < found.memory_bytes < found.memory_total


@pytest.mark.parametrize(("stat", "meminfo"), [("", MEMINFO), ("cpu x", MEMINFO), (STAT, "MemTotal: 1 kB\n")])
def test_what_is_no_proc_tells_nothing(tmp_path: Path, stat: str, meminfo: str) -> None:
    assert read_machine(str(tmp_path), proc(tmp_path, stat, meminfo)) is None
    assert read_machine(str(tmp_path / "gone"), proc(tmp_path)) is None
