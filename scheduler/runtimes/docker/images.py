"""Images on a Docker host: our own are built, others pulled."""

from __future__ import annotations

import queue
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import docker.errors
import requests
import urllib3
from docker.utils import parse_repository_tag

from schedulearn.scheduler.core.job_image import FRAMEWORKS, layer_tag, split_layered
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.runtimes.contract import FetchProgress, ListedImage, RegistryLogin
from schedulearn.scheduler.runtimes.docker.api import Engine, Stream, explain, status_of
from schedulearn.scheduler.runtimes.docker.layers import LABEL_BASE, add_layer, is_current
from schedulearn.scheduler.runtimes.docker.probe_image import probe_image, write_probe_files
from schedulearn.scheduler.runtimes.docker.registry_login import check_login, confirm, header_of, own_header, without
from schedulearn.scheduler.runtimes.installing import is_full, was_cut_short
from schedulearn.scheduler.runtimes.recipes import FLAVOURS, flavour_of, is_ours, recipe_path, run_recipe

SCRIPT = "build-image.sh"
PROBE_SCRIPT = "build-probe.sh"
HEARTBEAT_S = 2.0


class DockerImages:
    """`Images` of one engine. `closed` interrupts a fetch; `service` is the id of the service that builds layers."""

    def __init__(self, engine: Engine, closed: threading.Event | None = None, service: str = "") -> None:
        self._engine = engine
        self._service = service
        self._closed = closed or threading.Event()

    def name_for(self, image: str, launcher: str) -> str:
        return image

    def has(self, image: str) -> bool:
        with self._engine.errors("find an image"):
            try:
                if split_layered(image)[1]:
                    return is_current(self._engine.api, image)
                self._engine.api.inspect_image(image)
            except docker.errors.NotFound:
                return False
            except docker.errors.APIError as error:
                if error.is_client_error():  # not a valid name
                    return False
                raise
        return True

    def identify(self, image: str) -> tuple[str, ...]:
        found: list[str] = []
        name = layer_tag(image)
        with self._engine.errors("find an image"):
            while name and name not in found:
                try:
                    inspected = self._engine.api.inspect_image(name)
                except docker.errors.APIError as error:
                    if not error.is_client_error():
                        raise
                    break
                found.append(str(inspected["Id"]))
                name = str(((inspected.get("Config") or {}).get("Labels") or {}).get(LABEL_BASE, ""))
        return (*found, name) if found and name and name not in found else tuple(found)

    def listed(self) -> Mapping[str, ListedImage]:
        with self._engine.errors("list its images"):
            rows = self._engine.api.images(all=True)
        return {
            str(row["Id"]): ListedImage(
                (*(row.get("RepoTags") or ()), *(row.get("RepoDigests") or ())),
                str((row.get("Labels") or {}).get(LABEL_BASE, "")),
            )
            for row in rows
        }

    def confirm(self, image: str, login: RegistryLogin | None = None) -> None:
        confirm(self._engine, image, login)

    def check_login(self, login: RegistryLogin) -> str:
        return check_login(self._engine, login)

    def fetch(self, image: str, login: RegistryLogin | None = None) -> Iterator[FetchProgress]:
        for progress in _fetch(self._engine, image, login):
            if self._closed.is_set():
                raise RuntimeFault(f"fetching {image} was interrupted")
            yield progress

    def add_layer(self, image: str, requirements: Sequence[str]) -> Iterator[FetchProgress]:
        for progress in add_layer(self._engine, image, requirements, self._service):
            if self._closed.is_set():
                raise RuntimeFault(f"building {image} was interrupted")
            yield progress

    def save(self, image: str) -> Iterator[bytes]:
        engine = self._engine
        with engine.errors("export an image"):
            try:
                with engine.stream("GET", f"/images/{quote(image, safe='')}/get") as stream:
                    yield from stream.chunks()
            except docker.errors.NotFound as error:
                raise ImageUnavailable(f"image {image!r} is not on the host at {engine.url}") from error

    def load(self, archive: Iterable[bytes]) -> None:
        tar = {"Content-Type": "application/x-tar"}
        with (
            self._engine.errors("import an image"),
            self._engine.stream("POST", "/images/load", params={"quiet": 1}, data=archive, headers=tar) as stream,
        ):
            for event in stream.objects():
                if "error" in event:
                    raise RuntimeFault(
                        f"the Docker Engine at {self._engine.url} can't import the image: {event['error']}"
                    )

    def remove(self, image: str) -> None:
        with self._engine.errors("remove an image"):
            try:
                self._engine.api.remove_image(layer_tag(image))
            except docker.errors.APIError as error:
                if status_of(error) not in (404, 409):  # it is not there, or a container has it
                    raise


def _fetch(engine: Engine, image: str, login: RegistryLogin | None) -> Iterator[FetchProgress]:
    """Pull or build an image.

    Names below `schedulearn/` are never pulled from a registry, where anybody could own that name."""
    if not is_ours(image):
        return _pull(engine, image, login)
    if image == probe_image():
        return _build_probe(engine, image)
    flavour = flavour_of(image)
    if flavour is None:
        raise ImageUnavailable(
            f"unknown image {image!r}: only schedulearn/{{{','.join(FRAMEWORKS)}}} and "
            f"schedulearn/horovod-{{{','.join(FLAVOURS)}}} are built on the host; choose another name for your own "
            "image"
        )
    return _build(engine, image, flavour)


def _build(engine: Engine, image: str, flavour: str) -> Iterator[FetchProgress]:
    yield from run_recipe(
        recipe_path(SCRIPT), flavour, env=_for_scripts(engine), what=f"the image {image} on {engine.url}"
    )


def _build_probe(engine: Engine, image: str) -> Iterator[FetchProgress]:
    with tempfile.TemporaryDirectory(prefix="schedulearn-probe-") as folder:
        write_probe_files(Path(folder))
        script = recipe_path(PROBE_SCRIPT)
        yield from run_recipe(script, image, folder, env=_for_scripts(engine), what=f"the probe on {engine.url}")


def _for_scripts(engine: Engine) -> dict[str, str]:
    """Return the environment variables with which the docker command reaches this engine."""
    tls = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(engine.tls)} if engine.tls is not None else {}
    return {"DOCKER_HOST": engine.url, **tls}


def _pull(engine: Engine, image: str, login: RegistryLogin | None) -> Iterator[FetchProgress]:
    repository, tag = parse_repository_tag(image)
    layers = _Layers(image)
    yield layers.progress()
    with engine.errors("pull an image"):
        try:
            header, trouble = header_of(login) if login else own_header(engine, repository)
            with engine.stream(
                "POST",
                "/images/create",
                params={"fromImage": repository, "tag": tag or "latest"},  # without a tag, it pulls all tags
                headers=header,
            ) as stream:
                for event in _with_heartbeat(stream):
                    if event and "error" in event:
                        raise _not_pulled(engine, image, without(login, str(event["error"])) + trouble)
                    layers.take(event or {})
                    yield layers.progress()
        except docker.errors.InvalidRepository as error:
            raise _unavailable(image, str(error)) from error
        except docker.errors.APIError as error:
            raise _not_pulled(engine, image, without(login, explain(error)) + trouble) from None
    if not DockerImages(engine).has(image):
        raise RuntimeFault(f"the pull of {image!r} ended, but the image is missing")


def _not_pulled(engine: Engine, image: str, why: str) -> RuntimeFault:
    if is_full(why):
        return RuntimeFault(engine.full(f"pull {image!r}"))
    return (
        RuntimeFault(f"the pull of {image!r} was interrupted: {why}")
        if was_cut_short(1, why)
        else _unavailable(image, why)
    )


def _unavailable(image: str, why: str) -> ImageUnavailable:
    return ImageUnavailable(
        f"image {image!r} can't be pulled: {why.strip().rstrip('.')}. Check its name and tag, the host's network, and "
        "your login if the image is private: `schedulearn registry login`."
    )


def _with_heartbeat(stream: Stream) -> Iterator[dict[str, Any] | None]:
    """Yield the stream's objects.

    Yields None after each `HEARTBEAT_S` without one, so that a consumer can stop."""
    items: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()

    def pump() -> None:
        try:
            for item in stream.objects():
                items.put(item)
            items.put(None)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            items.put(error)

    thread = threading.Thread(target=pump, name="pull", daemon=True)
    thread.start()
    try:
        while True:
            try:
                item = items.get(timeout=HEARTBEAT_S)
            except queue.Empty:
                yield None
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stream.cancel()
        thread.join()


# Progress of a layer by its status. Unpacking takes about a third of the time.
_DONE = {
    "Verifying Checksum": 0.7,
    "Download complete": 0.7,
    "Pull complete": 1.0,
}
_GUESS = 1 << 20  # assumed bytes of a layer whose size is not known yet


@dataclass
class _Layers:
    """Overall progress of a pull. The percentage never falls, although new layers may appear."""

    image: str
    percent: float = 0.0
    done: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def take(self, event: dict[str, Any]) -> None:
        layer, status = event.get("id"), event.get("status", "")
        if not layer or status.startswith(("Pulling from", "Already exists")):
            return
        detail = event.get("progressDetail") or {}
        current, total = detail.get("current") or 0, detail.get("total") or 0
        if total > 0:
            self.sizes[layer] = max(total, self.sizes.get(layer, 0))
        share = min(1.0, current / total) if total > 0 else 0.0
        if status == "Downloading":
            done = 0.7 * share
        elif status == "Extracting":
            done = 0.7 + 0.3 * share
        else:
            done = _DONE.get(status, 0.0)
        self.done[layer] = max(done, self.done.get(layer, 0.0))
        weights = {each: self.sizes.get(each, _GUESS) for each in self.done}
        now = sum(weights[each] * self.done[each] for each in self.done) / sum(weights.values())
        self.percent = max(self.percent, round(100 * now, 1))

    def progress(self) -> FetchProgress:
        size = sum(self.sizes.values()) / 1e6
        return FetchProgress(self.percent, f"pulling {self.image}" + (f" ({size:,.0f} MB)" if size else ""))
