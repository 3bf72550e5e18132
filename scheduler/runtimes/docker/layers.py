"""Image layers with requirements.

They are installed in a container of the base image, which is then committed as a separate image.
"""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import docker.errors

from schedulearn.scheduler.core.job_image import layer_tag, split_layered
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.runtimes.contract import FetchProgress
from schedulearn.scheduler.runtimes.docker.api import Engine, status_of
from schedulearn.scheduler.runtimes.docker.container import CAPABILITIES, PIDS
from schedulearn.scheduler.runtimes.installing import INSTALL_S, index_settings, installing, is_full, was_cut_short

LABEL_BASE = "schedulearn.layer.base"
"""Id of a layer's base image."""
LABEL_MAKER = "schedulearn.layer.maker"
"""Id of the service that built the layer."""
_FOLDER = "schedulearn-layer"
_LOOK_S = 1.0
_LAST_WORDS = 15
_SCRIPT = f"""cd /{_FOLDER} && . ./settings || exit
python3 -m pip install --no-cache-dir --no-input --disable-pip-version-check --root-user-action=ignore \\
    -r requirements.txt && cd / && rm -r /{_FOLDER}
"""


def is_current(api: Any, image: str) -> bool:
    """Whether the layer exists, and is based on the image that the base name currently refers to."""
    base, _ = split_layered(image)
    try:
        made = api.inspect_image(layer_tag(image))
        over = (made["Config"].get("Labels") or {}).get(LABEL_BASE)
        return bool(over == api.inspect_image(base)["Id"])
    except docker.errors.NotFound:
        return False


def add_layer(engine: Engine, image: str, requirements: Sequence[str], maker: str) -> Iterator[FetchProgress]:
    """Implement `Images.add_layer`. Closing the generator removes the unfinished container."""
    base, layer = split_layered(image)
    with engine.errors("install requirements"):
        api = engine.api
        if is_current(api, image):
            return
        try:
            found = api.inspect_image(base)
        except docker.errors.NotFound as error:
            raise ImageUnavailable(f"image {base!r} is missing, so nothing can be installed on top of it") from error
        container = _create(engine, found["Id"], layer_tag(image))  # its name may mean another image by now
        try:
            api.put_archive(container, "/", _files(requirements))
            api.start(container)
            yield from _follow(engine, container, requirements, f"the requirements on top of {base}")
            labels = {LABEL_BASE: found["Id"], LABEL_MAKER: maker, "schedulearn.layer": layer}
            labels = {**(found["Config"].get("Labels") or {}), **labels}
            config = {**found["Config"], "Labels": labels, "Entrypoint": found["Config"].get("Entrypoint") or []}
            repository, tag = layer_tag(image).split(":")
            api.commit(container, repository=repository, tag=tag, conf=config)
        finally:
            with suppress(docker.errors.DockerException, OSError):  # an earlier error is more informative
                api.remove_container(container, v=True, force=True)
    yield FetchProgress(100.0, f"installed {len(requirements)} requirements")


def _create(engine: Engine, base: str, tag: str) -> str:
    api, name = engine.api, tag.replace("/", "-").replace(":", "-")
    for _ in range(2):
        try:
            made = api.create_container(
                base,
                name=name,
                entrypoint=["sh", f"/{_FOLDER}/install.sh"],
                command=[],
                user="0",
                working_dir="/",
                labels={"schedulearn.layer.build": tag},
                # Installing runs code of the packages' authors and of the job's user, with a job's rights and no more.
                host_config=api.create_host_config(
                    init=True,
                    cap_drop=["ALL"],
                    cap_add=list(CAPABILITIES),
                    pids_limit=PIDS,
                    security_opt=["no-new-privileges"],
                ),
            )
            return str(made["Id"])
        except docker.errors.APIError as error:
            if status_of(error) != 409:
                raise
            _make_way(engine, name)
    raise RuntimeFault(f"a container {name} already exists on {engine.url}: remove it")


def _make_way(engine: Engine, name: str) -> None:
    """Remove an existing container of this name, unless it is running.

    A running one belongs to another service, or to one that has just ended."""
    try:
        if engine.api.inspect_container(name)["State"]["Running"]:
            raise RuntimeFault("another service is installing the same requirements there")
        engine.api.remove_container(name, v=True, force=True)
    except docker.errors.NotFound:
        pass


def _follow(engine: Engine, container: str, requirements: Sequence[str], what: str) -> Iterator[FetchProgress]:
    api = engine.api
    end = time.monotonic() + INSTALL_S
    words: list[str] = []
    while True:
        state: Mapping[str, Any] = api.inspect_container(container)["State"]
        words = api.logs(container, tail=_LAST_WORDS).decode(errors="replace").split("\n")
        if not state["Running"]:
            break
        if time.monotonic() > end:
            raise ImageUnavailable(f"{what} were not installed within {INSTALL_S:.0f} s")
        yield installing(requirements, words)
        _wait(api, container)
    if state["ExitCode"]:
        told = " ".join(line.strip() for line in words if line.strip())[-1500:]
        if state.get("OOMKilled") or was_cut_short(int(state["ExitCode"])):
            raise RuntimeFault(
                f"{what} could not be installed: the container was stopped from outside, or by its engine"
            )
        if is_full(told):
            raise RuntimeFault(engine.full(f"install {what}"))
        raise ImageUnavailable(f"{what} can't be installed: {told}")


def _wait(api: Any, container: str) -> None:
    """Wait until the container ends, at most `_LOOK_S` seconds."""
    end = time.monotonic() + _LOOK_S
    while time.monotonic() < end and api.inspect_container(container)["State"]["Running"]:
        time.sleep(0.1)


def _files(requirements: Sequence[str]) -> bytes:
    settings = "".join(f"export {name}='{value}'\n" for name, value in index_settings(os.environ).items())
    files = {"install.sh": _SCRIPT, "settings": settings, "requirements.txt": "\n".join(requirements) + "\n"}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"{_FOLDER}/{name}")
            entry.size, entry.mode = len(text.encode()), 0o600
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()
