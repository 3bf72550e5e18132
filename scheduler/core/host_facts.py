"""What a host says of itself. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostProblem:
    """Something that an operator should know of a host, and can act on. `code` is stable."""

    code: str
    message: str


@dataclass(frozen=True)
class FoundGpu:
    """A GPU as its host shows it when it is found, or a simulated one."""

    uuid: str
    ordinal: int
    type: str
    memory_bytes: int
    simulated: bool = False


@dataclass(frozen=True)
class HostFacts:
    """What a host says of itself when it is contacted."""

    engine_id: str
    """The engine's own identity: two addresses with the same one are one host."""
    version: str = ""
    cpus: int = 0
    memory_bytes: int = 0
    nvidia: bool = False
    """Whether containers can be given NVIDIA GPUs there."""
    shares_images: bool = True
    """Whether its images can be copied to other hosts."""
    isolates: bool = True
    """Whether tasks have files of their own, so that mounts appear where they should."""
    problems: tuple[HostProblem, ...] = ()
