"""How the SDK measures on a GPU, on a pretended one: its clock, CUDA graphs, mixed precision, memory that runs out."""

import json
from pathlib import Path
from typing import Any

import pytest
from environments import Python

HERE = Path(__file__).parent
pytestmark = pytest.mark.horovod


def found_in(output: str) -> Any:
    return json.loads(next(line for line in output.splitlines() if "found {" in line).partition("found ")[2])


@pytest.fixture(scope="module")
def found(horovod_env: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    python = Python(horovod_env, tmp_path_factory.mktemp("gpu"))
    return found_in(python.run("alone", 1, str(HERE / "gpu_stand_in.py")))


@pytest.mark.long
def test_steps_are_timed_by_what_the_gpu_did_and_not_by_when_they_were_launched(found: Any) -> None:
    clock = found["clock"]
    assert [step for step, _, _ in clock["known"]] == list(range(20)), "each once, in their order"
    assert [(step_s, sync_s) for _, step_s, sync_s in clock["known"]] == [pytest.approx((0.05, 0.01))] * 20
    assert clock["early"] == 0
    assert clock["asleep"] < 2, "in 20 ms the GPU can't have done more"


def test_the_time_that_a_gpu_waits_for_data_is_part_of_the_step(found: Any) -> None:
    assert found["idle"] == pytest.approx([0.05] * 5)


def test_the_service_is_told_the_gpus_times(found: Any) -> None:
    [told] = found["observed"]
    assert (told["num_gpus"], told["atomic_batch"]) == (1, 32)
    assert told["iter_time"] == pytest.approx(0.05)


def test_a_step_in_a_cuda_graph_is_timed_and_stopped_and_its_gradients_are_left_alone(found: Any) -> None:
    graph = found["graph"]
    assert (graph["steps"], graph["code"]) == (15, 75), "it saved itself at the step after which it was told to stop"
    assert graph["times"] == pytest.approx([0.02])
    assert graph["noise"] <= 2, "only before it was recorded"
    assert graph["said"].count("the step is in a CUDA graph: its batch is fixed") == 1


@pytest.mark.parametrize("kind", ["plain", "bf16", "channels-last", "compile", "scaler", "fused scaler"])
def test_measuring_leaves_the_training_as_it_is(found: Any, kind: str) -> None:
    with_sdk, without = found["learnt"][kind]
    assert len(with_sdk) == 25
    assert with_sdk == without


@pytest.mark.parametrize(
    ("case", "said"),
    [
        # 0.95 * 16 GiB - 2 GiB, at 0.25 GiB a sample
        (
            "by two sizes",
            "64 samples per micro-step: 52 would fit (2.15 GB plus 0.268 GB per sample, of 17.2 GB); set max_local=52",
        ),
        (
            "by one size",
            "64 samples per micro-step: 52 would fit (2.15 GB plus 0.268 GB per sample, of 17.2 GB); set max_local=52",
        ),
        ("not even one", "1 samples per micro-step: not even 1 would fit"),
    ],
)
def test_memory_that_runs_out_is_told_with_what_would_fit(found: Any, case: str, said: str) -> None:
    assert f"schedulearn: out of memory on the GPU with {said}" in found["memory"][case]


def test_without_a_pass_that_fitted_the_most_that_may_fit_is_told(found: Any) -> None:
    said = found["memory"]["at once"]
    assert "at most 29 may fit (at least 2.15 GB" in said
    assert "set max_local=14 to try half" in said


def test_a_gradient_scaler_does_not_change_the_noise_that_is_found(horovod_env: Path, tmp_path: Path) -> None:
    found = found_in(Python(horovod_env, tmp_path).run("torchrun", 2, str(HERE / "scaled_noise.py")))
    assert found["plain"][0] > 30
    assert found["scaled"] == pytest.approx(found["plain"], rel=1e-3)
