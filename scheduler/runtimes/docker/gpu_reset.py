"""Reset of a Docker host's GPU by a container that runs `nvidia-smi`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import docker.errors
import requests.exceptions

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.docker.api import explain

RESET_S = 120


def reset_there(
    api: Any, image: str, name: str, labels: Mapping[str, str], options: Mapping[str, Any], uuid: str
) -> None:
    """Reset the GPU `uuid`. Raises RuntimeFault, or the engine's own errors.

    `options` are the container options that give access to all GPUs."""
    words = ["nvidia-smi", "--gpu-reset", "-i", uuid]
    by_hand = f"run `{' '.join(words)}` there as root, then return the GPU"
    with suppress(docker.errors.NotFound):
        api.remove_container(name, v=True, force=True)
    host = api.create_host_config(**{"privileged": True, "pid_mode": "host", "network_mode": "none", **options})
    variables = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}
    container = api.create_container(
        image, [], entrypoint=words, name=name, environment=variables, labels=dict(labels), host_config=host
    )["Id"]
    try:
        try:
            api.start(container)
        except docker.errors.APIError as error:
            raise RuntimeFault(f"containers there can't run nvidia-smi ({explain(error)}): {by_hand}") from error
        try:
            code = int(api.wait(container, timeout=RESET_S)["StatusCode"])
        except (requests.exceptions.Timeout, requests.exceptions.ConnectionError) as error:
            raise RuntimeFault(f"nvidia-smi did not reset it within {RESET_S} s: reboot the host") from error
        if code:
            said = " ".join(api.logs(container, tail=5).decode(errors="replace").split())
            raise RuntimeFault(f"nvidia-smi did not reset it (exit code {code}): {said or 'no output'}")
    finally:
        with suppress(docker.errors.APIError):
            api.remove_container(container, v=True, force=True)
