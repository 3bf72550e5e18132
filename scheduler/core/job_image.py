"""The image that a job names, and the layer of requirements over it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

_OVER = "+"
"""Between an image and its layer; no image's name holds it."""


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


def layer_tag(image: str) -> str:
    """What an engine calls an image with a layer; other images keep their name."""
    _, layer = split_layered(image)
    return f"schedulearn/layer:{hashlib.sha256(image.encode()).hexdigest()[:32]}" if layer else image
