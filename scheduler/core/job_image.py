"""The image that a job names, what that is on one host, and the layer of requirements over it. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from schedulearn.scheduler.core.host_facts import HostFacts

_OVER = "+"
"""Between an image and its layer; no image's name holds it."""


FRAMEWORKS = {
    "pytorch": ("cpu", "cuda"),
    "keras": ("keras", "keras-cuda"),
    "tensorflow": ("tensorflow", "tensorflow"),
    "mxnet": ("mxnet", "mxnet"),
}
"""`schedulearn/<framework>` -> the flavours of our images that it stands for: without CUDA, and with it where there is
one (worker_images/versions.env)."""
OLDEST_DRIVER = 580
"""Of NVIDIA, that runs the CUDA 13 of our images."""
_FRAMEWORK = re.compile(rf"(?:(?:index\.)?docker\.io/)?schedulearn/({'|'.join(FRAMEWORKS)})(?::latest)?")


def runs_cuda(facts: HostFacts | None, driver: str) -> bool:
    """Whether our images with CUDA run on a host. `driver`: the version of NVIDIA's there; empty: no GPU is known."""
    gives_gpus = facts is not None and (facts.nvidia or not facts.isolates)
    return gives_gpus and not is_too_old(driver) and bool(driver)


def is_too_old(driver: str) -> bool:
    """Whether a driver is known to be too old for our images with CUDA."""
    major = driver.partition(".")[0]
    return major.isdigit() and int(major) < OLDEST_DRIVER


def image_on(image: str, cuda: bool) -> str:
    """The image that a name stands for on a host that `runs_cuda`, or does not; only names of frameworks differ."""
    found = _FRAMEWORK.fullmatch(image)
    return f"schedulearn/horovod-{FRAMEWORKS[found[1]][cuda]}" if found is not None else image


class NamesImage(Protocol):
    @property
    def container_image(self) -> str: ...
    @property
    def launcher(self) -> str: ...
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
