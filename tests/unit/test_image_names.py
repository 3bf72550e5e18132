"""What a name of a framework stands for on a host, by its GPUs and its driver."""

import pytest
from matrices import each

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.job_image import CUDAS, FRAMEWORKS, HostGpus, cuda_on, image_on, lacks_cuda
from schedulearn.scheduler.runtimes.recipes import flavour_of

GPU_HOST = HostFacts("gpu", nvidia=True)
PROCESSES = HostFacts("processes", isolates=False)


@pytest.mark.parametrize(
    ("name", "without", "with_cuda"),
    [
        ("schedulearn/pytorch", "schedulearn/horovod-cpu", "schedulearn/horovod-cuda12"),
        ("schedulearn/keras:latest", "schedulearn/horovod-keras", "schedulearn/horovod-keras-cuda12"),
        ("docker.io/schedulearn/tensorflow", "schedulearn/horovod-tensorflow", "schedulearn/horovod-tensorflow"),
        ("schedulearn/mxnet", "schedulearn/horovod-mxnet", "schedulearn/horovod-mxnet"),
        ("schedulearn/horovod-cuda", "schedulearn/horovod-cpu", "schedulearn/horovod-cuda12"),
        ("schedulearn/horovod-keras-cuda", "schedulearn/horovod-keras", "schedulearn/horovod-keras-cuda12"),
    ],
)
def test_a_framework_is_its_image_with_cuda_or_the_one_without(name: str, without: str, with_cuda: str) -> None:
    assert (image_on(name, None), image_on(name, "cuda12")) == (without, with_cuda)
    assert image_on(with_cuda, None) == with_cuda, "who names an image gets that one"
    assert lacks_cuda(name) is (without == with_cuda)


@pytest.mark.parametrize(
    "name", ["schedulearn/horovod-cpu", "pytorch", "schedulearn/pytorch:2", "lab/schedulearn/pytorch"]
)
def test_other_names_are_what_they_are_everywhere(name: str) -> None:
    assert image_on(name, "cuda13") == image_on(name, None) == name
    assert not lacks_cuda(name)


def test_every_framework_stands_for_images_that_are_built() -> None:
    for without, with_cuda in FRAMEWORKS.values():
        names = [without, *(with_cuda.format(cuda.name) for cuda in CUDAS if with_cuda)]
        assert all(flavour_of(f"schedulearn/horovod-{name}") for name in names), names


DRIVERS = [
    # facts, driver, compute capabilities -> CUDA, or words of why none
    (GPU_HOST, "580.95.05", ("9.0",), "cuda13"),
    (GPU_HOST, "610.2", ("12.0",), "cuda13"),
    (GPU_HOST, "580.95.05", ("7.0",), "cuda12"),
    (GPU_HOST, "580.95.05", ("6.1", "9.0"), "cuda12"),
    (GPU_HOST, "535.183.01", ("8.0",), "cuda12"),
    (GPU_HOST, "570.124.06", ("8.6", "8.9"), "cuda12"),
    (GPU_HOST, "525.60.13", (), "cuda12"),
    (GPU_HOST, "580.95.05", ("",), "cuda13"),
    (PROCESSES, "580.95.05", ("8.0",), "cuda13"),
    (GPU_HOST, "unheard of", ("8.0",), "cuda13"),
    (GPU_HOST, "470.256", ("8.0",), "no image with CUDA runs sm_80 with driver 470.256"),
    (GPU_HOST, "535.183.01", ("12.0",), "no image with CUDA runs sm_120 with driver 535.183.01"),
    (GPU_HOST, "580.95.05", ("6.1", "12.0"), "no image with CUDA runs sm_61 and sm_120"),
    (GPU_HOST, "", (), "the NVIDIA driver is not known yet"),
    (PROCESSES, "", (), "the NVIDIA driver is not known yet"),
    (HostFacts("no toolkit"), "580.95.05", ("9.0",), "Docker gives no GPUs to containers"),
    (None, "580.95.05", ("9.0",), "Docker gives no GPUs to containers"),
]


@each(DRIVERS, "facts", "driver", "compute", "wanted")
def test_the_newest_cuda_that_runs_on_all_gpus_of_a_host_is_chosen(
    facts: HostFacts | None, driver: str, compute: tuple[str, ...], wanted: str
) -> None:
    found = cuda_on("h1", facts, HostGpus(True, driver, compute))
    assert (found.cuda.name if found.cuda else "") == (wanted if wanted.startswith("cuda") else "")
    assert bool(found.why) is (found.cuda is None)
    if found.why:
        assert f"on h1 {wanted}" in found.why
