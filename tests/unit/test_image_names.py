"""What a name of a framework stands for on a host, by its GPUs and its driver."""

import pytest

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.job_image import FRAMEWORKS, OLDEST_DRIVER, image_on, is_too_old, runs_cuda
from schedulearn.scheduler.runtimes.recipes import flavour_of

GPU_HOST = HostFacts("gpu", nvidia=True)


@pytest.mark.parametrize(
    ("name", "without", "with_cuda"),
    [
        ("schedulearn/pytorch", "schedulearn/horovod-cpu", "schedulearn/horovod-cuda"),
        ("schedulearn/keras:latest", "schedulearn/horovod-keras", "schedulearn/horovod-keras-cuda"),
        ("docker.io/schedulearn/tensorflow", "schedulearn/horovod-tensorflow", "schedulearn/horovod-tensorflow"),
        ("schedulearn/mxnet", "schedulearn/horovod-mxnet", "schedulearn/horovod-mxnet"),
    ],
)
def test_a_framework_is_its_image_with_cuda_or_the_one_without(name: str, without: str, with_cuda: str) -> None:
    assert (image_on(name, cuda=False), image_on(name, cuda=True)) == (without, with_cuda)
    assert image_on(with_cuda, cuda=False) == with_cuda, "who names an image gets that one"


@pytest.mark.parametrize(
    "name", ["schedulearn/horovod-cpu", "pytorch", "schedulearn/pytorch:2", "lab/schedulearn/pytorch"]
)
def test_other_names_are_what_they_are_everywhere(name: str) -> None:
    assert image_on(name, cuda=True) == image_on(name, cuda=False) == name


def test_every_framework_stands_for_images_that_are_built() -> None:
    for flavours in FRAMEWORKS.values():
        assert all(flavour_of(f"schedulearn/horovod-{flavour}") for flavour in flavours)


@pytest.mark.parametrize(
    ("facts", "driver", "cuda"),
    [
        (GPU_HOST, "580.95.05", True),
        (GPU_HOST, "610.2", True),
        (GPU_HOST, "535.183.01", False),
        (GPU_HOST, "", False),
        (HostFacts("no toolkit"), "580.95.05", False),
        (HostFacts("processes", isolates=False), "580.95.05", True),
        (HostFacts("processes", isolates=False), "", False),
        (None, "580.95.05", False),
        (GPU_HOST, "unheard of", True),
    ],
)
def test_cuda_runs_where_gpus_can_be_given_and_the_driver_is_new_enough(
    facts: HostFacts | None, driver: str, cuda: bool
) -> None:
    assert runs_cuda(facts, driver) is cuda


def test_only_a_driver_that_is_known_can_be_too_old() -> None:
    assert is_too_old(f"{OLDEST_DRIVER - 1}.99")
    assert not any(map(is_too_old, ("", str(OLDEST_DRIVER), "580.65.06", "unheard of")))
