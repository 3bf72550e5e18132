"""The image that a job names. Pure."""

from __future__ import annotations

from typing import Protocol


class NamesImage(Protocol):
    @property
    def container_image(self) -> str: ...
    @property
    def launcher(self) -> str: ...
