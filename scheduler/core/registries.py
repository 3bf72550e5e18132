"""Registries and repositories that names of images mean. Pure."""

from __future__ import annotations

DOCKER_HUB = "docker.io"
NO_LOGIN = 0
"""Id in place of a login: a pull without a login of its user or their group."""
_HUB_NAMES = frozenset({"index.docker.io", "registry-1.docker.io"})


def registry_named(host: str) -> str:
    """Return the one name of a registry that has several."""
    name = host.strip().lower()
    return DOCKER_HUB if name in _HUB_NAMES else name


def registry_of(image: str) -> str:
    """Return the registry that an image's name means, as Docker reads it."""
    return _split(image)[0]


def repository_of(image: str) -> str:
    """Return registry and repository of an image's name, without tag and digest."""
    registry, path = _split(image)
    path = path.partition("@")[0]
    folder, slash, last = path.rpartition("/")
    path = f"{folder}{slash}{last.partition(':')[0]}"
    if registry == DOCKER_HUB and "/" not in path:
        path = f"library/{path}"
    return f"{registry}/{path}"


def _split(image: str) -> tuple[str, str]:
    first, slash, rest = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return registry_named(first), rest
    return DOCKER_HUB, image
