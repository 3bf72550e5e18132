"""The last minutes in memory."""

from __future__ import annotations

from itertools import islice

import pytest

from schedulearn.metrics.probe import sampling
from schedulearn.metrics.probe.machine import MachineCounters
from schedulearn.metrics.probe.readings import (
    GpuHealth,
    GpuInfo,
    GpuLink,
    GpuProcess,
    GpuReading,
    Inventory,
    NumaNode,
    Sample,
    Xid,
    from_line,
    to_line,
)
from schedulearn.scheduler.store.gpus import MinuteAverages
from schedulearn.scheduler.telemetry.history import Telemetry
from schedulearn.scheduler.telemetry.probes import SimulatedGpu, SimulatedProbe


def sample(utilization: float | None = 50.0, **fields: object) -> Sample:
    return Sample(0.0, (GpuReading("GPU-a", utilization, **fields),))  # type: ignore[arg-type]


def test_memory_keeps_the_last_seconds_and_no_more() -> None:
    telemetry = Telemetry(size=10)
    for second in range(25):
        telemetry.take("h", sample(float(second)), 1000.0 + second)
    found = telemetry.points("GPU-a", 0.0, 2000.0)
    assert [point.at for point in found] == [1000.0 + second for second in range(15, 25)]
    assert found[0].values == (15.0, None, None, None)
    assert [point.at for point in telemetry.points("GPU-a", 1020.0, 1022.0)] == [1020.0, 1021.0]
    assert telemetry.points("GPU-b", 0.0, 2000.0) == []


def test_a_reading_is_forgotten_for_now_when_it_is_stale() -> None:
    telemetry = Telemetry()
    telemetry.take("h", sample(), 1000.0)
    assert telemetry.reading("GPU-a", 1010.0) is not None
    assert telemetry.reading("GPU-a", 1011.0) is None


def test_a_minutes_averages_leave_out_what_is_unknown() -> None:
    telemetry = Telemetry()
    for second in range(120):
        known = None if second % 2 else float(second)
        telemetry.take("h", sample(known, power_w=100.0 + second // 60), 6000.0 + second)
    first, second = telemetry.minute(100), telemetry.minute(101)
    assert first == [MinuteAverages("GPU-a", 100, utilization=29.0, memory_bytes=None, temperature=None, power_w=100.0)]
    assert second[0].power_w == 101.0
    assert telemetry.minute(102) == []


def test_energy_goes_by_the_counter_where_there_is_one_else_by_power() -> None:
    telemetry = Telemetry()
    for second in range(11):
        telemetry.take("h", sample(power_w=1.0, energy_j=5000.0 + 100 * second if second < 6 else 0.0), 1000.0 + second)
    assert telemetry.joules("GPU-a", 1000.0, 1011.0) == 500.0  # a counter that begins anew takes nothing away
    for second in range(11):
        telemetry.take("h", Sample(0.0, (GpuReading("GPU-b", power_w=200.0),)), 1000.0 + second)
    assert telemetry.joules("GPU-b", 1000.0, 1011.0) == 2000.0
    assert telemetry.joules("GPU-b", 1005.0, 1008.0) == 600.0
    telemetry.take("h", Sample(0.0, (GpuReading("GPU-b", power_w=200.0),)), 5000.0)
    assert telemetry.joules("GPU-b", 4000.0, 6000.0) == 1000.0  # an hour of silence is not an hour of that


def test_simulated_gpus_work_and_warm_up_only_while_a_job_runs_on_them() -> None:
    probe = SimulatedProbe()
    gpus = [SimulatedGpu("GPU-a", 16 << 30), SimulatedGpu("GPU-b", 16 << 30)]
    for second in range(120):
        busy, idle = probe.sample(gpus, {"GPU-a"}, float(second)).gpus
    assert 75 <= (busy.utilization or 0) <= 100
    assert (busy.memory_bytes or 0) > 8 << 30
    assert (busy.temperature or 0) > 55
    assert 200 < (busy.power_w or 0) <= 310
    assert idle.utilization == 0
    assert (idle.temperature or 0) < 40
    assert (idle.power_w or 0) < 70
    for second in range(120):
        done, _ = probe.sample(gpus, set(), float(second)).gpus
    assert done.utilization == 0
    assert (done.energy_j or 0) > (busy.energy_j or 0)


INVENTORY = Inventory(
    "v", "550.1", (GpuInfo("GPU-a", 0, "A100", 1 << 36, island=0, numa=1), GpuInfo("MIG-b", 1, "1g", 1, "GPU-c")),
    (GpuLink(0, 1, "nvlink"),), "", (NumaNode(0, "0-31,64-95", 1 << 38), NumaNode(1, "32-63")),
)  # fmt: skip
SAMPLE = Sample(
    1700000000.125,
    (
        GpuReading("GPU-a", 0.0, 0.0, 30.0, 12.5, 0.0, 1.0, 2.0, 0, (Xid(79, 2, 3.0),), ("power_cap",), (), True),
        GpuReading("MIG-b", processes=(GpuProcess(7, "x", None, "c" * 64, "t", 0),)),
        GpuReading("GPU-c", stuck=True),
        GpuReading(
            "GPU-d", health=GpuHealth("GPU reset", True, True, True, 12, 1, 8, 4, 16, "exclusive", "error 3", True, 4.5)
        ),
    ),
    MachineCounters(64, 1234.5, 1, 1 << 40, 0, 1 << 50, 0, 1 << 50, None, 3),
)


class Still:
    """A reader of which nothing changes."""

    def inventory(self) -> Inventory:
        return INVENTORY

    def sample(self) -> Sample:
        return Sample(1.0)


def test_one_sample_in_ten_seconds_tells_of_the_machine() -> None:
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    assert SAMPLE.machine is not None
    told = SAMPLE.machine
    found = sampling.readings(Still(), wait, lambda: now[0], lambda: told)
    samples = [reading for reading in islice(found, 26) if isinstance(reading, Sample)]
    assert [index for index, sample in enumerate(samples) if sample.machine == told] == [0, 10, 20]


@pytest.mark.parametrize("reading", [INVENTORY, SAMPLE, Inventory(problem="no driver"), Sample(1.0)])
def test_a_line_says_all_of_a_reading(reading: Inventory | Sample) -> None:
    line = to_line(reading)
    assert "\n" not in line
    assert from_line(line) == reading
    assert from_line(line.encode()) == reading


@pytest.mark.parametrize(
    "line",
    [
        "", "[]", "3", "{", '{"gpus": 3}', '{"at": NaN}', '{"at": 1e999}', '{"at": 1e39}', '{"at": "1"}',
        '{"at": 1, "gpus": [3]}', '{"at": 1, "machine": 3}', '{"at": 1, "machine": {"cpus": 1.5}}',
        '{"at": 1, "gpus": [{"uuid": "x"}]}', '{"at": 1, "gpus": [{"uuid": "GPU-1", "utilization": "9"}]}',
        '{"at": 1, "gpus": [{"uuid": "GPU-1", "ecc_errors": 1.5}]}', '{"schedulearn_probe": 2}',
        '{"schedulearn_probe": 1, "version": 3}', '{"schedulearn_probe": 1, "gpus": [{"uuid": "GPU-1"}]}',
        '{"at": 1, "gpus": [' + ",".join(['{"uuid": "GPU-1"}'] * 500) + "]}",
    ],
)  # fmt: skip
def test_what_no_probe_wrote_is_refused(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each says something else
        from_line(line)
