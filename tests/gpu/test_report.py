"""What `make gpu-check` says of what it found, and how it compares with nvidia-smi."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.gpu import nvidia_smi
from bench.gpu.report import ALL_WELL, NO_GPU, SOME_FAILED, Check, Skipped, exit_code, loudly, markdown, passed, run

from schedulearn.metrics.probe.readings import GpuReading

WELL, BAD, LEFT = Check("a", "passed"), Check("b", "failed"), Check("c", "SKIPPED", "no NVIDIA GPU")


@pytest.mark.parametrize(
    ("checks", "gpu", "code"),
    [
        ([WELL], True, ALL_WELL),
        ([WELL, LEFT], True, ALL_WELL),
        ([WELL, BAD, LEFT], True, SOME_FAILED),
        ([LEFT], False, NO_GPU),
        ([WELL, LEFT], False, NO_GPU),
        ([BAD], False, SOME_FAILED),
    ],
)
def test_the_exit_code_tells_proven_from_refuted_and_from_neither(checks: list[Check], gpu: bool, code: int) -> None:
    assert exit_code(checks, gpu) == code


def test_a_check_that_breaks_has_failed_and_keeps_what_it_had_found() -> None:
    def breaks() -> Iterator[Check]:
        yield WELL
        raise RuntimeError("the GPU has fallen off the bus")

    def skips() -> Iterator[Check]:
        raise Skipped("Docker is missing")
        yield WELL

    assert list(run("x", breaks)) == [WELL, Check("x", "failed", "RuntimeError: the GPU has fallen off the bus")]
    assert list(run("y", skips)) == [Check("y", "SKIPPED", "Docker is missing")]


def test_what_was_skipped_is_said_loudly_and_the_table_has_all() -> None:
    said = loudly([WELL, LEFT])
    assert "NOT CHECKED (1 of 2):\n  c: no NVIDIA GPU" in said
    assert loudly([WELL]) == ""
    table = markdown({"GPU": "none"}, [passed("d", True, "1 | 2", "1"), LEFT])
    assert "| GPU | none |" in table
    assert "| d | passed | 1 / 2 | 1 |" in table
    assert "| c | SKIPPED | no NVIDIA GPU |  |" in table


# --- nvidia-smi ---

ROWS = nvidia_smi.parse((Path(__file__).parent / "nvidia-smi.csv").read_text())
OURS = GpuReading(ROWS[0]["uuid"], 97.0, 41237.0 * (1 << 20), 54.0, 512.0, 1e6, 1980.0, 2619.0)


def test_its_table_is_read_by_the_names_of_its_columns() -> None:
    assert [row["name"] for row in ROWS] == ["NVIDIA H100 80GB HBM3"] * 2
    assert (ROWS[0]["driver_version"], ROWS[1]["power.draw"]) == ("580.95.05", "69.80")


def test_each_value_that_both_tell_is_compared() -> None:
    found = {each.what: each.within for each in nvidia_smi.differences(ROWS[0], OURS)}
    assert found == dict.fromkeys(("utilization", "memory", "power", "temperature", "SM clock", "memory clock"), True)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"utilization": 90.0}, "utilization"),
        ({"memory_bytes": (41237.0 + 900) * (1 << 20)}, "memory"),  # what the driver keeps is counted as used
        ({"power_w": 540.0}, "power"),
        ({"temperature": None}, "temperature"),
        ({"sm_mhz": 1410.0}, "SM clock"),
        ({"memory_mhz": 1593.0}, "memory clock"),
    ],
)
def test_a_value_that_is_off_is_found(wrong: dict[str, float | None], what: str) -> None:
    assert [each.what for each in nvidia_smi.differences(ROWS[0], OURS._replace(**wrong)) if not each.within] == [what]


def test_what_a_gpu_does_not_measure_is_left_out() -> None:
    row = {**ROWS[1], "power.draw": "[N/A]", "clocks.current.sm": "[Not Supported]"}
    idle = GpuReading(row["uuid"], 0.0, 4.0 * (1 << 20), 31.0, None, None, None, 2619.0)
    found = list(nvidia_smi.differences(row, idle))
    assert {each.what for each in found} == {"utilization", "memory", "temperature", "memory clock"}
    assert all(each.within for each in found)
