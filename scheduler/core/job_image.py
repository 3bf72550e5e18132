"""Images of jobs: name, actual image on a host, and requirements layer. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from schedulearn.scheduler.core.host_facts import HostFacts

_OVER = "+"
"""Separator of an image and its layer. No image name contains it."""


FRAMEWORKS = {
    "pytorch": ("cpu", "{}"),
    "keras": ("keras", "keras-{}"),
    "tensorflow": ("tensorflow", ""),
    "mxnet": ("mxnet", ""),
}
"""`schedulearn/<framework>` -> variants of its image, without and with CUDA (worker_images/versions.env).

`{}` stands for the name of the CUDA version. The second variant is empty if there is no image with CUDA.
"""
_OLD_NAMES = {"horovod-cuda": "pytorch", "horovod-keras-cuda": "keras"}
"""Old names of images with CUDA, from when there was one per framework."""
_FRAMEWORK = re.compile(
    rf"(?:(?:index\.)?docker\.io/)?schedulearn/({'|'.join([*FRAMEWORKS, *_OLD_NAMES])})(?::latest)?"
)


@dataclass(frozen=True)
class Cuda:
    """CUDA version that Schedulearn's images are built with."""

    name: str
    driver: int
    """Minimum version of NVIDIA's driver."""
    least: tuple[int, int]
    """Minimum compute capability with kernels in the images; `most` is the maximum."""
    most: tuple[int, int]


CUDAS = (Cuda("cuda13", 580, (7, 5), (12, 9)), Cuda("cuda12", 525, (5, 0), (9, 0)))
"""CUDA versions, newest first. A host uses the first one that it can run."""


@dataclass(frozen=True)
class HostGpus:
    """Properties of a host's GPUs that select an image."""

    real: bool = False
    """False if the host has no GPUs, or simulated ones."""
    driver: str = ""
    """Version of NVIDIA's driver; empty if unknown."""
    compute: tuple[str, ...] = ()
    """Compute capabilities of the host's GPUs, such as 9.0."""


@dataclass(frozen=True)
class CudaChoice:
    """CUDA version for a host, or the reason why none fits."""

    cuda: Cuda | None
    why: str = ""
    """Why no version fits, as a sentence without its final period."""


def cuda_on(host_id: str, facts: HostFacts | None, gpus: HostGpus) -> CudaChoice:
    """Return the CUDA version of Schedulearn's images that runs on all GPUs of a host."""
    if facts is None or not (facts.nvidia or not facts.isolates):
        return CudaChoice(
            None, f"on {host_id} Docker gives no GPUs to containers: install the NVIDIA container toolkit"
        )
    if not gpus.driver:
        return CudaChoice(None, f"on {host_id} the NVIDIA driver is not known yet")
    driver = gpus.driver.partition(".")[0]
    major = int(driver) if driver.isdigit() else CUDAS[0].driver
    found = sorted({_capability(each) for each in gpus.compute if each})
    for cuda in CUDAS:
        if major >= cuda.driver and all(cuda.least <= each <= cuda.most for each in found):
            return CudaChoice(cuda)
    kinds = " and ".join(f"sm_{major}{minor}" for major, minor in found) or "GPUs"
    offered = ", ".join(
        f"{each.name} sm_{each.least[0]}{each.least[1]} to sm_{each.most[0]}{each.most[1]} from driver {each.driver}"
        for each in CUDAS
    )
    return CudaChoice(None, f"on {host_id} no image with CUDA runs {kinds} with driver {gpus.driver} ({offered})")


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else CUDAS[0].least


def image_on(image: str, cuda: str | None) -> str:
    """Return the actual image of a name on a host that runs this CUDA. It differs only for names of frameworks."""
    found = _FRAMEWORK.fullmatch(image)
    if found is None:
        return image
    without, with_cuda = FRAMEWORKS[_OLD_NAMES.get(found[1], found[1])]
    return f"schedulearn/horovod-{with_cuda.format(cuda) if cuda and with_cuda else without}"


def lacks_cuda(image: str) -> bool:
    """Return whether this is the name of a framework without a CUDA image."""
    found = _FRAMEWORK.fullmatch(image)
    return found is not None and not FRAMEWORKS[_OLD_NAMES.get(found[1], found[1])][1]


def is_framework(image: str) -> bool:
    """Return whether a name is a framework, which means a different image on each kind of host."""
    return _FRAMEWORK.fullmatch(image) is not None


class NamesImage(Protocol):
    @property
    def container_image(self) -> str: ...
    @property
    def launcher(self) -> str: ...
    @property
    def required_gpus(self) -> int: ...
    @property
    def layer(self) -> str:
        """Digest of the requirements that are installed over the image; empty if there are none."""
        ...


class NeedsData(NamesImage, Protocol):
    @property
    def user(self) -> str | None: ...
    @property
    def inputs(self) -> Mapping[str, str]:
        """Path in the container -> key of shared data."""
        ...


def layer_of(requirements: Sequence[str] | None) -> str:
    """Return the digest of these requirements, or an empty string."""
    return hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:32] if requirements else ""


def layered(image: str, layer: str) -> str:
    """Return the internal name of an image with a layer."""
    return f"{image}{_OVER}{layer}" if layer else image


def split_layered(image: str) -> tuple[str, str]:
    """Return (image, layer); the layer is empty if there is none."""
    base, over, layer = image.rpartition(_OVER)
    return (base, layer) if over else (image, "")


LAYERS = "schedulearn/layer:"
"""Prefix of the names that engines use for images with a layer."""


def layer_tag(image: str) -> str:
    """Return the name that an engine uses for an image with a layer. Other images keep their name."""
    _, layer = split_layered(image)
    return f"{LAYERS}{hashlib.sha256(image.encode()).hexdigest()[:32]}" if layer else image
