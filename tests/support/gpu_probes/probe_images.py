"""The probe's image as a host builds it, with a stand-in for the driver's library as if the host's toolkit had put it
there."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from gpu_probes.nvml_library import NAME, build_library
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.images import DockerImages
from schedulearn.scheduler.runtimes.docker.probe_image import probe_image

WITH_GPUS = "schedulearn-test/probe:1"
ENVIRONMENT = {"FAKE_NVML_GPUS": "8", "LD_LIBRARY_PATH": "/usr/lib"}


def image_with_gpus(engine: Engine, folder: Path) -> str:
    library = build_library(folder) / NAME
    for _ in DockerImages(engine).fetch(probe_image()):
        pass
    container = engine.api.create_container(probe_image())["Id"]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(library, f"usr/lib/{NAME}")
    engine.api.put_archive(container, "/", buffer.getvalue())
    engine.api.commit(container, *WITH_GPUS.split(":"))
    engine.api.remove_container(container)
    return WITH_GPUS
