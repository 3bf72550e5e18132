"""The image that a job names, what that is on one host, and the layer of requirements over it. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from schedulearn.scheduler.core.host_facts import HostFacts

_OVER = "+"
"""Between an image and its layer; no image's name holds it."""


FRAMEWORKS = {
    "pytorch": ("cpu", "{}"),
    "keras": ("keras", "keras-{}"),
    "tensorflow": ("tensorflow", ""),
    "mxnet": ("mxnet", ""),
}
"""`schedulearn/<framework>` -> the flavours of our images that it stands for: without CUDA, and with it (`{}`: which
CUDA), empty where there is none (worker_images/versions.env)."""
_OLD_NAMES = {"horovod-cuda": "pytorch", "horovod-keras-cuda": "keras"}
"""As images with CUDA were called while there was one of each."""
_FRAMEWORK = re.compile(
    rf"(?:(?:index\.)?docker\.io/)?schedulearn/({'|'.join([*FRAMEWORKS, *_OLD_NAMES])})(?::latest)?"
)


@dataclass(frozen=True)
class Cuda:
    """A CUDA that our images are made with."""

    name: str
    driver: int
    """The oldest of NVIDIA's that runs it."""
    least: tuple[int, int]
    """Compute capabilities that it has kernels for."""
    most: tuple[int, int]


CUDAS = (Cuda("cuda13", 580, (7, 5), (12, 9)), Cuda("cuda12", 525, (5, 0), (9, 0)))
"""The newest first: a host gets the first one that runs there."""


@dataclass(frozen=True)
class HostGpus:
    """What is known of a host's GPUs, as far as images go."""

    real: bool = False
    """False: it has none, or simulated ones."""
    driver: str = ""
    """The version of NVIDIA's; empty: not known."""
    compute: tuple[str, ...] = ()
    """Compute capabilities of its GPUs, as in 9.0."""


@dataclass(frozen=True)
class Choice:
    """Which CUDA a host runs."""

    cuda: Cuda | None
    why: str = ""
    """Why none, as a sentence without its end."""


def cuda_on(host_id: str, facts: HostFacts | None, gpus: HostGpus) -> Choice:
    """The CUDA of our images that runs on all GPUs of a host."""
    if facts is None or not (facts.nvidia or not facts.isolates):
        return Choice(None, f"on {host_id} Docker gives no GPUs to containers: install the NVIDIA container toolkit")
    if not gpus.driver:
        return Choice(None, f"on {host_id} the NVIDIA driver is not known yet")
    driver = gpus.driver.partition(".")[0]
    major = int(driver) if driver.isdigit() else CUDAS[0].driver
    found = sorted({_capability(each) for each in gpus.compute if each})
    for cuda in CUDAS:
        if major >= cuda.driver and all(cuda.least <= each <= cuda.most for each in found):
            return Choice(cuda)
    kinds = " and ".join(f"sm_{major}{minor}" for major, minor in found) or "GPUs"
    offered = ", ".join(
        f"{each.name} sm_{each.least[0]}{each.least[1]} to sm_{each.most[0]}{each.most[1]} from driver {each.driver}"
        for each in CUDAS
    )
    return Choice(None, f"on {host_id} no image with CUDA runs {kinds} with driver {gpus.driver} ({offered})")


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else CUDAS[0].least


def image_on(image: str, cuda: str | None) -> str:
    """The image that a name stands for on a host that runs this CUDA; only names of frameworks differ."""
    found = _FRAMEWORK.fullmatch(image)
    if found is None:
        return image
    without, with_cuda = FRAMEWORKS[_OLD_NAMES.get(found[1], found[1])]
    return f"schedulearn/horovod-{with_cuda.format(cuda) if cuda and with_cuda else without}"


def lacks_cuda(image: str) -> bool:
    """Whether this is the name of a framework of which there is no image with CUDA."""
    found = _FRAMEWORK.fullmatch(image)
    return found is not None and not FRAMEWORKS[_OLD_NAMES.get(found[1], found[1])][1]


def is_framework(image: str) -> bool:
    """Whether a name means another image on each kind of host."""
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
        """Digest of the requirements that are installed over the image; empty: none."""
        ...


class NeedsData(NamesImage, Protocol):
    @property
    def inputs(self) -> Mapping[str, str]:
        """Path in the container -> key of data that jobs share."""
        ...


def layer_of(requirements: Sequence[str] | None) -> str:
    """Names what these lines ask for."""
    return hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:32] if requirements else ""


def layered(image: str, layer: str) -> str:
    """The name of an image with a layer, for all that deal in images."""
    return f"{image}{_OVER}{layer}" if layer else image


def split_layered(image: str) -> tuple[str, str]:
    """(image, layer); the layer is empty where there is none."""
    base, over, layer = image.rpartition(_OVER)
    return (base, layer) if over else (image, "")


LAYERS = "schedulearn/layer:"
"""Beginning of what engines call images with a layer."""


def layer_tag(image: str) -> str:
    """What an engine calls an image with a layer; other images keep their name."""
    _, layer = split_layered(image)
    return f"{LAYERS}{hashlib.sha256(image.encode()).hexdigest()[:32]}" if layer else image
