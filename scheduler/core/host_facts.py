"""Facts that a host reports about itself. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostProblem:
    """Problem of a host that an operator can fix. `code` is stable."""

    code: str
    message: str


@dataclass(frozen=True)
class FoundGpu:
    """GPU as its host reports it on discovery, or a simulated one."""

    uuid: str
    ordinal: int
    type: str
    memory_bytes: int
    simulated: bool = False


@dataclass(frozen=True)
class HostFacts:
    """Facts that a host reports when it is contacted."""

    engine_id: str
    """Identity of the engine. Two addresses with the same identity are one host."""
    version: str = ""
    cpus: int = 0
    memory_bytes: int = 0
    nvidia: bool = False
    """Whether containers on the host can be given NVIDIA GPUs."""
    shares_images: bool = True
    """Whether its images can be copied to other hosts."""
    isolates: bool = True
    """Whether tasks have their own file system, so that mounts appear at their paths."""
    problems: tuple[HostProblem, ...] = ()
