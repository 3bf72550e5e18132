"""Registries and repositories, as Docker reads names of images."""

import pytest

from schedulearn.scheduler.core.registries import registry_of, repository_of


@pytest.mark.parametrize(
    ("image", "registry", "repository"),
    [
        ("python", "docker.io", "docker.io/library/python"),
        ("python:3.12", "docker.io", "docker.io/library/python"),
        ("index.docker.io/library/python", "docker.io", "docker.io/library/python"),
        ("pytorch/pytorch:2", "docker.io", "docker.io/pytorch/pytorch"),
        ("reg.lab/a/b:1@sha256:00", "reg.lab", "reg.lab/a/b"),
        ("Reg.Lab/a", "reg.lab", "reg.lab/a"),
        ("localhost/a", "localhost", "localhost/a"),
        ("127.0.0.1:5000/a:1", "127.0.0.1:5000", "127.0.0.1:5000/a"),
        ("sha256:00", "docker.io", "docker.io/library/sha256"),
    ],
)
def test_names(image: str, registry: str, repository: str) -> None:
    assert (registry_of(image), repository_of(image)) == (registry, repository)
