"""NVML that does not come back: the others are read on, and the GPU that hangs is named."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_probes.nvml_library import build_library

from schedulearn.metrics.probe import watchdog
from schedulearn.metrics.probe.readings import Inventory, Reading, Sample
from schedulearn.metrics.probe.watchdog import Watchdog

pytestmark = pytest.mark.process
GPU = "GPU-00000000-0000-0000-0000-00000000000"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def state(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says what the driver does; a hang is found after a second, and tried again after three."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE_NVML_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("FAKE_NVML_GPUS", "4")
    monkeypatch.setattr(watchdog, "HANG_S", 3.0)
    monkeypatch.setattr(watchdog, "TRIED_S", 2.0)
    monkeypatch.setattr(watchdog, "AGAIN_S", 4.0)
    monkeypatch.setattr(watchdog, "_ALIVE_S", 0.2)
    (tmp_path / "state").write_text("")
    return tmp_path / "state"


@pytest.fixture
def readings(state: Path) -> Iterator[Iterator[Reading]]:
    found = Watchdog("v1").readings()
    yield found
    found.close()  # type: ignore[attr-defined]


def until(readings: Iterator[Reading], wanted: Callable[[Reading], bool], seconds: float = 30.0) -> list[Reading]:
    end = time.monotonic() + seconds
    seen = []
    for reading in readings:
        seen.append(reading)
        if wanted(reading):
            return seen
        assert time.monotonic() < end, f"nothing of the kind; last {reading}"
    raise AssertionError(f"they end with {seen[-1:]}")


def told(reading: Reading) -> dict[int, str]:
    """What a sample tells of each GPU."""
    if not isinstance(reading, Sample):
        return {}
    return {int(gpu.uuid[-1]): "stuck" if gpu.stuck else "read" for gpu in reading.gpus if gpu.stuck or gpu.utilization}


def test_a_gpu_that_hangs_is_named_left_out_and_back_when_it_answers(state: Path, readings: Iterator[Reading]) -> None:
    state.write_text("xid 2 119\nxid 2 45\nxid 1 31\n")
    until(readings, lambda reading: told(reading) == dict.fromkeys(range(4), "read") and bool(reading.gpus[1].xids))
    state.write_text("hang 2\n")
    seen = until(readings, lambda reading: told(reading) == {0: "read", 1: "read", 2: "stuck", 3: "read"})
    assert {2: "stuck"} in [told(reading) for reading in seen], "it is told at once, before the others are asked again"
    assert [xid.code for xid in seen[-1].gpus[-1].xids] == [119, 45]  # type: ignore[union-attr]
    later = until(readings, lambda reading: isinstance(reading, Inventory))[-1]
    assert isinstance(later, Inventory)
    assert [(gpu.index, gpu.uuid, gpu.memory_bytes >> 30) for gpu in later.gpus] == [
        (number, f"{GPU}{number}", 16) for number in range(4)
    ]
    assert (later.problem, later.version) == ("", "v1")
    # It is asked again, hangs again, and that costs the others little.
    began = time.monotonic()
    gaps = []
    last = began
    while time.monotonic() < began + 8:
        if told(next(readings)).get(0) == "read":
            gaps.append(time.monotonic() - last)
            last = time.monotonic()
    assert len(gaps) > 3
    assert max(gaps) < 5.5
    state.write_text("xid 1 31\n")
    back = until(readings, lambda reading: told(reading) == dict.fromkeys(range(4), "read"))[-1]
    assert isinstance(back, Sample)
    xids = {gpu.uuid[-1]: [(xid.code, xid.times) for xid in gpu.xids] for gpu in back.gpus}
    assert xids["2"] == [(119, 1), (45, 1)]
    assert xids["1"][0][0] == 31, "what the children before saw is not forgotten"


def test_a_gpu_that_hung_from_the_start_is_a_problem(state: Path, readings: Iterator[Reading]) -> None:
    state.write_text("hang 0\n")
    found = until(readings, lambda reading: isinstance(reading, Inventory))[-1]
    assert isinstance(found, Inventory)
    assert [(gpu.index, gpu.uuid) for gpu in found.gpus] == [(number, f"{GPU}{number}") for number in (1, 2, 3)]
    assert found.problem == "GPU 0 can't be queried: NVML does not respond"


@pytest.mark.parametrize("call", ["hang_init 0", "hang_count 0"])
def test_an_nvml_that_hangs_as_a_whole_is_one_problem_whose_text_stays(
    state: Path, readings: Iterator[Reading], call: str
) -> None:
    state.write_text(call)
    seen = until(readings, lambda reading: isinstance(reading, Inventory))
    end = time.monotonic() + 5
    while time.monotonic() < end:
        began = time.monotonic()
        seen.append(next(readings))
        assert time.monotonic() - began < 5, "something is told while it hangs, or its host counts as silent"
    assert {reading.problem for reading in seen if isinstance(reading, Inventory)} == {
        "NVML does not respond: see dmesg"
    }
    state.write_text("")
    until(readings, lambda reading: told(reading) == dict.fromkeys(range(4), "read"))


def test_which_gpus_there_are_is_answered_though_nvml_hangs(state: Path) -> None:
    assert [gpu.index for gpu in watchdog.find_once().gpus] == [0, 1, 2, 3]
    state.write_text("hang_init 0")
    assert watchdog.find_once(1.0).problem == "NVML does not respond within 1 s"


def test_it_is_stopped_from_another_thread_while_nvml_hangs(state: Path) -> None:
    state.write_text("hang_init 0")
    dog = Watchdog()
    thread = threading.Thread(target=lambda: list(dog.readings()))
    thread.start()
    time.sleep(0.5)
    dog.stop()
    thread.join(timeout=2.5)
    assert not thread.is_alive()
    dog.stop()
